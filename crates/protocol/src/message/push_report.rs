//! The result of a push (gitprotocol-pack, "Report Status").
//!
//! ```text
//! unpack ok | unpack <why>
//! ok <ref>                      version 2: option refname|old-oid|new-oid <value>, then option forced-update
//! ng <ref> <why>
//! 0000
//! ```

use packrace_object::{HashKind, ObjectId};

use super::{parse_id, write_hex};
use crate::wire::pkt_line::{FLUSH, MAX_PAYLOAD, write_data};

/// The report formats that a client may understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReportForm {
    /// No report.
    #[default]
    None,
    /// `report-status`.
    V1,
    /// `report-status-v2`: includes the changes that a hook made instead.
    V2,
}

/// The result of a push.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PushReport {
    /// Why the objects were rejected, if they were.
    pub unpack_error: Option<String>,
    /// One for each command, in the same order.
    pub refs: Vec<RefReport>,
}

/// The result of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefReport {
    /// The name in the command.
    pub name: Vec<u8>,
    /// How it ended.
    pub outcome: RefOutcome,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefOutcome {
    /// The ref was changed as requested; if the list is not empty, a hook made these changes instead.
    Ok(Vec<Rewritten>),
    /// The ref is unchanged, for this reason.
    Rejected(Vec<u8>),
}

/// What a hook did in place of a command. Missing fields are those of the command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rewritten {
    /// The ref that was changed.
    pub name: Option<Vec<u8>>,
    /// Its previous value.
    pub old: Option<ObjectId>,
    /// Its new value.
    pub new: Option<ObjectId>,
    /// The new object does not descend from the old one.
    pub is_forced: bool,
}

impl PushReport {
    /// Appends the report and a flush.
    pub fn write(&self, form: ReportForm, out: &mut Vec<u8>) {
        if form == ReportForm::None {
            return;
        }
        let unpacked = self.unpack_error.as_deref().unwrap_or("ok");
        write_line(&[b"unpack ", unpacked.as_bytes()], out);
        for RefReport { name, outcome } in &self.refs {
            match outcome {
                RefOutcome::Rejected(why) => write_line(&[b"ng ", name, b" ", why], out),
                RefOutcome::Ok(rewritten) if rewritten.is_empty() || form == ReportForm::V1 => {
                    write_line(&[b"ok ", name], out);
                }
                RefOutcome::Ok(rewritten) => {
                    for what in rewritten {
                        write_line(&[b"ok ", name], out);
                        what.write(out);
                    }
                }
            }
        }
        out.extend_from_slice(FLUSH);
    }
}

impl Rewritten {
    fn write(&self, out: &mut Vec<u8>) {
        if let Some(name) = &self.name {
            write_line(&[b"option refname ", name], out);
        }
        for (word, id) in [(&b"option old-oid "[..], &self.old), (b"option new-oid ", &self.new)] {
            if let Some(id) = id {
                let mut hex = Vec::new();
                write_hex(id, &mut hex);
                write_line(&[word, &hex], out);
            }
        }
        if self.is_forced {
            write_line(&[b"option forced-update"], out);
        }
    }
}

/// One line of a report, or of an answer of the hook `proc-receive` (githooks), which has the same form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportLine<'a> {
    /// `unpack <result>`.
    Unpack(&'a [u8]),
    /// `ok <ref>`.
    Ok(&'a [u8]),
    /// `ng <ref> <why>`.
    Rejected(&'a [u8], &'a [u8]),
    /// `option <key> [<value>]`.
    Option(&'a [u8], Option<&'a [u8]>),
}

impl<'a> ReportLine<'a> {
    /// Parses a line without its newline.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let (word, rest) = split(line)?;
        match (word, rest) {
            (b"unpack", Some(result)) => Some(ReportLine::Unpack(result)),
            (b"ok", Some(rest)) => Some(ReportLine::Ok(split(rest)?.0)),
            (b"ng", Some(rest)) => {
                let (name, why) = split(rest)?;
                Some(ReportLine::Rejected(name, why.unwrap_or(b"failed")))
            }
            (b"option", Some(rest)) => {
                let (key, value) = split(rest)?;
                Some(ReportLine::Option(key, value))
            }
            _ => None,
        }
    }
}

impl Rewritten {
    /// Applies an option of a hook or a report; `false` if it does not concern a rewritten ref.
    pub fn take(&mut self, key: &[u8], value: Option<&[u8]>, hash: HashKind) -> bool {
        match (key, value) {
            (b"refname", Some(name)) => self.name = Some(name.to_vec()),
            (b"old-oid", Some(id)) => self.old = parse_id(id, hash),
            (b"new-oid", Some(id)) => self.new = parse_id(id, hash),
            (b"forced-update", _) => self.is_forced = true,
            _ => return false,
        }
        true
    }
}

