//! What to send and how: reachability, bitmaps, reuse, and the stream of segments.
//!
//! [`plan::plan`] turns a [`PackRequest`] into a [`plan::PackPlan`]: which objects, from which packs.
//! [`generate::PackStream`] turns the plan into [`generate::Segment`]s: ranges of mapped packs where stored
//! bytes can be sent unchanged. Neither opens a file: everything is read through one
//! [`packrace_store::Snapshot`], which the plan keeps alive.

#![forbid(unsafe_code)]

mod encode;
mod error;
pub mod ingest;
pub mod maintain;
mod marks;
pub mod meter;
mod names;
mod progress;
mod request_objects;
mod select;
mod settings;
mod walk;

pub use encode::generate;
pub use error::{Error, ErrorKind};
pub use ingest::unpack;
pub use names::{NameHash, NameHashVersion};
pub use progress::{NoProgress, Phase, ProgressSink, Totals};
pub use request_objects::RequestObjects;
pub use select::plan::PackRequest;
pub use select::{filter, islands, plan, reach};
pub use settings::{MAX_DEPTH, MAX_TREE_DEPTH, Settings};
pub use walk::{connectivity, negotiate, shallow};
