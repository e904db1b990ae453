//! Parses requests of strangers, before anything is opened, for fuzz targets.

use std::path::PathBuf;

use crate::http::routes::{Route, percent_decode, route};
use crate::service::root::check_path;
use crate::shell::ShellCommand;

/// The path below the served folder in an HTTP request.
pub fn http_path(method: &str, path: &str, query: &str) -> Option<PathBuf> {
    let path = percent_decode(path)?;
    match route(method, &path, query) {
        Route::Advertise(_, path)
        | Route::Call(_, path)
        | Route::File(_, path)
        | Route::Bundle(_, path)
        | Route::NotOffered(path) => Some(check_path(&path).ok()?.to_owned()),
        Route::NotAllowed(_) | Route::Unknown => None,
    }
}

/// The same for the first packet of git://.
pub fn git_path(request: &[u8]) -> Option<PathBuf> {
    let path = crate::git_daemon::path_of(request)?;
    Some(check_path(&path).ok()?.to_owned())
}

/// The same for the command of an SSH client.
pub fn shell_path(command: &[u8]) -> Option<PathBuf> {
    let command = ShellCommand::parse(command).ok()?;
    Some(check_path(&command.request_path()).ok()?.to_owned())
}

/// Parses a text as each of the access files, and asks the rules for a path.
pub fn access_files(text: &str, path: &[u8]) {
    crate::access::fuzzed::files(text, path);
}

/// Parses the value of a header as credentials, as a user that a proxy names, and as addresses of clients.
pub fn access_headers(value: &[u8]) {
    crate::access::fuzzed::headers(value);
}
