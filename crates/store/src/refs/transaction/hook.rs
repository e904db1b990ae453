//! The hook `reference-transaction` (githooks): told what is about to change, and what has.
//!
//! ```text
//! preparing ─ locks ─▶ prepared ─▶ committed          may say no while preparing and when prepared
//!                          └─────▶ aborted            also after it said no, with the locks given back
//! ```
//!
//! A transaction that cannot be prepared says nothing more, as in git. Of a batch, only what will be made is told. Git's
//! files backend tells of the inner transaction that takes a ref out of `packed-refs` as well; here there is none.

use packrace_object::ObjectId;

use super::{Expected, PrepareError, RefChange, Update};
use crate::hooks::{Ended, Hooks};

const NAME: &str = "reference-transaction";

/// Tells the hook, if there is one. Dropped before the end, it tells that the transaction was aborted.
#[derive(Debug)]
pub(super) struct HookCall<'s> {
    hooks: Option<&'s Hooks>,
    /// What the hook reads: `old SP new SP name LF` for each ref.
    lines: Vec<u8>,
}

impl<'s> HookCall<'s> {
    /// Where there is no hook, no lines are made.
    pub(super) fn of(hooks: Option<&'s Hooks>) -> Self {
        // Where that cannot be told, it is tried, and fails when it is asked.
        let hooks = hooks.filter(|hooks| !matches!(hooks.find(NAME), Ok(None)));
        HookCall { hooks, lines: Vec::new() }
    }

    /// Asks whether the transaction may go on from here.
    pub(super) fn ask<'a>(
        &mut self,
        state: &'static str,
        updates: impl Iterator<Item = Update<'a>>,
        null: ObjectId,
    ) -> Result<(), PrepareError> {
        let Some(hooks) = self.hooks else { return Ok(()) };
        self.note(updates, null);
        match run(hooks, state, &self.lines) {
            Ok(Ended::Badly) => Err(PrepareError::Vetoed(state)),
            Ok(_) => Ok(()),
            Err(error) => Err(PrepareError::Hook(error)),
        }
    }

    /// Remembers what is told at the end.
    pub(super) fn note<'a>(&mut self, updates: impl Iterator<Item = Update<'a>>, null: ObjectId) {
        if self.hooks.is_some() {
            self.lines = lines(updates, null);
        }
    }

    pub(super) fn committed(mut self) {
        self.tell("committed");
    }

    /// The transaction came to nothing that the hook is told.
    pub(super) fn silence(&mut self) {
        self.hooks = None;
    }

    /// Nobody can say no any more, so that what goes wrong is only reported.
    fn tell(&mut self, state: &str) {
        let Some(hooks) = self.hooks.take() else { return };
        if let Err(error) = run(hooks, state, &self.lines) {
            tracing::warn!("hook {NAME}: {error}");
        }
    }
}

impl Drop for HookCall<'_> {
    fn drop(&mut self) {
        self.tell("aborted");
    }
}

fn run(hooks: &Hooks, state: &str, lines: &[u8]) -> Result<Ended, crate::error::Error> {
    hooks.run(NAME, &[state.as_bytes()], lines)
}

fn lines<'a>(updates: impl Iterator<Item = Update<'a>>, null: ObjectId) -> Vec<u8> {
    let mut lines = Vec::new();
    for Update { name, expected, change } in updates {
        let old = match expected {
            Expected::Any | Expected::Absent => null.to_string().into_bytes(),
            Expected::Id(id) => id.to_string().into_bytes(),
            Expected::Symbolic(target) => [b"ref:", target.as_slice()].concat(),
        };
        let new = match change {
            RefChange::Verify | RefChange::Delete => null.to_string().into_bytes(),
            RefChange::Set(id) => id.to_string().into_bytes(),
            RefChange::SetSymbolic(target) => [b"ref:", target.as_slice()].concat(),
        };
        for part in [old.as_slice(), b" ", &new, b" ", name, b"\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines
}
