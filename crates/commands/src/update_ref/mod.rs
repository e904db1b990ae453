//! `git update-ref`: changes one ref, or the refs listed on standard input.

mod script;

use std::io::BufReader;
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_store::publish::ObjectsStored;
use packrace_store::refs::{Cause, Expected, PrepareError, RefChange, RefEdit, Refusal, TransactionMode};

use self::script::{ScriptCommand, ScriptPhase, SessionScript};
use crate::call::Call;
use crate::call::discovery::{repository_with_replacements, with_refs};
use crate::call::fatal::Fatal;
use crate::call::streams::InputReader;
use crate::options::UpdateRefOptions;
use crate::ref_changes::{RefChanges, check_name, edit, ends_all};

/// Read size for commands on standard input.
const READ_BYTES: usize = 1 << 20;

/// Implements `git update-ref`.
pub fn run(call: &Call, args: &UpdateRefOptions) -> Result<(), Fatal> {
    if args.message.as_deref() == Some("") {
        return Err(Fatal::new("Refusing to perform update with empty message."));
    }
    let usage = || Fatal::usage_of("update-ref");
    if args.stdin {
        if args.delete || !args.arguments.is_empty() {
            return Err(usage());
        }
    } else if args.batch_updates {
        return Err(Fatal::new("--batch-updates can only be used with --stdin"));
    } else if args.nul {
        return Err(usage());
    }
    let wanted = if args.delete { 1..=2 } else { 2..=3 };
    if !args.stdin && !wanted.contains(&args.arguments.len()) {
        return Err(usage());
    }
    let repository = with_refs(repository_with_replacements(call)?)?;
    let changes = RefChanges::new(&repository, call)?;
    let message = args.message.clone().unwrap_or_default().into_bytes().into();
    match args.stdin {
        true => StdinSession::new(args, changes, message).run(),
        false => change_one(args, changes, &message),
    }
}

fn change_one(
    args: &UpdateRefOptions,
    mut changes: RefChanges<'_>,
    message: &Arc<[u8]>,
) -> Result<(), Fatal> {
    let arguments: Vec<&[u8]> = args.arguments.iter().map(|text| text.as_encoded_bytes()).collect();
    let name = arguments[0];
    let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let old = arguments.get(if args.delete { 1 } else { 2 });
    let mut named = |text: &[u8], what: &str| {
        let found = changes.resolve(text)?;
        found.ok_or_else(|| Fatal::new(format!("{}: not a valid {what}", shown(text))))
    };
    let change = match args.delete {
        true => RefChange::Delete,
        false => match named(arguments[1], "SHA1")? {
            id if id.is_null() => RefChange::Delete,
            id => RefChange::Set(id),
        },
    };
    let expected = match old.copied() {
        None => Expected::Any,
        Some(b"") => Expected::Absent,
        Some(text) => match named(text, "old SHA1")? {
            id if !id.is_null() => Expected::Id(id),
            _ if args.delete => Expected::Any,
            _ => Expected::Absent,
        },
    };
    let failed = |error: String| match args.delete {
        true => Fatal::error(error),
        false => Fatal::new(format!("update_ref failed for ref '{}': {error}", shown(name))),
    };
    check_name(name, &change).map_err(failed)?;
    let edit = RefEdit {
        deref: !args.no_deref,
        force_log: args.create_reflog,
        ..edit(name, change, expected, message)
    };
    changes.run_one(edit, failed)
}

/// The state of a session (git-update-ref, "start" and so on).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransactionState {
    /// Committed at the end of input.
    Open,
    /// Started explicitly: aborted at the end of input.
    Started,
    Closed,
}

/// A session on standard input.
struct StdinSession<'a> {
    args: &'a UpdateRefOptions,
    changes: RefChanges<'a>,
    message: Arc<[u8]>,
    state: TransactionState,
    edits: Vec<RefEdit>,
    is_no_deref: bool,
}

impl<'a> StdinSession<'a> {
    fn new(args: &'a UpdateRefOptions, changes: RefChanges<'a>, message: Arc<[u8]>) -> Self {
        StdinSession {
            args,
            changes,
            message,
            state: TransactionState::Open,
            edits: Vec::new(),
            is_no_deref: args.no_deref,
        }
    }

    fn null(&self) -> ObjectId {
        ObjectId::null(self.changes.repository.hash_kind())
    }

    fn mode(&self) -> TransactionMode {
        if self.args.batch_updates { TransactionMode::Batch } else { TransactionMode::Atomic }
    }

    fn run(mut self) -> Result<(), Fatal> {
        let call = self.changes.call;
        let input = BufReader::with_capacity(READ_BYTES, call.streams.input());
        let mut script = SessionScript::new(input, self.args.nul, &call.streams.errors);
        loop {
            let (changes, is_no_deref) = (&mut self.changes, self.is_no_deref);
            let phase =
                if self.state == TransactionState::Closed { ScriptPhase::Closed } else { ScriptPhase::Open };
            let command = script.next(phase, is_no_deref, &mut |text: &[u8]| changes.resolve(text));
            let Some(command) = command? else { break };
            match command {
                ScriptCommand::NoDeref => self.is_no_deref = true,
                ScriptCommand::Edit { name, change, expected, .. } => self.add(name, change, expected)?,
                ScriptCommand::Start => {
                    if self.state == TransactionState::Started {
                        return Err(Fatal::new("cannot restart ongoing transaction"));
                    }
                    self.state = TransactionState::Started;
                    say(self.changes.call, "start: ok")?;
                }
                ScriptCommand::Prepare => self.prepare(&mut script)?,
                ScriptCommand::Commit => {
                    self.commit("commit: ")?;
                    say(self.changes.call, "commit: ok")?;
                }
                ScriptCommand::Abort => {
                    let edits = std::mem::take(&mut self.edits);
                    self.changes.repository.refs().abandon(&edits, &self.changes.writes);
                    self.state = TransactionState::Closed;
                    say(self.changes.call, "abort: ok")?;
                }
            }
        }
        match self.state {
            TransactionState::Open => self.commit(""),
            TransactionState::Started => {
                self.changes.repository.refs().abandon(&self.edits, &self.changes.writes);
                Ok(())
            }
            TransactionState::Closed => Ok(()),
        }
    }

