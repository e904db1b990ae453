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
mod no_place;
mod origin;
mod places;
mod pusher;
mod refusal_log;
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

/// What requests of strangers go through before anything is opened, for fuzz targets.
#[doc(hidden)]
pub mod for_fuzzing {
    use std::path::PathBuf;

    use super::root::check_path;
    use super::routes::{Route, percent_decode, route};

    /// The path below the served folder that a request of HTTP leads to.
    pub fn http_path(method: &str, path: &str, query: &str) -> Option<PathBuf> {
        let path = percent_decode(path)?;
        match route(method, &path, query) {
            Route::Advertise(_, path)
            | Route::Call(_, path)
            | Route::File(_, path)
            | Route::NotOffered(path) => Some(check_path(&path).ok()?.to_owned()),
            Route::NotAllowed(_) | Route::Unknown => None,
        }
    }

    /// The same for the first packet of git://.
    pub fn git_path(request: &[u8]) -> Option<PathBuf> {
        let path = super::git_daemon::path_of(request)?;
        Some(check_path(&path).ok()?.to_owned())
    }
}
