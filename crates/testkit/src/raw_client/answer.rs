//! Parses the packets of a `fetch` response, from pieces of any size.

use super::Failure;

/// Longest pkt-line (gitprotocol-common, "pkt-line Format").
const MAX_PACKET_BYTES: usize = 65_520;

/// Bytes of band 2 that are kept.
const MAX_PROGRESS_BYTES: usize = 4 << 10;

/// A v2 response (gitprotocol-v2, "fetch"), as far as it arrived.
pub struct Answer {
    section: AnswerSection,
    part: Part,
    /// The packet's length, or a line.
    held: Vec<u8>,
    /// Remaining bytes of the packet.
    left: usize,
    error: Vec<u8>,
    /// The start of band 2.
    pub progress: Vec<u8>,
    /// Empty packets of band 1.
    pub keepalives: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerSection {
    /// Only for git://, before the first flush.
    Advertisement,
    /// Before `packfile`.
    Lines,
    Pack,
    Whole,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Length,
    Line,
    Band,
    Payload(u8),
}

impl Answer {
    /// Starts without data.
    pub fn new(has_advertisement: bool) -> Self {
        Answer {
            section: if has_advertisement { AnswerSection::Advertisement } else { AnswerSection::Lines },
            part: Part::Length,
            held: Vec::new(),
            left: 0,
            error: Vec::new(),
            progress: Vec::new(),
            keepalives: 0,
        }
    }

    /// Whether the last packet arrived.
    pub fn is_whole(&self) -> bool {
        self.section == AnswerSection::Whole
    }

    /// The server's refusal, if any.
    pub fn refusal(&self) -> Result<(), Failure> {
        if self.error.is_empty() {
            return Ok(());
        }
        Err(Failure::Refused(String::from_utf8_lossy(&self.error).trim_end().to_string()))
    }

    /// Parses the next bytes, and passes on the pack's bytes.
    pub fn push(&mut self, mut bytes: &[u8], pack: &mut impl FnMut(&[u8])) -> Result<(), Failure> {
        while !bytes.is_empty() {
            if self.section == AnswerSection::Whole {
                return Err(Failure::Broken("more behind the end".to_string()));
            }
            match self.part {
                Part::Length => {
                    let (digits, rest) = bytes.split_at(bytes.len().min(4 - self.held.len()));
                    self.held.extend_from_slice(digits);
                    bytes = rest;
                    if self.held.len() == 4 {
                        self.start_packet()?;
                    }
                }
                Part::Band => {
                    self.part = Part::Payload(bytes[0]);
                    bytes = &bytes[1..];
                    self.left -= 1;
                    self.keepalives += u64::from(self.part == Part::Payload(1) && self.left == 0);
                }
                Part::Line | Part::Payload(_) => {
                    let (payload, rest) = bytes.split_at(bytes.len().min(self.left));
                    bytes = rest;
                    self.left -= payload.len();
                    self.take(payload, pack)?;
                }
            }
            if self.left == 0 && self.part != Part::Length {
                self.end_packet();
            }
        }
        Ok(())
    }

    fn start_packet(&mut self) -> Result<(), Failure> {
        let digits = std::str::from_utf8(&self.held).ok();
        let length = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
        let Some(length) = length.filter(|length| *length <= MAX_PACKET_BYTES) else {
            return Err(Failure::Broken(format!("no length: {}", self.held.escape_ascii())));
        };
        self.held.clear();
        match (length, self.section) {
            (0, AnswerSection::Advertisement) => self.section = AnswerSection::Lines,
            (0, AnswerSection::Lines) if self.error.is_empty() => {
                return Err(Failure::Broken("an answer without a pack".to_string()));
            }
            (0, _) => self.section = AnswerSection::Whole,
            (1, AnswerSection::Lines) => {}
            (5.., AnswerSection::Pack) => (self.part, self.left) = (Part::Band, length - 4),
            (4.., _) => (self.part, self.left) = (Part::Line, length - 4),
            _ => return Err(Failure::Broken(format!("a packet of length {length}"))),
        }
        Ok(())
    }

    fn take(&mut self, payload: &[u8], pack: &mut impl FnMut(&[u8])) -> Result<(), Failure> {
        match self.part {
            Part::Payload(1) => pack(payload),
            Part::Payload(2) => {
                let room = MAX_PROGRESS_BYTES - self.progress.len();
                self.progress.extend_from_slice(&payload[..payload.len().min(room)]);
            }
            Part::Payload(3) => self.error.extend_from_slice(payload),
            Part::Payload(band) => return Err(Failure::Broken(format!("no band {band}"))),
            Part::Line | Part::Length | Part::Band => self.held.extend_from_slice(payload),
        }
        Ok(())
    }

    fn end_packet(&mut self) {
        if self.part == Part::Line {
            if let Some(text) = self.held.strip_prefix(b"ERR ") {
                self.error.extend_from_slice(text);
            }
            if self.section == AnswerSection::Lines && self.held == b"packfile\n" {
                self.section = AnswerSection::Pack;
            }
            self.held.clear();
        }
        self.part = Part::Length;
    }
}
