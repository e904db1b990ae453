//! `GIT_TRACE_CURL` (git(1)): the requests of `clone` and their responses. There is no curl; the lines are like git's.

use std::fmt::Write as _;

use packrace_client::HttpPart;

use super::classic::ClassicLog;
use crate::call::Call;

/// Bytes of data in a line.
const LINE_BYTES: usize = 60;

/// Header fields whose value is a scheme and a secret, and those with cookies.
const AUTHORIZATIONS: [&str; 2] = ["authorization", "proxy-authorization"];
const COOKIES: [&str; 2] = ["cookie", "set-cookie"];

/// The trace of a connection.
pub(crate) struct HttpTrace {
    log: ClassicLog,
    has_data: bool,
    redacts: bool,
}

impl HttpTrace {
    /// The trace that the environment asks for.
    pub(crate) fn open(call: &Call) -> Option<Self> {
        let traces = &call.environment.classic_traces;
        let log = ClassicLog::open(call, "GIT_TRACE_CURL", &traces.curl)?;
        Some(HttpTrace { log, has_data: !traces.hides_data, redacts: traces.redacts })
    }

    pub(crate) fn part(&mut self, part: HttpPart<'_>) {
        match part {
            HttpPart::Connecting(place) => self.log.line(&format!("== Info:   Trying {place}...")),
            HttpPart::SentHead(head) => self.head("=> Send header", head),
            HttpPart::ReceivedHead(head) => self.head("<= Recv header", head),
            HttpPart::SentData(data) => self.data("=> Send data", data),
            HttpPart::ReceivedData(data) => self.data("<= Recv data", data),
        }
    }

    fn head(&mut self, what: &str, head: &str) {
        self.length(what, head.len());
        for line in head.split_terminator("\r\n") {
            let line = if self.redacts { redacted(line) } else { line.to_owned() };
            self.log.line(&format!("{what}: {}", shown(line.as_bytes())));
        }
    }

    fn data(&mut self, what: &str, data: &[u8]) {
        if self.has_data {
            self.length(what, data.len());
            data.chunks(LINE_BYTES).for_each(|line| self.log.line(&format!("{what}: {}", shown(line))));
        }
    }

    fn length(&mut self, what: &str, bytes: usize) {
        self.log.line(&format!("{what}, {bytes:010} bytes (0x{bytes:08x})"));
    }
}

/// Text with a dot for each byte that cannot be shown.
fn shown(bytes: &[u8]) -> String {
    let char_of = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' };
    bytes.iter().map(char_of).collect()
}

/// A field without its secrets.
fn redacted(line: &str) -> String {
    let Some((name, value)) = line.split_once(':') else { return line.to_owned() };
    let is_one_of = |names: &[&str]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
    let value = value.trim_start();
    if is_one_of(&AUTHORIZATIONS) {
        let scheme = value.split(' ').next().unwrap_or_default();
        return format!("{name}: {scheme} <redacted>");
    }
    if !is_one_of(&COOKIES) {
        return line.to_owned();
    }
    let mut text = format!("{name}:");
    for (at, cookie) in value.split("; ").enumerate() {
        let separator = if at == 0 { " " } else { "; " };
        let name = cookie.split_once('=').map_or("", |(name, _)| name);
        let _ = write!(text, "{separator}{name}=<redacted>");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::streams::{ErrorOutput, Written};

    fn check(redacts: bool, has_data: bool, part: HttpPart<'_>, expect: &str) {
        let written = Written::default();
        let log = ClassicLog::to(ErrorOutput::new(written.clone()));
        HttpTrace { log, has_data, redacts }.part(part);
        assert_eq!(written.text(), expect);
    }

    #[test]
    fn secrets_are_left_out() {
        let head = "GET / HTTP/1.1\r\nauthorization: Basic c2VjcmV0\r\nCookie: a=b; c=d; e\r\nset-cookie: x=y=z\r\n\
                    Proxy-Authorization:token\r\nx: y\r\n\r\n";
        let lines = [
            "GET / HTTP/1.1",
            "authorization: Basic <redacted>",
            "Cookie: a=<redacted>; c=<redacted>; =<redacted>",
        ];
        let others = ["set-cookie: x=<redacted>", "Proxy-Authorization: token <redacted>", "x: y", ""];
        let lines: String =
            lines.iter().chain(&others).map(|line| format!("=> Send header: {line}\n")).collect();
        let expect = format!("=> Send header, 0000000{} bytes (0x{:08x})\n{lines}", head.len(), head.len());
        check(true, true, HttpPart::SentHead(head), &expect);
        let whole =
            "<= Recv header, 0000000015 bytes (0x0000000f)\n<= Recv header: cookie: a=b\n<= Recv header: \n";
        check(false, true, HttpPart::ReceivedHead("cookie: a=b\r\n\r\n"), whole);
    }

    #[test]
    fn data_in_lines() {
        let data = [&[b'x'; 61][..], b"\0\n"].concat();
        let expect = format!(
            "<= Recv data, 0000000063 bytes (0x0000003f)\n<= Recv data: {}\n<= Recv data: x..\n",
            "x".repeat(60)
        );
        check(true, true, HttpPart::ReceivedData(&data), &expect);
        check(true, false, HttpPart::ReceivedData(&data), "");
    }
}
