//! Git's commands as functions over plain options.
//!
//! Each command is a module with a function `run`. It takes a [`Call`] (global options, the environment as a
//! value, and the streams) and the options of the command, which are plain values ([`options`]). It returns
//! nothing, or a [`Fatal`] with git's message and exit code. So two calls in one process share no state:
//!
//! ```
//! use packrace_commands::options::{GlobalOptions, InitOptions};
//! use packrace_commands::{Call, Environment, Streams, init};
//!
//! let directory = std::env::temp_dir().join(format!("packrace-commands-{}", std::process::id()));
//! std::fs::create_dir_all(&directory)?;
//! let globals = GlobalOptions { directories: vec![directory.clone()], ..GlobalOptions::default() };
//! let variables = |name: &str| (name == "GIT_CONFIG_NOSYSTEM").then(|| "1".into());
//! let (streams, output, _) = Streams::in_memory("");
//! let call = Call::new(globals, Environment::from_lookup(&variables), streams);
//!
//! let options = InitOptions { bare: true, initial_branch: Some("main".into()), ..InitOptions::default() };
//! init::run(&call, &options).map_err(|fatal| fatal.message)?;
//! assert!(output.text().starts_with("Initialized empty Git repository in "));
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! These stay with the process:
//!
//! - Warnings of the store and other libraries (a broken ref, a damaged pack) are `tracing` events. To print
//!   them as `warning: …` lines, install a subscriber, as `packrace` does in `crates/cli`.
//! - A read of a mapping that the disk fails faults as set up with `packrace_os::faults`.
//! - Relative paths, also in [`GlobalOptions::directories`](options::GlobalOptions::directories), start from
//!   the current directory. Local times use the time zone of the process.
//! - Programs that a command starts (hooks, filters) inherit the process environment and the variables of
//!   [`Environment`].

#![forbid(unsafe_code)]
// These macros panic if the stream is closed or the disk is full, and the process's streams are not ours.
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod call;

pub mod add;
pub mod clone;
pub mod commit_graph;
pub mod commit_tree;
pub mod for_each_ref;
pub mod hash_object;
mod history;
mod hooks;
mod http_remote;
pub mod index_pack;
pub mod init;
mod lazy_fetch;
pub mod maintenance;
pub mod multi_pack_index;
pub mod numbers;
pub mod option_values;
pub mod options;
pub mod pack_objects;
pub mod pack_refs;
mod packs;
mod progress;
pub mod receive_pack;
mod ref_changes;
mod ref_filter;
pub mod reflog;
pub mod refs;
pub mod repack;
mod reports;
mod revisions;
pub mod show_ref;
pub mod stash;
pub mod symbolic_ref;
mod text;
pub mod trace2;
mod tracking;
pub mod unpack_objects;
pub mod update_index;
pub mod update_ref;
pub mod upload_pack;
pub mod verify_pack;
mod work_tree;
pub mod write_tree;

pub use call::Call;
pub use call::command_words;
pub use call::discovery::in_directory;
pub use call::environment::{ClassicTraceVariables, Environment, InitVariables};
pub use call::fatal::Fatal;
pub use call::identity::{Person, Role};
pub use call::left_to_git;
pub use call::printable::{harmless, one_line};
pub use call::streams::{ErrorOutput, Input, Output, Streams, Written};
pub use call::synopsis::synopsis;
pub use call::users::{self, User};
pub use work_tree::check_place;
