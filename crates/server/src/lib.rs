//! Serves and receives, over every transport: HTTP, HTTPS, git://, SSH, CGI, standard input and output.
//!
//! A transport ([`listen`], [`cgi`], [`stdio`]) takes a request; [`upload`] and [`receive`] answer it with a
//! protocol session; [`send`] frames the output and passes it to the kernel or to hyper. [`limits`] decides
//! which requests wait.

#![forbid(unsafe_code)]

pub mod access;
mod admin;
pub mod auto_maintenance;
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
mod ssh;
pub mod ssh_keys;
pub mod stdio;
pub mod subject;
pub mod tls;
pub mod transfers;
pub mod upload;
pub mod webhooks;
