//! The ref updates that a pushing client requests (gitprotocol-pack, "Reference Update Request and
//! Packfile Transfer").
//!
//! ```text
//! PKT-LINE(<old> SP <new> SP <name> [NUL capabilities])      zeroes for a ref that does not exist, or is deleted
//! ```

use packrace_object::{HashKind, ObjectId};

use super::{parse_id, write_hex};
use crate::wire::pkt_line::write_data;

/// One change of a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushCommand {
    /// The ref's value as the client saw it; null if the ref did not exist.
    pub old: ObjectId,
    /// The new value; null to delete the ref.
    pub new: ObjectId,
    /// The name as the client sent it: any bytes except NUL.
    pub name: Vec<u8>,
}

impl PushCommand {
    /// Parses a line without its newline and capabilities.
    pub fn parse(line: &[u8], hash: HashKind) -> Option<Self> {
        let hex = hash.len_in_hex();
        let (old, rest) = line.split_at_checked(hex)?;
        let (new, name) = rest.strip_prefix(b" ")?.split_at_checked(hex)?;
        let name = name.strip_prefix(b" ")?.to_vec();
        Some(PushCommand { old: parse_id(old, hash)?, new: parse_id(new, hash)?, name })
    }

    /// Appends `old SP new SP name`.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        write_hex(&self.old, out);
        out.push(b' ');
        write_hex(&self.new, out);
        out.push(b' ');
        out.extend_from_slice(&self.name);
    }

    /// Appends a packet; the first one carries capabilities. The name must fit.
    pub fn write(&self, capabilities: Option<&[u8]>, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        self.write_text(&mut payload);
        if let Some(list) = capabilities {
            payload.push(0);
            payload.extend_from_slice(list);
        }
        write_data(&payload, out);
    }

    /// Whether the command deletes the ref.
    pub fn is_delete(&self) -> bool {
        self.new.is_null()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef01234567";
    const ZERO: &str = "0000000000000000000000000000000000000000";

    fn check(line: &str, expect: Option<(&str, bool)>) {
        let command = PushCommand::parse(line.as_bytes(), HashKind::Sha1);
        let got = command
            .as_ref()
            .map(|command| (String::from_utf8_lossy(&command.name).into_owned(), command.is_delete()));
        assert_eq!(got, expect.map(|(name, gone)| (name.to_owned(), gone)), "{line}");
        if let Some(command) = command {
            let mut out = Vec::new();
            command.write(Some(b"caps"), &mut out);
            assert_eq!(out, format!("{:04x}{line}\0caps", line.len() + 9).into_bytes());
        }
    }

    #[test]
    fn lines_both_ways() {
        check(&format!("{ZERO} {A} refs/heads/a"), Some(("refs/heads/a", false)));
        check(&format!("{A} {ZERO} refs/heads/a b"), Some(("refs/heads/a b", true)));
        check(&format!("{A} {A} "), Some(("", false)));
        check(&format!("{A} {A}"), None);
        check(&format!("{A}  {A} refs/heads/a"), None);
        check(&format!("{A} {A}0 refs/heads/a"), None);
        check(&format!("{A} {} refs/heads/a", "g".repeat(40)), None);
        check("", None);
        check(A, None);
    }
}
