//! Changes refs: all or none, or each on its own.

use std::sync::Arc;

use packrace_os::trace;
use packrace_store::refs::{Expected, RefChange, RefEdit, RefSnapshot, RefWrites, Refusal, TransactionMode};

use super::commands::{Push, Shallow};
use super::decide::Decision;
use super::landing::{Landed, Landing};
use crate::error::Error;

/// The message in reflogs.
const MESSAGE: &[u8] = b"push";

/// Refs that change together, and the numbers of their commands.
struct RefBatch {
    edits: Vec<RefEdit>,
    numbers: Vec<usize>,
}

impl Push<'_> {
    /// Changes all refs or none.
    pub(super) fn execute_atomic(
        &mut self,
        refs: &RefSnapshot,
        shallow: Shallow,
        landing: &Landing<'_>,
    ) -> Result<(), Error> {
        let deciding = self.deciding(refs, landing)?;
        let (mut edits, mut numbers) = (Vec::new(), Vec::new());
        let mut is_whole = self.commands.iter().all(|command| command.error.is_none());
        if is_whole {
            for at in 0..self.commands.len() {
                if !self.commands[at].is_open() || self.commands[at].is_of_hook {
                    continue;
                }
                match self.decide(at, &deciding)? {
                    Decision::Change => {
                        edits.push(self.edit(at));
                        numbers.push(at);
                    }
                    Decision::Rejected => {
                        is_whole = false;
                        break;
                    }
                }
            }
        }
        if !is_whole {
            self.reject_rest("atomic push failure");
            return Ok(());
        }
        if !self.note_shallow(&shallow) {
            self.reject_rest("atomic push failure");
            return Ok(());
        }
        let landed = self.change(landing, vec![(edits, TransactionMode::Atomic)])?;
        match landed.into_iter().next() {
            Some(Ok(refused)) if !refused.is_empty() => {
                for refusal in refused {
                    self.client.error(&refusal.to_string());
                    self.commands[numbers[refusal.edit]].reject(reason(&refusal));
                }
                self.reject_rest("atomic push failure");
            }
            Some(Err(words)) => {
                self.client.error(&words);
                self.reject_rest("atomic transaction failed");
            }
            _ => {}
        }
        Ok(())
    }

    /// Changes each ref on its own. Deletions go first, because they make room for new refs; git has done so
    /// since it has batches.
    pub(super) fn execute_each(
        &mut self,
        refs: &RefSnapshot,
        shallow: Shallow,
        landing: &Landing<'_>,
    ) -> Result<(), Error> {
        let deciding = self.deciding(refs, landing)?;
        let mut batches: Vec<RefBatch> = Vec::new();
        for deletes in [true, false] {
            let (mut edits, mut numbers) = (Vec::new(), Vec::new());
            for at in 0..self.commands.len() {
                let command = &self.commands[at];
                if !command.is_open() || command.is_of_hook || command.is_delete() != deletes {
                    continue;
                }
                if self.decide(at, &deciding)? == Decision::Change {
                    edits.push(self.edit(at));
                    numbers.push(at);
                }
            }
            if edits.is_empty() || !deletes && !self.note_shallow(&shallow) {
                continue;
            }
            batches.push(RefBatch { edits, numbers });
            if !landing.takes_all_at_once() {
                self.change_each(landing, std::mem::take(&mut batches))?;
            }
        }
        self.change_each(landing, batches)
    }

    fn change_each(&mut self, landing: &Landing<'_>, batches: Vec<RefBatch>) -> Result<(), Error> {
        if batches.is_empty() {
            return Ok(());
        }
        let (edits, numbers): (Vec<_>, Vec<_>) =
            batches.into_iter().map(|batch| ((batch.edits, TransactionMode::Batch), batch.numbers)).unzip();
        for (landed, numbers) in self.change(landing, edits)?.into_iter().zip(numbers) {
            match landed {
                Ok(refused) => {
                    for refusal in refused {
                        self.client.error(&refusal.to_string());
                        self.commands[numbers[refusal.edit]].reject(reason(&refusal));
                    }
                }
                Err(words) => {
                    self.client.error(&words);
                    numbers.iter().for_each(|at| self.commands[*at].reject("failed to update refs"));
                }
            }
        }
        Ok(())
    }

    fn reject_rest(&mut self, why: &str) {
        self.commands.iter_mut().for_each(|command| command.reject(why));
    }

    /// Records where history is cut before refs lead there.
    fn note_shallow(&mut self, shallow: &Shallow) -> bool {
        let needs = |command: &crate::receive::commands::ReceivedCommand| {
            command.needs_shallow && command.error.is_none()
        };
        let first = self.commands.iter().find(|command| needs(command));
        let Some((cut, first)) = shallow.as_ref().zip(first) else { return true };
        trace::shallow(&format!("update_shallow_ref {}", String::from_utf8_lossy(&first.name)));
        let Err(error) = cut.add_to(&self.call.subject.repository) else { return true };
        self.client.error(&error.to_string());
        self.commands
            .iter_mut()
            .filter(|command| command.needs_shallow)
            .for_each(|command| command.reject("shallow error"));
        false
    }

    fn edit(&self, at: usize) -> RefEdit {
        let command = &self.commands[at];
        let change = match command.is_delete() {
            true => RefChange::Delete,
            false => RefChange::Set(command.new),
        };
        let expected = match command.old {
            _ if command.ignores_old => Expected::Any,
            old if !old.is_null() => Expected::Id(old),
            _ if command.is_delete() => Expected::Any,
            _ => Expected::Absent,
        };
        let name = command.full_name.clone();
        RefEdit { name, change, expected, deref: true, message: MESSAGE.into(), force_log: false }
    }

    fn change(
        &mut self,
        landing: &Landing<'_>,
        transactions: Vec<(Vec<RefEdit>, TransactionMode)>,
    ) -> Result<Vec<Landed>, Error> {
        let repository = &self.call.subject.repository;
        let config = repository.config();
        let who = self.call.committer.now(config, self.call.pusher.as_ref()).map_err(Error::unavailable)?;
        let mut writes = RefWrites::of(config, repository.hash_kind(), repository.is_bare()?, who)?;
        writes.hooks = Some(Arc::clone(&self.hooks));
        landing.change(transactions, writes).inspect_err(|error| {
            // The client gets neither.
            self.commands.iter_mut().for_each(|command| command.reject(&error.to_string()));
            self.record();
        })
    }
}

fn reason(refusal: &Refusal) -> &'static str {
    match refusal.cause.reason() {
        "" => "failed to update ref",
        reason => reason,
    }
}
