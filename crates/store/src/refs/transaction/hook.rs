//! Runs the hook `reference-transaction` (githooks), before and after refs change.
//!
//! ```text
//! preparing ─ locks ─▶ prepared ─▶ committed          may say no while preparing and when prepared
//!                          └─────▶ aborted            also after it said no, with the locks given back
//! ```
//!
//! As in git, a transaction that cannot be prepared reports nothing more. In a batch, only edits that will be
//! made are reported. Git's files backend also reports the inner transaction that removes a ref from
//! `packed-refs`; here there is none.

use std::sync::Arc;

use packrace_object::ObjectId;

use super::{Expected, PrepareError, RefChange, Update};
use crate::hooks::{Ended, Hooks};

const NAME: &str = "reference-transaction";

/// Calls the hook, if there is one. If dropped early, reports that the transaction was aborted.
#[derive(Debug)]
pub(super) struct HookCall {
    hooks: Option<Arc<Hooks>>,
    /// The input of the hook: `old SP new SP name LF` for each ref.
    lines: Vec<u8>,
}

impl HookCall {
    /// Collects no lines if there is no hook.
    pub(super) fn of(hooks: Option<&Arc<Hooks>>) -> Self {
        // If the lookup fails, the call below reports the error.
        let hooks = hooks.filter(|hooks| !matches!(hooks.is_any(NAME), Ok(false)));
        HookCall { hooks: hooks.cloned(), lines: Vec::new() }
    }

    /// Asks whether the transaction may continue in this state.
    pub(super) fn ask<'a>(
        &mut self,
        state: &'static str,
        updates: impl Iterator<Item = Update<'a>>,
        null: ObjectId,
    ) -> Result<(), PrepareError> {
        let Some(hooks) = self.hooks.clone() else { return Ok(()) };
        self.note(updates, null);
        match run(&hooks, state, &self.lines) {
            Ok(Ended::Badly) => Err(PrepareError::Vetoed(state)),
            Ok(_) => Ok(()),
            Err(error) => Err(PrepareError::Hook(error)),
        }
    }

    /// Sets what is reported at the end.
    pub(super) fn note<'a>(&mut self, updates: impl Iterator<Item = Update<'a>>, null: ObjectId) {
        if self.hooks.is_some() {
            self.lines = lines(updates, null);
        }
    }

    pub(super) fn committed(mut self) {
        self.notify("committed");
    }

    /// Reports nothing at the end.
    pub(super) fn silence(&mut self) {
        self.hooks = None;
    }

    /// Reports the end. The hook can no longer veto, so its failure is only logged.
    fn notify(&mut self, state: &str) {
        let Some(hooks) = self.hooks.take() else { return };
        if let Err(error) = run(&hooks, state, &self.lines) {
            tracing::warn!("hook {NAME}: {error}");
        }
    }
}

impl Drop for HookCall {
    fn drop(&mut self) {
        self.notify("aborted");
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
