//! Parses the body of an HTTP/1.1 response, from pieces of any size.

use super::Failure;

/// Longest response head, and longest chunk line.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Bytes of an error text that are kept.
const MAX_REFUSAL_BYTES: usize = 1 << 10;

/// A response (RFC 9112, sections 6 and 7), as far as it arrived.
#[derive(Default)]
pub struct Body {
    part: Part,
    /// The head, or the line before a chunk.
    held: Vec<u8>,
    /// A status other than success.
    status: Option<String>,
    refusal: Vec<u8>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    ChunkLine,
    Chunk(usize),
    /// The line end after a chunk.
    ChunkEnd,
    /// Lines after the last chunk.
    Trailers,
    Length(usize),
    UntilTheEnd,
}

impl Body {
    /// Parses the next bytes, and passes on the body's bytes.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        take: &mut impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let of_body = match &mut self.part {
                Part::Chunk(left) | Part::Length(left) if *left > 0 => {
                    let length = bytes.len().min(*left);
                    *left -= length;
                    length
                }
                Part::Chunk(_) => {
                    self.part = Part::ChunkEnd;
                    continue;
                }
                Part::UntilTheEnd => bytes.len(),
                Part::Trailers => return Ok(()),
                Part::Length(_) => return Err(Failure::Broken("more behind the body".to_string())),
                Part::Head | Part::ChunkLine | Part::ChunkEnd => {
                    self.held.push(bytes[0]);
                    bytes = &bytes[1..];
                    self.end_of_line()?;
                    continue;
                }
            };
            let (body, rest) = bytes.split_at(of_body);
            bytes = rest;
            if self.status.is_none() {
                take(body)?;
            } else {
                let room = MAX_REFUSAL_BYTES - self.refusal.len();
                self.refusal.extend_from_slice(&body[..body.len().min(room)]);
            }
        }
        Ok(())
    }

    /// Whether the response was a success; call it at the end of the data.
    pub fn end(&self) -> Result<(), Failure> {
        match &self.status {
            None => Ok(()),
            Some(status) if status.starts_with("503") => Err(Failure::Busy),
            Some(status) => {
                let text = String::from_utf8_lossy(&self.refusal);
                Err(Failure::Refused(format!("{status}: {}", text.trim_end())))
            }
        }
    }

    fn end_of_line(&mut self) -> Result<(), Failure> {
        let is_end = match self.part {
            Part::Head => self.held.ends_with(b"\r\n\r\n"),
            _ => self.held.ends_with(b"\r\n"),
        };
        if !is_end {
            let is_short = self.held.len() < MAX_HEAD_BYTES;
            return if is_short { Ok(()) } else { Err(Failure::Broken("an endless head".to_string())) };
        }
        let line = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        self.part = match self.part {
            Part::Head => self.start_body(&line),
            Part::ChunkEnd if line != "\r\n" => return Err(Failure::Broken("no end of a chunk".to_string())),
            Part::ChunkEnd => Part::ChunkLine,
            _ => match usize::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16) {
                Ok(0) => Part::Trailers,
                Ok(length) => Part::Chunk(length),
                Err(_) => return Err(Failure::Broken(format!("no chunk: {}", line.escape_debug()))),
            },
        };
        Ok(())
    }

    fn start_body(&mut self, head: &str) -> Part {
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split_once(' ')).map_or("", |(_, status)| status);
        if !status.starts_with("200") {
            self.status = Some(status.to_string());
        }
        let mut part = Part::UntilTheEnd;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            match (name.to_ascii_lowercase().as_str(), value.trim()) {
                ("transfer-encoding", "chunked") => return Part::ChunkLine,
                ("content-length", length) => {
                    part = length.parse().map_or(Part::UntilTheEnd, Part::Length);
                }
                _ => {}
            }
        }
        part
    }
}
