//! The protocol of filter processes (gitattributes, "Long Running Filter Process"; technical/long-running-process-protocol).
//!
//! ```text
//! git-filter-client, version=2, flush          git-filter-server, version=2, flush
//! capability=clean, ..., flush                 capability=clean, ..., flush
//! command=clean, pathname=..., flush
//! content in packets, flush                    status=success, flush, content in packets, flush, [status=error,] flush
//! ```

use std::io::{self, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout};

use packrace_protocol::wire::pkt_line::{self, Decoder, FLUSH, MAX_PAYLOAD, PktLine};

/// Some processes refuse to start unless they are offered a delay, which no file is ever allowed.
const CAPABILITIES: [&str; 3] = ["clean", "smudge", "delay"];

/// A running filter process that has introduced itself.
pub(super) struct FilterProcess {
    pub(super) child: Child,
    input: ChildStdin,
    output: ChildStdout,
    received: Decoder,
    /// What it can do.
    capabilities: Vec<&'static str>,
}

/// What a process made of a file.
pub(super) enum FilterAnswer {
    /// The converted content.
    Content(Vec<u8>),
    /// It cannot convert this file, and goes on.
    Refused,
    /// It will convert no file in this way any more.
    Stopped,
    /// Anything else: it is not to be asked again.
    Broken,
}

impl FilterProcess {
    /// Introduces both sides to each other. The error is git's message, if there is one beside that of the end of the pipe.
    pub(super) fn greet(mut child: Child, command: &str) -> Result<Self, Option<String>> {
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else { return Err(None) };
        let (received, capabilities) = (Decoder::default(), Vec::new());
        let mut process = FilterProcess { child, input, output, received, capabilities };
        let sent = process.send_lines(&[b"git-filter-client", b"version=2"]);
        let greeting = sent.and_then(|()| process.line());
        let is_silent = |_| Some(format!("error: could not read greeting from subprocess '{command}'"));
        let expect = |line: Option<Vec<u8>>, wanted: &[u8], name: &str| match line {
            Some(line) if line == wanted => Ok(()),
            other => {
                let line = other.unwrap_or_else(|| b"<flush packet>".to_vec());
                let line = String::from_utf8_lossy(&line).into_owned();
                Err(Some(format!("error: Unexpected line '{line}', expected {name}")))
            }
        };
        expect(greeting.map_err(is_silent)?, b"git-filter-server", "git-filter-server")?;
        expect(process.line().map_err(|_| None)?, b"version=2", "version")?;
        if let Some(line) = process.line().map_err(|_| None)? {
            let line = String::from_utf8_lossy(&line);
            return Err(Some(format!("error: Unexpected line '{line}', expected flush")));
        }
        let offered = CAPABILITIES.map(|capability| format!("capability={capability}"));
        let offered: Vec<&[u8]> = offered.iter().map(String::as_bytes).collect();
        process.send_lines(&offered).map_err(|_| None)?;
        while let Some(line) = process.line().map_err(|_| None)? {
            let Some(name) = line.strip_prefix(b"capability=") else { continue };
            let known = CAPABILITIES.into_iter().find(|known| known.as_bytes() == name);
            process.capabilities.push(known.ok_or_else(|| {
                let name = String::from_utf8_lossy(name);
                Some(format!("fatal: subprocess '{command}' requested unsupported capability '{name}'"))
            })?);
        }
        Ok(process)
    }

    /// Whether it converts files in this way.
    pub(super) fn can(&self, way: &str) -> bool {
        self.capabilities.contains(&way)
    }

    /// Lets it convert a file. `facts` are what it is told besides.
    pub(super) fn convert(&mut self, way: &str, facts: &[(&str, Vec<u8>)], content: &[u8]) -> FilterAnswer {
        let answer = self.ask(way, facts, content).unwrap_or(FilterAnswer::Broken);
        if matches!(answer, FilterAnswer::Stopped) {
            self.capabilities.retain(|capability| *capability != way);
        }
        answer
    }

    fn ask(&mut self, way: &str, facts: &[(&str, Vec<u8>)], content: &[u8]) -> io::Result<FilterAnswer> {
        let mut lines = vec![[b"command=", way.as_bytes()].concat()];
        lines.extend(facts.iter().map(|(key, value)| [key.as_bytes(), b"=", value].concat()));
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        self.send_lines(&lines)?;
        let mut packet = Vec::with_capacity(content.len().min(MAX_PAYLOAD) + 4);
        for part in content.chunks(MAX_PAYLOAD) {
            packet.clear();
            pkt_line::write_data(part, &mut packet);
            self.input.write_all(&packet)?;
        }
        self.input.write_all(FLUSH)?;
        match self.status()?.as_deref() {
            Some(b"success") => {}
            Some(b"error") => return Ok(FilterAnswer::Refused),
            Some(b"abort") => return Ok(FilterAnswer::Stopped),
            _ => return Ok(FilterAnswer::Broken),
        }
        let mut converted = Vec::new();
        while self.packet(&mut converted)? {}
        // The process may report a failure after the content.
        Ok(match self.status()?.as_deref() {
            None | Some(b"success") => FilterAnswer::Content(converted),
            Some(b"error") => FilterAnswer::Refused,
            Some(b"abort") => FilterAnswer::Stopped,
            Some(_) => FilterAnswer::Broken,
        })
    }

    /// The last status of a list; `None` if it has none.
    fn status(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut status = None;
        while let Some(line) = self.line()? {
            if let Some(value) = line.strip_prefix(b"status=") {
                status = Some(value.to_vec());
            }
        }
        Ok(status)
    }

    /// Sends lines of text and a flush packet.
    fn send_lines(&mut self, lines: &[&[u8]]) -> io::Result<()> {
        let mut packets = Vec::new();
        for line in lines {
            if line.len() >= MAX_PAYLOAD {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            pkt_line::write_length(line.len() + 1, &mut packets);
            packets.extend_from_slice(line);
            packets.push(b'\n');
        }
        packets.extend_from_slice(FLUSH);
        self.input.write_all(&packets)
    }

    /// The next line; `None` at a flush packet.
    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut payload = Vec::new();
        let is_line = self.packet(&mut payload)?;
        Ok(is_line.then(|| pkt_line::text(&payload).to_vec()))
    }

    /// Appends the next payload; `false` at a flush packet.
    fn packet(&mut self, payload: &mut Vec<u8>) -> io::Result<bool> {
        let mut buffer = [0; 1 << 16];
        loop {
            match self.received.next().map_err(|refusal| io::Error::other(refusal.message().to_owned()))? {
                Some(PktLine::Data(data)) => {
                    payload.extend_from_slice(data);
                    return Ok(true);
                }
                Some(_) => return Ok(false),
                None => {}
            }
            match self.output.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.received.push(&buffer[..read]),
            }
        }
    }

    /// Closes its pipes, which ends the process.
    pub(super) fn into_child(self) -> Child {
        self.child
    }
}
