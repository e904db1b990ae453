//! `--refresh`: updates stat data in the index, and adds nothing.

use packrace_worktree::filter::{Filters, Purpose};
use packrace_worktree::index::{Index, Mode};
use packrace_worktree::paths::PathError;
use packrace_worktree::stage::{ChangeFinder, StageError, StageJob, What};

use super::{AddCommand, Batch, Fatal, report};

impl AddCommand<'_> {
    /// Updates the stat data of unchanged files; lists changed files if asked for.
    pub(super) fn refresh(
        &mut self,
        index: &mut Index,
        filters: &mut Filters,
        batch: &mut Batch,
    ) -> Result<(), Fatal> {
        let mut changes = Vec::new();
        let mut jobs = Vec::new();
        let mut look = ChangeFinder::new(&self.tree.place, index, self.rules, &self.options);
        let mut differ: Vec<(Vec<u8>, char)> = Vec::new();
        for (key, entry) in index.entries() {
            let is_skipped = entry.skip_worktree && !self.args.sparse;
            if is_skipped || !self.specs.meet_entry(key.path(), entry.mode == Mode::Gitlink) {
                continue;
            }
            if key.stage() > 0 {
                if differ.last().is_none_or(|(path, _)| path != key.path()) {
                    differ.push((key.path().to_vec(), 'U'));
                }
                continue;
            }
            let change = match look.change(key, entry) {
                Err(PathError::Nested(_)) => continue,
                change => change?,
            };
            let Some(change) = change else { continue };
            match change.what {
                What::Gone => differ.push((change.path, 'D')),
                What::Repository(..) => differ.push((change.path, 'M')),
                What::File { .. } if entry.intent_to_add => {}
                What::File { .. } => {
                    jobs.push(StageJob::new(key.path(), Some(entry.id), filters, index, &mut self.messages)?);
                    changes.push((change.path, *entry));
                }
            }
        }
        let results = self.stage(index, &jobs, Purpose::Compare, filters, batch)?;
        for ((path, entry), result) in changes.into_iter().zip(results) {
            match result {
                Err(error @ StageError::Refused(..)) => return self.fail(error, "updating"),
                Err(_) => {}
                Ok(mut found) => {
                    self.messages.append(&mut found.messages);
                    if found.id == entry.id && self.rules.is_same_kind(entry.mode, found.seen.kind) {
                        if !self.args.dry_run {
                            index.set_stat(&path, 0, found.seen.stat);
                        }
                        batch.settled.insert(path);
                        continue;
                    }
                }
            }
            differ.push((path, 'M'));
        }
        if !self.args.verbose {
            for (path, _) in differ.iter().filter(|(_, letter)| *letter == 'U') {
                self.out.extend_from_slice(&[path.as_slice(), b": needs merge\n"].concat());
            }
        } else if !differ.is_empty() {
            differ.sort_unstable();
            self.out.extend_from_slice(b"Unstaged changes after refreshing the index:\n");
            for (path, letter) in differ {
                self.out.extend_from_slice(format!("{letter}\t").as_bytes());
                self.out.extend_from_slice(&path);
                self.out.push(b'\n');
            }
        }
        self.check_refreshed(index)
    }

    fn check_refreshed(&mut self, index: &Index) -> Result<(), Fatal> {
        let mut skipped = Vec::new();
        let unmet = self.specs.iter().filter(|(spec, is_met)| !is_met && !spec.is_excluding());
        for (spec, _) in unmet.filter(|(spec, _)| !spec.original.is_empty()) {
            let mut skipped_entries = index.entries().filter(|(_, entry)| entry.skip_worktree);
            let is_match = |path: &[u8]| self.specs.matches(spec, path, false);
            if !self.args.sparse && skipped_entries.any(|(key, _)| is_match(key.path())) {
                skipped.push(spec.original.clone());
            } else {
                let shown = String::from_utf8_lossy(&spec.original);
                return Err(Fatal::new(format!("pathspec '{shown}' did not match any files")));
            }
        }
        if !skipped.is_empty() {
            report::outside_of_sparse(self.call, &skipped, self.repository.config())?;
            self.code = 1;
        }
        Ok(())
    }
}
