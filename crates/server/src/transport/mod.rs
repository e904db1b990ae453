//! The doors through which clients come.

mod access;
mod body;
mod call;
pub mod cgi;
mod conversation;
mod dumb;
mod git_daemon;
mod http;
mod http_connection;
mod places;
mod pusher;
mod root;
mod routes;
mod seeing;
pub mod serve;
pub mod settings;
mod shared;
mod signals;
pub mod stdio;
mod streamed_body;
mod tallied;
