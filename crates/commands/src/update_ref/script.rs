//! The commands of `update-ref --stdin`, one at a time (git-update-ref).
//!
//! ```text
//! lines      update SP <ref> SP <new> [SP <old>] LF        fields may be quoted as in C
//! with -z    update SP <ref> NUL <new> NUL [<old>] NUL     the empty field is a missing one
//! ```

use std::io::BufRead;

use packrace_object::ObjectId;
use packrace_store::refs::{Expected, RefChange, is_good_name};
use packrace_store::unquote;

use crate::call::fatal::Fatal;
use crate::call::streams::ErrorOutput;

/// Longest command: bounds memory for input without line ends.
const MAX_COMMAND_BYTES: u64 = 1 << 20;

/// A parsed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptCommand {
    /// Change a ref.
    Edit {
        name: Vec<u8>,
        change: RefChange,
        expected: Expected,
        /// For symbolic refs: never followed, whatever the options say.
        is_symbolic: bool,
    },
    /// The next change applies to the ref itself.
    NoDeref,
    Start,
    Prepare,
    Commit,
    Abort,
}

/// The commands that are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptPhase {
    /// Every command.
    Open,
    /// Commands that end the transaction.
    Prepared,
    /// The command that starts a new transaction.
    Closed,
}

impl ScriptPhase {
    fn check(self, is_start: bool, is_end: bool) -> Result<(), Fatal> {
        match self {
            ScriptPhase::Prepared if !is_end => Err(Fatal::new("prepared transactions can only be closed")),
            ScriptPhase::Closed if !is_start => Err(Fatal::new("transaction is closed")),
            _ => Ok(()),
        }
    }
}

/// Resolves a text to an object.
pub type Resolve<'a> = dyn FnMut(&[u8]) -> Result<Option<ObjectId>, Fatal> + 'a;

/// The command stream of a session.
pub struct SessionScript<'a, R> {
    input: R,
    /// The output for warnings.
    errors: &'a ErrorOutput,
    is_nul: bool,
}

/// The commands on a ref, and the number of fields after it.
const EDITS: [(&str, usize); 8] = [
    ("update", 2),
    ("create", 1),
    ("delete", 1),
    ("verify", 1),
    ("symref-update", 3),
    ("symref-create", 1),
    ("symref-delete", 1),
    ("symref-verify", 1),
];

impl<'a, R: BufRead> SessionScript<'a, R> {
    pub fn new(input: R, is_nul: bool, errors: &'a ErrorOutput) -> Self {
        SessionScript { input, errors, is_nul }
    }

    /// The next command; `None` at the end. Reads nothing after it, so that a caller that sends commands one
    /// by one gets answers.
    pub fn next(
        &mut self,
        phase: ScriptPhase,
        is_no_deref: bool,
        resolve: &mut Resolve<'_>,
    ) -> Result<Option<ScriptCommand>, Fatal> {
        let mut text = Vec::new();
        if !self.read_more(&mut text)? {
            return Ok(None);
        }
        let end = self.end();
        // As in git, nothing behind a NUL counts, not even the end of the line.
        let nul = text.iter().position(|byte| *byte == 0).filter(|_| !self.is_nul);
        let is_cut = nul.is_some();
        text.truncate(nul.unwrap_or(text.len()));
        let shown = |text: &[u8]| {
            let text = text.strip_suffix(b"\0").unwrap_or(text);
            String::from_utf8_lossy(text).into_owned()
        };
        if text.first() == Some(&end) {
            return Err(Fatal::new("empty command in input"));
        }
        if text.first().is_some_and(u8::is_ascii_whitespace) {
            return Err(Fatal::new(format!("whitespace before command: {}", shown(&text))));
        }
        let whole = text.strip_suffix(&[end]).unwrap_or(&text);
        let single = match whole {
            b"start" => Some(ScriptCommand::Start),
            b"prepare" => Some(ScriptCommand::Prepare),
            b"commit" => Some(ScriptCommand::Commit),
            b"abort" => Some(ScriptCommand::Abort),
            b"option no-deref" => Some(ScriptCommand::NoDeref),
            _ => None,
        };
        if let Some(command) = single.filter(|_| !is_cut) {
            let is_end = matches!(command, ScriptCommand::Commit | ScriptCommand::Abort);
            return phase.check(command == ScriptCommand::Start, is_end).map(|()| Some(command));
        }
        if let Some(option) = text.strip_prefix(b"option ") {
            return Err(Fatal::new(format!("option unknown: {}", shown(option))));
        }
        let edit = EDITS
            .iter()
            .find(|(word, _)| text.strip_prefix(word.as_bytes()).is_some_and(|rest| rest.starts_with(b" ")));
        let Some((word, more)) = edit else {
            return Err(Fatal::new(format!("unknown command: {}", shown(&text))));
        };
        phase.check(false, false)?;
        if self.is_nul {
            for _ in 0..*more {
                if !self.read_more(&mut text)? {
                    break;
                }
            }
        }
        let mut fields = Fields {
            errors: self.errors,
            word,
            name: String::new(),
            rest: &text[word.len() + 1..],
            is_nul: self.is_nul,
            is_cut,
            is_ended: text.ends_with(&[end]),
        };
        fields.edit(is_no_deref, resolve).map(Some)
    }

