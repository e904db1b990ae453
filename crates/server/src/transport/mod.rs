//! The doors through which clients come.

mod access;
mod body;
mod git_daemon;
mod http;
mod root;
pub mod serve;
pub mod settings;
pub mod stdio;
mod streamed_body;
