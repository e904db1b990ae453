//! What to send and how: reachability, bitmaps, reuse, and the stream of segments.
//!
//! [`plan::plan`] turns a [`PackRequest`] into a [`plan::PackPlan`]: which objects, from which packs. [`generate::PackStream`]
//! turns the plan into [`generate::Segment`]s, ranges of mapped packs wherever stored bytes can go out as they
//! are. Neither opens a file: everything is read through one [`packrace_store::Snapshot`], which the plan keeps alive.

#![forbid(unsafe_code)]

pub mod bitmap_build;
mod commits;
mod compose;
pub mod connectivity;
mod error;
pub mod filter;
pub mod generate;
pub mod ingest;
pub mod islands;
mod lenient_walk;
pub mod maintenance;
mod marks;
pub mod meter;
mod names;
pub mod negotiate;
pub mod plan;
mod promised;
pub mod reach;
mod settings;
pub mod shallow;
mod stored_entry;
mod trees;
mod universe;
pub mod unpack;
mod watch;

pub use error::{Error, ErrorKind};
pub use names::{NameHash, NameHashVersion};
pub use plan::PackRequest;
pub use settings::{MAX_DEPTH, MAX_TREE_DEPTH, Settings};
pub use universe::Universe;
pub use watch::{Phase, Unwatched, Watch};
