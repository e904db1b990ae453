//! The access log: one line a request, for people and for grep.

use std::fmt::Display;
use std::time::Instant;

/// Longest text of a request that is logged.
const MAX_REQUEST_CHARACTERS: usize = 300;

/// A request on its way to a log line.
#[derive(Debug)]
pub(super) struct Access {
    door: &'static str,
    peer: String,
    /// Escaped: it comes from a stranger.
    request: String,
    started: Instant,
}

impl Access {
    pub(super) fn new(door: &'static str, peer: &str, request: &[u8]) -> Self {
        let request = quoted(request);
        Access { door, peer: peer.to_owned(), request, started: Instant::now() }
    }

    /// Writes the line: how it ended, and how many bytes of the answer left.
    pub(super) fn end(&self, outcome: impl Display, bytes: u64) {
        let Access { door, peer, request, started } = self;
        let milliseconds = started.elapsed().as_millis();
        tracing::info!("{door} {peer} {request} {outcome}, {bytes} bytes, {milliseconds} ms");
    }
}

/// Bytes of a stranger in quotes, without control characters and not too long.
pub(super) fn quoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let shown: String = text.chars().take(MAX_REQUEST_CHARACTERS).collect();
    let dots = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown:?}{dots}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_forge_lines() {
        let check = |text: &[u8], expect: &str| assert_eq!(quoted(text), expect);
        check(b"git-upload-pack /a", "\"git-upload-pack /a\"");
        check(b"a\nINFO b\x1b[2J\"", "\"a\\nINFO b\\u{1b}[2J\\\"\"");
        check(&[b'x'; 400], &format!("\"{}\"…", "x".repeat(300)));
    }
}