    fn add(&mut self, name: Vec<u8>, change: RefChange, expected: Expected) -> Result<(), Fatal> {
        check_name(&name, &change).map_err(Fatal::new)?;
        let deref = !std::mem::replace(&mut self.is_no_deref, self.args.no_deref);
        let force_log = self.args.create_reflog;
        let edit = RefEdit { deref, force_log, ..edit(&name, change, expected, &self.message) };
        let RefChanges { repository, objects, .. } = &mut self.changes;
        if let Some(refusal) = repository.refs().check_object(0, &edit, objects)? {
            if self.mode() == TransactionMode::Atomic {
                return Err(Fatal::new(refusal));
            }
            // As in git, which names no old value for `create` here.
            let expected = match edit.expected {
                Expected::Absent => Expected::Any,
                expected => expected,
            };
            let edit = RefEdit { expected, ..edit };
            return report(self.changes.call, &[edit], self.null(), &[refusal]);
        }
        self.edits.push(edit);
        Ok(())
    }

    /// Locks the refs, and holds the locks until the next command.
    fn prepare(&mut self, script: &mut SessionScript<'_, BufReader<InputReader<'_>>>) -> Result<(), Fatal> {
        let (mode, null) = (self.mode(), self.null());
        let edits = std::mem::take(&mut self.edits);
        let asked = if mode == TransactionMode::Batch { edits.clone() } else { Vec::new() };
        let RefChanges { call, repository, writes, objects } = &mut self.changes;
        let prepared = repository.refs().prepare(edits, mode, writes, objects);
        let prepared = prepared.map_err(|error| failed("prepare: ", error))?;
        say(call, "prepare: ok")?;
        self.state = TransactionState::Closed;
        match script.next(ScriptPhase::Prepared, true, &mut |_| Ok(None))? {
            Some(ScriptCommand::Commit) => {
                let refused = prepared.commit(&ObjectsStored::earlier(), objects);
                report(call, &asked, null, &refused.map_err(|error| failed("commit: ", error))?)?;
                say(call, "commit: ok")
            }
            Some(ScriptCommand::Abort) => {
                prepared.abort();
                say(call, "abort: ok")
            }
            _ => Ok(()),
        }
    }

    fn commit(&mut self, prefix: &str) -> Result<(), Fatal> {
        let mode = self.mode();
        let edits = std::mem::take(&mut self.edits);
        let asked = if mode == TransactionMode::Batch { edits.clone() } else { Vec::new() };
        let refused = self.changes.run(edits, mode).map_err(|error| failed(prefix, error))?;
        self.state = TransactionState::Closed;
        report(self.changes.call, &asked, self.null(), &refused)
    }
}

fn failed(prefix: &str, error: PrepareError) -> Fatal {
    match &error {
        _ if ends_all(&error) => Fatal::new(error),
        // Git finds these while it reads commands.
        PrepareError::Refused(refusal)
            if matches!(refusal.cause, Cause::NoObject { .. } | Cause::NotACommit { .. }) =>
        {
            Fatal::new(error)
        }
        _ => Fatal::new(format!("{prefix}{error}")),
    }
}

/// Reports the rejected edits of a batch: `rejected SP <ref> SP <new> SP <old> SP <reason>` (git-update-ref,
/// `--batch-updates`), with details on standard error.
fn report(call: &Call, asked: &[RefEdit], null: ObjectId, refused: &[Refusal]) -> Result<(), Fatal> {
    let mut lines = Vec::new();
    for refusal in refused {
        error_line!(call, "error: {refusal}");
        let RefEdit { change, expected, .. } = &asked[refusal.edit];
        let null = || null.to_string().into_bytes();
        let new = match change {
            RefChange::Set(id) => id.to_string().into_bytes(),
            // Git prints no symbolic targets here.
            RefChange::SetSymbolic(_) | RefChange::Delete => null(),
            RefChange::Verify => b"(null)".to_vec(),
        };
        let old = match expected {
            Expected::Any => b"(null)".to_vec(),
            Expected::Absent | Expected::Symbolic(_) => null(),
            Expected::Id(id) => id.to_string().into_bytes(),
        };
        let reason = refusal.cause.reason().as_bytes();
        lines.extend([b"rejected", refusal.target.as_slice(), &new, &old, reason].join(&b' '));
        lines.push(b'\n');
    }
    call.write(&lines)
}

/// Flushes each line: the caller may wait for it before the next command.
fn say(call: &Call, line: &str) -> Result<(), Fatal> {
    call.write_line(line)
}