/// Splits off the first word.
fn split(text: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    match text.iter().position(|byte| *byte == b' ') {
        Some(0) => None,
        Some(at) => Some((&text[..at], Some(&text[at + 1..]))),
        None if text.is_empty() => None,
        None => Some((text, None)),
    }
}

/// Names and reasons may come from the client or a hook, so they are truncated to fit a packet.
fn write_line(parts: &[&[u8]], out: &mut Vec<u8>) {
    let mut line = parts.concat();
    line.truncate(MAX_PAYLOAD - 1);
    line.push(b'\n');
    write_data(&line, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pkt_line::{Decoder, PktLine, text};

    fn check(report: &PushReport, form: ReportForm, expect: &[&str]) {
        let mut out = Vec::new();
        report.write(form, &mut out);
        let mut decoder = Decoder::default();
        decoder.push(&out);
        let mut lines = Vec::new();
        while let Some(packet) = decoder.next().unwrap() {
            match packet {
                PktLine::Data(data) => {
                    assert!(ReportLine::parse(text(data)).is_some());
                    lines.push(String::from_utf8_lossy(text(data)).into_owned());
                }
                other => lines.push(format!("{other:?}")),
            }
        }
        assert_eq!(lines, expect);
    }

    #[test]
    fn all_forms() {
        let id = ObjectId::null(HashKind::Sha1);
        let hex = id.to_string();
        let rewritten = [
            Rewritten { name: Some(b"refs/pull/1".to_vec()), is_forced: true, ..Rewritten::default() },
            Rewritten { old: Some(id), new: Some(id), ..Rewritten::default() },
        ];
        let named = |name: &str, outcome| RefReport { name: name.as_bytes().to_vec(), outcome };
        let report = PushReport {
            unpack_error: None,
            refs: vec![
                named("refs/heads/a", RefOutcome::Ok(Vec::new())),
                named("refs/heads/b", RefOutcome::Rejected(b"hook declined".to_vec())),
                named("refs/for/c", RefOutcome::Ok(rewritten.to_vec())),
            ],
        };
        let head = ["unpack ok", "ok refs/heads/a", "ng refs/heads/b hook declined", "ok refs/for/c"];
        check(&report, ReportForm::None, &[]);
        check(&report, ReportForm::V1, &[&head[..], &["Flush"]].concat());
        let first = ["option refname refs/pull/1", "option forced-update", "ok refs/for/c"];
        let second = [&*format!("option old-oid {hex}"), &*format!("option new-oid {hex}"), "Flush"];
        check(&report, ReportForm::V2, &[&head[..], &first, &second].concat());
        let failed =
            PushReport { unpack_error: Some("index-pack abnormal exit".into()), ..PushReport::default() };
        check(&failed, ReportForm::V1, &["unpack index-pack abnormal exit", "Flush"]);
    }

    #[test]
    fn lines_are_read() {
        let check = |line: &str, expect| assert_eq!(ReportLine::parse(line.as_bytes()), expect, "{line}");
        check("unpack ok", Some(ReportLine::Unpack(b"ok")));
        check("ok refs/heads/a", Some(ReportLine::Ok(b"refs/heads/a")));
        check("ok a ", Some(ReportLine::Ok(b"a")));
        check("ng a b c", Some(ReportLine::Rejected(b"a", b"b c")));
        check("ng a", Some(ReportLine::Rejected(b"a", b"failed")));
        check("option fall-through", Some(ReportLine::Option(b"fall-through", None)));
        check("option refname a b", Some(ReportLine::Option(b"refname", Some(b"a b"))));
        for bad in ["", " ", "ok", "ng", "option", "what a", " ok a", "ok"] {
            check(bad, None);
        }
        let mut rewritten = Rewritten::default();
        assert!(rewritten.take(b"old-oid", Some(b"zz"), HashKind::Sha1));
        assert_eq!(rewritten, Rewritten::default());
        assert!(!rewritten.take(b"fall-through", None, HashKind::Sha1));
    }

    #[test]
    fn what_fits_no_packet_is_cut() {
        let long = RefReport { name: vec![b'x'; 70_000], outcome: RefOutcome::Ok(Vec::new()) };
        let mut out = Vec::new();
        PushReport { unpack_error: None, refs: vec![long] }.write(ReportForm::V1, &mut out);
        assert_eq!(out.len(), 14 + MAX_PAYLOAD + 4 + 4);
    }
}
