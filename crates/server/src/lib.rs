//! Serves and receives, over every transport: HTTP, HTTPS, git://, SSH, CGI, standard input and output.
//!
//! For hosts of git. Other programs start with [`embed::Git`]: a server without listeners, as a tower service
//! and on any pair of streams. It is no forge: users, pages and issues are the program's.
//!
//! ```no_run
//! use packrace_server::embed::Git;
//!
//! let git = Git::builder("/srv/git").build()?; // everybody may read, nobody may push
//! let service = git.http(); // for axum: Router::new().fallback_service(service)
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A transport ([`listen`], [`cgi`], [`stdio`]) takes a request; [`upload`] and [`receive`] answer it with a
//! protocol session; [`send`] frames the output and passes it to the kernel or to hyper. [`limits`] decides
//! which requests wait. [`access`] says who may do what. The API to rely on is [`embed`], [`access`] and
//! [`settings`]; the other modules are public for the `packrace` program and change more often.
//!
//! **Errors** reach the client in git's words, and the log with their cause ([`error`]).
//!
//! **What survives a crash.** A push that a client was told about is durable: objects, refs, and the line in
//! the journal of events, if there is one. Before that, a push leaves nothing behind.
//!
//! **Process-wide**: files are opened only below served folders, from the first server on. Only [`listen`]
//! takes signals.

#![forbid(unsafe_code)]

pub mod access;
mod admin;
pub mod auto_maintenance;
pub mod bundles;
mod caretaker;
pub mod cgi;
mod check_intervals;
pub mod embed;
pub mod error;
pub mod events;
#[doc(hidden)]
pub mod for_fuzzing;
mod git_daemon;
mod history;
pub mod host;
mod http;
pub mod limits;
pub mod listen;
pub mod maintenance;
pub mod metrics;
mod origin;
pub mod path_names;
pub mod program;
pub mod receive;
mod refs;
pub mod repositories;
pub mod repository_cache;
pub mod send;
pub mod serve_config;
mod service;
pub mod settings;
pub mod settings_file;
pub mod shell;
pub mod signature;
mod ssh;
pub mod ssh_keys;
pub mod stdio;
pub mod subject;
pub mod tls;
pub mod traced_phases;
pub mod transfers;
pub mod upload;
pub mod webhooks;
