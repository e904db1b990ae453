//! What the older trace of refs (`GIT_TRACE_REFS`) says of transactions, in git's words.

use packrace_object::ObjectId;

use super::{Cause, Expected, LogEdit, PrepareError, RefChange};
use crate::refs::reflog::LoggedChange;
use crate::refs::traced::{is_on, tell, text};

/// The refs of a transaction were locked and checked, or why not.
pub(super) fn prepared(result: Result<(), &PrepareError>) {
    if !is_on() {
        return;
    }
    let Err(error) = result else { return tell("transaction_prepare: 0 \"\"") };
    let code = match error {
        PrepareError::Refused(refusal) => match &refusal.cause {
            Cause::Conflict { .. } | Cause::Together { .. } => -2,
            Cause::Missing(_) | Cause::Dangling(_) => -4,
            Cause::OtherId { .. } | Cause::OtherTarget { .. } => -5,
            _ => -3,
        },
        _ => -1,
    };
    tell(&format!("transaction_prepare: {code} \"{error}\""));
}

/// One change of a transaction that is about to be made.
pub(super) struct TracedChange<'a> {
    pub(super) name: &'a [u8],
    pub(super) change: &'a RefChange,
    pub(super) expected: &'a Expected,
    /// The object that its new symbolic target resolves to.
    pub(super) new_id: Option<ObjectId>,
    pub(super) message: &'a [u8],
    /// Whether the ref itself is meant, and not what it leads to.
    pub(super) is_itself: bool,
    pub(super) was_symbolic: bool,
}

/// The changes of a transaction. As in git, one that only makes symbolic refs is not shown.
pub(super) fn changes<'a>(null: ObjectId, changes: impl Iterator<Item = TracedChange<'a>>) {
    tell("transaction {");
    for (number, one) in changes.enumerate() {
        let (new, has_new) = match one.change {
            RefChange::Set(id) => (*id, true),
            RefChange::SetSymbolic(_) => (one.new_id.unwrap_or(null), true),
            RefChange::Delete => (null, true),
            RefChange::Verify => (null, false),
        };
        let (old, has_old) = match one.expected {
            Expected::Any => (null, false),
            Expected::Id(id) => (*id, true),
            Expected::Absent | Expected::Symbolic(_) => (null, true),
        };
        let flags = u8::from(one.is_itself) | u8::from(has_new) << 2 | u8::from(has_old) << 3;
        let (name, kind) = (text(one.name), u8::from(one.was_symbolic));
        tell(&format!(
            "{number}: {name} {old} -> {new} (F=0x{flags:x}, T=0x{kind:x}) \"{}\"",
            text(one.message)
        ));
    }
    tell("}");
}

/// They were made, or not.
pub(super) fn finished(is_well: bool) {
    tell(&format!("finish: {}", if is_well { 0 } else { -1 }));
}

/// Refs were packed.
pub(super) fn packed() {
    if is_on() {
        tell("optimize: 0");
    }
}

/// The change of a reflog.
pub(super) struct TracedLogEdit<'a> {
    name: &'a [u8],
    /// If somebody wants to know, what to say at the end.
    last: Option<&'static str>,
}

impl<'a> TracedLogEdit<'a> {
    pub(super) fn of(name: &'a [u8]) -> Self {
        TracedLogEdit { name, last: is_on().then_some("reflog_expire") }
    }

    /// The change is chosen. Entries stay in their order, perhaps with other old objects.
    pub(super) fn told(&mut self, log: Option<&[LoggedChange]>, edit: LogEdit) -> LogEdit {
        let Some(last) = &mut self.last else { return edit };
        let kept = match &edit {
            LogEdit::Drop => {
                *last = "delete_reflog";
                return edit;
            }
            LogEdit::Keep => log,
            LogEdit::Replace { changes, .. } => Some(&changes[..]),
        };
        tell(&format!("reflog_expire_prepare: {}", text(self.name)));
        let mut kept = kept.unwrap_or_default().iter().peekable();
        for entry in log.unwrap_or_default() {
            let is_same = |other: &&LoggedChange| {
                (other.new, &other.who, &other.message) == (entry.new, &entry.who, &entry.message)
            };
            let is_pruned = u8::from(kept.next_if(is_same).is_none());
            tell(&format!(
                "reflog_expire_should_prune: {}\n {}: {is_pruned}",
                text(&entry.message),
                entry.seconds()
            ));
        }
        edit
    }

    /// It was made.
    pub(super) fn done(self) {
        if let Some(last) = self.last {
            tell(&format!("{last}: {}: 0", text(self.name)));
        }
    }
}
