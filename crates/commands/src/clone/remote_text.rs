//! A server's messages to the user, line by line.

use std::io::Write;

use crate::call::printable::harmless_bytes;
use crate::call::streams::ErrorOutput;

/// Longest line; a longer one is cut.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Prefixes each line with `remote: `, as git does.
pub struct RemoteText<W> {
    out: W,
    line: Vec<u8>,
    /// Erases the rest of a longer line that this one overwrites.
    suffix: &'static [u8],
}

impl RemoteText<ErrorOutput> {
    /// Writes to the error output of a call.
    pub fn to_errors(out: ErrorOutput) -> Self {
        let suffix: &[u8] = if out.is_terminal() { b"\x1b[K" } else { b"        " };
        RemoteText { out, line: Vec::new(), suffix }
    }
}

impl<W: Write> RemoteText<W> {
    /// Takes text, and writes the complete lines.
    pub fn say(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                b'\n' | b'\r' => self.end_line(*byte),
                byte => {
                    self.line.push(*byte);
                    if self.line.len() >= MAX_LINE_BYTES {
                        self.end_line(b'\n');
                    }
                }
            }
        }
    }

    /// Writes the rest of an unfinished line.
    pub fn finish(&mut self) {
        if !self.line.is_empty() {
            self.end_line(b'\n');
        }
    }

    /// Writes the server's last error message.
    pub fn last_words(&mut self, words: &[u8]) {
        self.finish();
        let mut line = b"remote: ".to_vec();
        line.extend(harmless_bytes(words.trim_ascii_end()));
        line.push(b'\n');
        let _ = self.out.write_all(&line);
    }

    /// One write per line; errors are ignored.
    fn end_line(&mut self, end: u8) {
        let mut out = b"remote: ".to_vec();
        if !self.line.is_empty() {
            out.extend(harmless_bytes(&self.line));
            out.extend_from_slice(self.suffix);
        }
        out.push(end);
        self.line.clear();
        let _ = self.out.write_all(&out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], expect: &str) {
        let mut out = Vec::new();
        let mut text = RemoteText { out: &mut out, line: Vec::new(), suffix: b"|" };
        pieces.iter().for_each(|piece| text.say(piece.as_bytes()));
        text.finish();
        assert_eq!(String::from_utf8_lossy(&out), expect);
    }

    #[test]
    fn lines() {
        check(&[], "");
        check(&["hello\n"], "remote: hello|\n");
        check(&["he", "llo\n", "x"], "remote: hello|\nremote: x|\n");
        check(&["1%\r", "2%\rdone\n"], "remote: 1%|\rremote: 2%|\rremote: done|\n");
        check(&["\n\n"], "remote: \nremote: \n");
        check(&["a\x1b[2J\x07\tb\n"], "remote: a?[2J?\tb|\n");
        check(&["a\u{9b}2J", "ä\u{85}\n"], "remote: a?2Jä?|\n");
    }
}
