//! What to send and how: reachability, bitmaps, reuse, and the stream of segments. And packs that arrive.
//!
//! For servers, mirrors, backups and repacks. It speaks no protocol (`packrace-protocol` does), and writes
//! into repositories only through [`packrace_store::publish`].
//!
//! - Making: [`plan::plan`] turns a [`PackRequest`] into a [`plan::PackPlan`]: which objects, from which
//!   packs. [`generate::PackStream`] turns the plan into [`generate::Segment`]s: ranges of mapped packs where
//!   stored bytes can be sent unchanged. Neither opens a file: everything is read through one
//!   [`packrace_store::Snapshot`], which the plan keeps alive.
//! - Receiving: [`ingest`] indexes, checks and publishes a pack; [`unpack`] makes loose objects of it.
//!   [`connectivity`] checks that all that new refs reach exists.
//! - [`negotiate`], [`shallow`], [`reach`], [`filter`]: parts of the answer to a fetch. [`maintain`]: what a
//!   repack keeps.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//! use packrace_pack::{NoProgress, PackRequest, RequestObjects, generate::PackStream, plan::plan};
//! use packrace_store::{OpenOptions, Repository};
//!
//! /// A pack of everything that `HEAD` reaches.
//! fn pack_of_head(repository: &Path) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
//!     let repository = Repository::open(repository, &OpenOptions::default())?;
//!     let head = repository.refs().resolve(b"HEAD")?.ok_or("HEAD is unborn")?;
//!     let objects = Arc::new(RequestObjects::new(repository.snapshot()?));
//!     let request = PackRequest { wants: vec![head.id], ofs_delta: true, ..PackRequest::default() };
//!     let mut stream = PackStream::new(plan(&objects, &request, &NoProgress)?);
//!     let mut pack = Vec::new();
//!     while let Some(segment) = stream.next_segment(&NoProgress)? {
//!         pack.extend_from_slice(segment.bytes());
//!     }
//!     Ok(pack)
//! }
//! # let repo = packrace_testkit::RepoBuilder::new(packrace_testkit::Size::Tiny).build();
//! # assert!(pack_of_head(repo.path()).unwrap().starts_with(b"PACK\0\0\0\x02"));
//! ```
//!
//! **Errors.** [`Error`] for making, [`ingest::IngestError`] for receiving; `kind()` says what a caller can
//! do. A stream that fails has given out no trailer, so nobody takes its bytes for a pack.
//!
//! **What survives a crash.** A pack that is received is durable when it is published, and before that leaves
//! at most a temporary file.
//!
//! **Trust.** Packs and deltas from outside may hold anything: no panic, and memory within the limits of
//! [`ingest::IngestOptions`]. Work stops when a [`ProgressSink`] says so. Sizes are in bytes.

#![forbid(unsafe_code)]

mod encode;
mod error;
pub mod ingest;
mod kept_deltas;
mod loaded_commits;
pub mod maintain;
mod marks;
pub mod meter;
mod names;
mod object_no;
mod progress;
mod request_objects;
mod select;
mod settings;
mod threads;
mod walk;

pub use encode::generate;
pub use error::{Error, ErrorKind};
pub use ingest::unpack;
pub use kept_deltas::{KeptDeltas, RepositoryDeltas};
pub use names::{NameHash, NameHashVersion};
pub use progress::{BitmapTotals, BitmapUse, NoProgress, Phase, ProgressSink, RepackPart, Totals};
pub use request_objects::RequestObjects;
pub use select::plan::PackRequest;
pub use select::{filter, islands, plan, reach, ref_pattern};
pub use settings::{MAX_DEPTH, MAX_TREE_DEPTH, PackReuseScope, Settings};
pub use walk::{connectivity, negotiate, shallow};