    fn end(&self) -> u8 {
        if self.is_nul { 0 } else { b'\n' }
    }

    /// Appends input up to the next terminator, inclusive.
    fn read_more(&mut self, text: &mut Vec<u8>) -> Result<bool, Fatal> {
        let (before, end) = (text.len(), self.end());
        let mut limited = std::io::Read::take(&mut self.input, MAX_COMMAND_BYTES);
        limited.read_until(end, text).map_err(Fatal::new)?;
        let read = text.len() - before;
        if read as u64 == MAX_COMMAND_BYTES {
            return Err(Fatal::new("command in input is too long"));
        }
        Ok(read > 0)
    }
}

/// The fields after the command word.
struct Fields<'a> {
    errors: &'a ErrorOutput,
    word: &'static str,
    /// The ref, for messages.
    name: String,
    rest: &'a [u8],
    is_nul: bool,
    /// Whether the line has a NUL, and ends there.
    is_cut: bool,
    /// Whether the last field is terminated.
    is_ended: bool,
}

/// An optional field.
type Field = Option<Vec<u8>>;

/// A field with an object name.
enum Named {
    Missing,
    Zero,
    Id(ObjectId),
}

impl Fields<'_> {
    fn edit(&mut self, is_no_deref: bool, resolve: &mut Resolve<'_>) -> Result<ScriptCommand, Fatal> {
        if matches!(self.word, "symref-delete" | "symref-verify") && !is_no_deref {
            return Err(Fatal::new(format!("{}: cannot operate with deref mode", self.word)));
        }
        let name = match self.first()? {
            name if name.is_empty() => return Err(Fatal::new(format!("{}: missing <ref>", self.word))),
            name => name,
        };
        check_name(&name)?;
        self.name = String::from_utf8_lossy(&name).into_owned();
        let (change, expected) = match self.word {
            "update" => self.update(resolve)?,
            "create" => match self.object("<new-oid>", resolve)? {
                Named::Missing => return Err(self.wrong("missing <new-oid>")),
                Named::Zero => return Err(self.wrong("zero <new-oid>")),
                Named::Id(id) => (RefChange::Set(id), Expected::Absent),
            },
            "delete" => match self.object("<old-oid>", resolve)? {
                Named::Missing => (RefChange::Delete, Expected::Any),
                Named::Zero => return Err(self.wrong("zero <old-oid>")),
                Named::Id(id) => (RefChange::Delete, Expected::Id(id)),
            },
            "verify" => match self.object("<old-oid>", resolve)? {
                Named::Missing | Named::Zero => (RefChange::Verify, Expected::Absent),
                Named::Id(id) => (RefChange::Verify, Expected::Id(id)),
            },
            "symref-update" => self.update_symbolic(resolve)?,
            "symref-create" => {
                let target = self.target()?.ok_or_else(|| self.wrong("missing <new-target>"))?;
                (RefChange::SetSymbolic(target), Expected::Absent)
            }
            word => {
                let is_deletion = word == "symref-delete";
                let change = if is_deletion { RefChange::Delete } else { RefChange::Verify };
                match self.target()? {
                    Some(target) => (change, Expected::Symbolic(target)),
                    None if is_deletion => (change, Expected::Any),
                    None => (change, Expected::Absent),
                }
            }
        };
        self.check_end()?;
        Ok(ScriptCommand::Edit { name, change, expected, is_symbolic: self.word.starts_with("symref-") })
    }

    fn update(&mut self, resolve: &mut Resolve<'_>) -> Result<(RefChange, Expected), Fatal> {
        let change = match self.object("<new-oid>", resolve)? {
            Named::Missing if self.is_nul => {
                error_line!(
                    self.errors,
                    "warning: update {}: missing <new-oid>, treating as zero",
                    self.name
                );
                RefChange::Delete
            }
            Named::Missing => return Err(self.wrong("missing <new-oid>")),
            Named::Zero => RefChange::Delete,
            Named::Id(id) => RefChange::Set(id),
        };
        let expected = match self.object("<old-oid>", resolve)? {
            Named::Missing => Expected::Any,
            Named::Zero => Expected::Absent,
            Named::Id(id) => Expected::Id(id),
        };
        Ok((change, expected))
    }

    fn update_symbolic(&mut self, resolve: &mut Resolve<'_>) -> Result<(RefChange, Expected), Fatal> {
        let target = self.target()?.ok_or_else(|| self.wrong("missing <new-target>"))?;
        let change = RefChange::SetSymbolic(target);
        let Some(kind) = self.next("<old-target>")?.filter(|kind| !kind.is_empty()) else {
            if self.is_nul {
                // The field after the missing one.
                self.next("<old-target>")?;
            }
            return Ok((change, Expected::Any));
        };
        let old = self.next("<old-target>")?.filter(|old| !old.is_empty());
        let old = old.ok_or_else(|| self.wrong("expected old value"))?;
        let text = String::from_utf8_lossy(&old).into_owned();
        let expected = match kind.as_slice() {
            b"ref" if check_name(&old).is_ok() => Expected::Symbolic(old),
            b"ref" => return Err(self.wrong(&format!("invalid ref: {text}"))),
            b"oid" => match resolve(&old)? {
                Some(id) if id.is_null() => Expected::Absent,
                Some(id) => Expected::Id(id),
                None => return Err(self.wrong(&format!("invalid oid: {text}"))),
            },
            _ => {
                let kind = String::from_utf8_lossy(&kind);
                return Err(self.wrong(&format!("invalid arg '{kind}' for old value")));
            }
        };
        Ok((change, expected))
    }

    /// The field at the current position.
    fn first(&mut self) -> Result<Vec<u8>, Fatal> {
        if self.is_nul {
            let end = self.rest.iter().position(|byte| *byte == 0).unwrap_or(self.rest.len());
            let (field, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Ok(field.to_vec());
        }
        if self.rest.starts_with(b"\"") {
            let shown = || String::from_utf8_lossy(self.rest).into_owned();
            let (field, length) = unquote(&self.rest[1..])
                .ok_or_else(|| Fatal::new(format!("badly quoted argument: {}", shown())))?;
            if self.rest.get(1 + length).is_some_and(|byte| !byte.is_ascii_whitespace()) {
                let shown = shown();
                return Err(Fatal::new(format!("unexpected character after quoted argument: {shown}")));
            }
            self.rest = &self.rest[1 + length..];
            return Ok(field);
        }
        let end = self.rest.iter().position(u8::is_ascii_whitespace).unwrap_or(self.rest.len());
        let (field, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(field.to_vec())
    }

    /// The next field. With `-z` it must exist, and may be empty if the last field has no terminator.
    fn next(&mut self, what: &str) -> Result<Field, Fatal> {
        let separator = if self.is_nul { 0 } else { b' ' };
        match self.rest.split_first() {
            Some((first, rest)) if *first == separator && !(self.is_nul && rest.is_empty()) => {
                self.rest = rest;
                self.first().map(Some)
            }
            None if !self.is_cut && what != "<old-target>" => {
                let text = format!("unexpected end of input when reading {what}");
                Err(self.wrong(&text))
            }
            _ if self.is_nul && what != "<old-target>" => {
                let text = format!("unexpected end of input when reading {what}");
                Err(self.wrong(&text))
            }
            _ => Ok(None),
        }
    }

    /// The next field as an object name.
    fn object(&mut self, what: &str, resolve: &mut Resolve<'_>) -> Result<Named, Fatal> {
        match self.next(what)? {
            None => Ok(Named::Missing),
            Some(text) if text.is_empty() => Ok(if self.is_nul { Named::Missing } else { Named::Zero }),
            Some(text) => match resolve(&text)? {
                Some(id) if id.is_null() => Ok(Named::Zero),
                Some(id) => Ok(Named::Id(id)),
                None => {
                    let text = String::from_utf8_lossy(&text);
                    Err(self.wrong(&format!("invalid {what}: {text}")))
                }
            },
        }
    }

    /// The next field as a ref name.
    fn target(&mut self) -> Result<Field, Fatal> {
        let target = self.next("<old-target>")?.filter(|target| !target.is_empty());
        if let Some(target) = &target {
            check_name(target)?;
        }
        Ok(target)
    }

    fn check_end(&self) -> Result<(), Fatal> {
        let is_end = match self.is_nul {
            true => self.rest.is_empty() || self.rest == [0],
            false => self.rest == b"\n" && self.is_ended,
        };
        if is_end {
            return Ok(());
        }
        let rest = String::from_utf8_lossy(self.rest);
        Err(self.wrong(&format!("extra input: {rest}")))
    }

    fn wrong(&self, what: &str) -> Fatal {
        Fatal::new(format!("{} {}: {what}", self.word, self.name))
    }
}

fn check_name(name: &[u8]) -> Result<(), Fatal> {
    // Other names with one component are refused later.
    match name != b"@" && (is_good_name(name) || is_good_name(&[b"refs/", name].concat())) {
        true => Ok(()),
        false => Err(Fatal::new(format!("invalid ref format: {}", String::from_utf8_lossy(name)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::streams::Written;

    #[test]
    fn every_beginning_of_a_script_ends() {
        let id = "1".repeat(40);
        let script = format!(
            "update refs/a {id} {id}\0create \"refs/b\" {id}\noption no-deref\nsymref-update refs/s refs/t ref refs/u\n"
        );
        let errors = ErrorOutput::new(Written::default());
        for is_nul in [false, true] {
            for length in 0..=script.len() {
                let mut script = SessionScript::new(&script.as_bytes()[..length], is_nul, &errors);
                let mut resolve = |text: &[u8]| Ok(ObjectId::from_hex(text).ok());
                while let Ok(Some(_)) = script.next(ScriptPhase::Open, true, &mut resolve) {}
            }
        }
    }
}
