//! Answers to haves: `ACK` and `NAK` (gitprotocol-pack, "Packfile Negotiation"; gitprotocol-v2, "acknowledgments section").

use packrace_object::{HashKind, ObjectId, oid};

use super::{parse_id, write_hex};
use crate::wire::pkt_line::{write_length, write_text};

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgment {
    /// `NAK`: nothing in common so far.
    Nak,
    /// `ACK <id>` and its meaning.
    Ack(ObjectId, Meaning),
    /// `ready`, in version 2: a pack follows.
    Ready,
}

/// The meaning of an `ACK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// `ACK <id>`: in version 0 the last one, followed by the pack; in version 2 a common object.
    Plain,
    /// `ACK <id> continue` of `multi_ack`.
    Continue,
    /// `ACK <id> common` of `multi_ack_detailed`: both sides have it.
    Common,
    /// `ACK <id> ready` of `multi_ack_detailed`: more haves would not help.
    Ready,
}

impl Meaning {
    fn suffix(self) -> &'static [u8] {
        match self {
            Meaning::Plain => b"",
            Meaning::Continue => b" continue",
            Meaning::Common => b" common",
            Meaning::Ready => b" ready",
        }
    }
}

/// Appends an `ACK`.
pub fn write_ack(out: &mut Vec<u8>, id: &oid, meaning: Meaning) {
    let suffix = meaning.suffix();
    write_length(4 + id.as_bytes().len() * 2 + suffix.len() + 1, out);
    out.extend_from_slice(b"ACK ");
    write_hex(id, out);
    out.extend_from_slice(suffix);
    out.push(b'\n');
}

/// Appends `NAK`.
pub fn write_nak(out: &mut Vec<u8>) {
    write_text("NAK", out);
}

/// Appends `ready`.
pub fn write_ready(out: &mut Vec<u8>) {
    write_text("ready", out);
}

/// Reads a line.
pub fn parse(line: &[u8], hash: HashKind) -> Option<Acknowledgment> {
    match line {
        b"NAK" => return Some(Acknowledgment::Nak),
        b"ready" => return Some(Acknowledgment::Ready),
        _ => {}
    }
    let (id, suffix) = line.strip_prefix(b"ACK ")?.split_at_checked(hash.len_in_hex())?;
    let id = parse_id(id, hash)?;
    let meanings = [Meaning::Plain, Meaning::Continue, Meaning::Common, Meaning::Ready];
    let meaning = meanings.into_iter().find(|meaning| meaning.suffix() == suffix)?;
    Some(Acknowledgment::Ack(id, meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Option<Acknowledgment>) {
        assert_eq!(parse(line.as_bytes(), HashKind::Sha1), expect, "{line}");
        let mut out = Vec::new();
        match expect {
            Some(Acknowledgment::Nak) => write_nak(&mut out),
            Some(Acknowledgment::Ready) => write_ready(&mut out),
            Some(Acknowledgment::Ack(id, meaning)) => write_ack(&mut out, &id, meaning),
            None => return,
        }
        assert_eq!(out, format!("{:04x}{line}\n", line.len() + 5).into_bytes());
    }

    #[test]
    fn lines_both_ways() {
        let id = ObjectId::from_hex(b"0123456789abcdef0123456789abcdef01234567").unwrap();
        let ack = |meaning| Some(Acknowledgment::Ack(id, meaning));
        check("NAK", Some(Acknowledgment::Nak));
        check("ready", Some(Acknowledgment::Ready));
        check(&format!("ACK {id}"), ack(Meaning::Plain));
        check(&format!("ACK {id} continue"), ack(Meaning::Continue));
        check(&format!("ACK {id} common"), ack(Meaning::Common));
        check(&format!("ACK {id} ready"), ack(Meaning::Ready));
        for line in ["", "ACK", "ACK ", "ACK 0123", &format!("ACK {id}0"), &format!("ACK {id} later"), "NAK "]
        {
            check(line, None);
        }
    }
}
