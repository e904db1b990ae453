//! Applies what was found to the index.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use packrace_object::{Kind as ObjectKind, ObjectId};
use packrace_store::Config;
use packrace_worktree::filter::{Filters, Purpose};
use packrace_worktree::index::{Index, IndexEntry, Mode, Seen, look};
use packrace_worktree::paths::NameRules;
use packrace_worktree::stage::{PathChange, StageError, StageJob, Staged, Stager, What};
use packrace_worktree::untracked::{Untracked, UntrackedKind};

use super::folded_dirs::FoldedDirs;
use super::{AddCommand, Batch, Fatal, report};
use crate::work_tree::OTHER_HASH;

impl AddCommand<'_> {
    /// Updates index entries whose paths changed.
    pub(super) fn take_changes(
        &mut self,
        index: &mut Index,
        changes: Vec<PathChange>,
        filters: &mut Filters,
        batch: &mut Batch,
    ) -> Result<(), Fatal> {
        if self.args.renormalize {
            return self.renormalize(index, filters, batch);
        }
        let mut jobs = Vec::new();
        for change in &changes {
            if let What::File { looks_same } = change.what {
                // As in git, a file that looks changed is stored even if its blob is the same: that may be missing.
                let known = index.get(&change.path, 0).filter(|_| looks_same).map(|entry| entry.id);
                jobs.push(StageJob::new(&change.path, known, filters, index, &mut self.messages)?);
            }
        }
        let mut staged = self.stage(index, &jobs, Purpose::Store, filters, batch)?.into_iter();
        let mut submodules = None;
        for change in changes {
            match change.what {
                What::Gone if self.is_removing => {
                    self.say("remove", &change.path);
                    if !self.args.dry_run {
                        index.remove(&change.path);
                    }
                }
                // A conflicted path with no file on disk cannot be resolved.
                What::Gone if index.get(&change.path, 0).is_none() => {
                    return Err(self.cannot_stat(&change.path));
                }
                What::Gone => {}
                What::Repository(id, seen) => {
                    let Some(id) = self.commit_to_stage(&change.path, id, "updating")? else { continue };
                    let is_submodule =
                        index.get(&change.path, 0).is_some_and(|entry| entry.mode == Mode::Gitlink);
                    if is_submodule && self.skips_submodule(&change.path, &mut submodules)? {
                        continue;
                    }
                    self.put(index, &change.path, id, Mode::Gitlink, seen, batch, &change.path);
                }
                What::File { looks_same } => {
                    let result = staged.next().expect("one a job");
                    self.take_file(index, &change.path, result, looks_same, batch)?;
                }
            }
        }
        Ok(())
    }

    fn take_file(
        &mut self,
        index: &mut Index,
        path: &[u8],
        result: Result<Staged, StageError>,
        looks_same: bool,
        batch: &mut Batch,
    ) -> Result<(), Fatal> {
        let staged = match result {
            Ok(staged) => staged,
            Err(error) => return self.fail(error, "updating"),
        };
        let before = index.get(path, 0).map(|entry| (entry.id, entry.mode));
        // Of a conflict, the entry of our side says what the file system cannot, or else that of the base.
        let known = [0, 2, 1, 3].into_iter().find_map(|stage| index.get(path, stage));
        let mode = self.rules.mode(staged.seen.kind, known.map(|entry| entry.mode)).unwrap_or(Mode::File);
        self.messages.extend(staged.messages);
        self.write_messages();
        if looks_same && before == Some((staged.id, mode)) {
            batch.settled.insert(path.to_vec());
            return Ok(());
        }
        self.put(index, path, staged.id, mode, staged.seen, batch, path);
        Ok(())
    }

    /// Adds paths that are not in the index.
    pub(super) fn take_untracked(
        &mut self,
        index: &mut Index,
        untracked: Vec<Untracked>,
        filters: &mut Filters,
        batch: &mut Batch,
    ) -> Result<(), Fatal> {
        let (outside, inside): (Vec<_>, Vec<_>) =
            untracked.into_iter().partition(|found| !self.args.sparse && self.is_outside(&as_listed(found)));
        let mut jobs = Vec::new();
        if !self.args.intent_to_add {
            for found in inside.iter().filter(|found| !matches!(found.found, UntrackedKind::Repository(_))) {
                jobs.push(StageJob::new(&found.path, None, filters, index, &mut self.messages)?);
            }
        }
        let mut staged = self.stage(index, &jobs, Purpose::Store, filters, batch)?.into_iter();
        let names = NameRules::of(self.repository.config())?;
        let mut is_first_repository = true;
        let mut folded = self.folded_dirs(index)?;
        for Untracked { path, found } in inside {
            let place = folded.as_mut().map_or_else(|| path.clone(), |dirs| dirs.adopt(&path));
            let (id, seen, end) = match found {
                UntrackedKind::Repository(id) => {
                    let Some(id) = self.commit_to_stage(&path, id, "adding")? else { continue };
                    if !self.args.no_warn_embedded_repo {
                        report::embedded(self.call, &path, is_first_repository, self.repository.config())?;
                        is_first_repository = false;
                    }
                    (id, self.look_again(&path)?, &b"/"[..])
                }
                UntrackedKind::File | UntrackedKind::Link if self.args.intent_to_add => {
                    self.take_intent(index, &path, &place, &names, batch)?;
                    continue;
                }
                UntrackedKind::File | UntrackedKind::Link => match staged.next().expect("one a job") {
                    Ok(Staged { id, seen, messages }) => {
                        self.messages.extend(messages);
                        self.write_messages();
                        (id, seen, &b""[..])
                    }
                    Err(error) => {
                        self.fail(error, "adding")?;
                        continue;
                    }
                },
            };
            let Some(mode) = self.rules.mode(seen.kind, None) else { continue };
            if !self.args.dry_run && !names.allow(&path, mode == Mode::Link) {
                self.fail(invalid(&path), "adding")?;
                continue;
            }
            self.put(index, &place, id, mode, seen, batch, &[path.as_slice(), end].concat());
        }
        if !outside.is_empty() {
            let paths: Vec<Vec<u8>> = outside.iter().map(|found| as_listed(found).into_owned()).collect();
            report::outside_of_sparse(self.call, &paths, self.repository.config())?;
            self.code = 1;
        }
        Ok(())
    }

    /// With `core.ignoreCase`, new paths are stored in the directories that the index has, in its case.
    fn folded_dirs(&self, index: &Index) -> Result<Option<FoldedDirs>, Fatal> {
        let folds_case = self.repository.config().boolean("core.ignoreCase")?.unwrap_or(false);
        Ok(folds_case.then(|| FoldedDirs::of(index)))
    }

    /// Records the intent to add a file at this place of the index, with the empty blob as its content.
    fn take_intent(
        &mut self,
        index: &mut Index,
        path: &[u8],
        place: &[u8],
        names: &NameRules,
        batch: &mut Batch,
    ) -> Result<(), Fatal> {
        let seen = self.look_again(path)?;
        let Some(mode) = self.rules.mode(seen.kind, None) else { return Ok(()) };
        if !self.args.dry_run && !names.allow(path, mode == Mode::Link) {
            return self.fail(invalid(path), "adding");
        }
        let id = ObjectId::empty_blob(self.repository.hash_kind());
        self.say("add", path);
        if !self.args.dry_run {
            batch.objects.add(&id, ObjectKind::Blob, b"")?;
            index.insert(place, 0, IndexEntry { intent_to_add: true, ..IndexEntry::new(id, mode) });
        }
        Ok(())
    }

    /// Reads, hashes and stores files; stores nothing in a dry run or a comparison.
    pub(super) fn stage(
        &self,
        index: &Index,
        jobs: &[StageJob],
        purpose: Purpose,
        filters: &Filters,
        batch: &Batch,
    ) -> Result<Vec<Result<Staged, StageError>>, Fatal> {
        // In a dry run nobody is warned of line endings.
        let purpose = match purpose {
            Purpose::Store if self.args.dry_run => Purpose::Compare,
            // Entries get the content of the empty blob.
            Purpose::Store if self.args.intent_to_add && !jobs.is_empty() => {
                batch.objects.add(
                    &ObjectId::empty_blob(self.repository.hash_kind()),
                    ObjectKind::Blob,
                    b"",
                )?;
                Purpose::Compare
            }
            other => other,
        };
        let is_stored = !self.args.dry_run && purpose != Purpose::Compare;
        let objects = is_stored.then_some(&batch.objects);
        let stager = Stager::new(&self.repository, &self.tree.place, filters.converter(), index, objects)?;
        Ok(stager.with_purpose(purpose).with_unreadable(self.ignores_errors).run(jobs))
    }

    /// Inserts an entry, and reports it, by the name that is shown, if it changed.
    #[expect(clippy::too_many_arguments, reason = "an entry has many sides")]
    fn put(
        &mut self,
        index: &mut Index,
        path: &[u8],
        id: ObjectId,
        mode: Mode,
        seen: Seen,
        batch: &mut Batch,
        shown: &[u8],
    ) {
        let before = index.get(path, 0).copied();
        let id = match self.args.intent_to_add {
            true => ObjectId::empty_blob(self.repository.hash_kind()),
            false => id,
        };
        let is_same = before.is_some_and(|before| {
            before.id == id
                && before.mode == mode
                && (!before.intent_to_add || self.args.intent_to_add)
                && !self.args.renormalize
        });
        if !is_same {
            self.say("add", shown);
        }
        if self.args.dry_run || (self.args.intent_to_add && before.is_some()) {
            return;
        }
        match is_same {
            true => index.set_stat(path, 0, seen.stat),
            false => {
                index.insert(path, 0, IndexEntry { stat: seen.stat, ..IndexEntry::new(id, mode) });
                if before.is_none() {
                    index.trust_new(path);
                }
            }
        }
        batch.settled.insert(path.to_vec());
    }

    fn renormalize(
        &mut self,
        index: &mut Index,
        filters: &mut Filters,
        batch: &mut Batch,
    ) -> Result<(), Fatal> {
        let mut jobs = Vec::new();
        for (key, entry) in index.entries() {
            let is_wanted = key.stage() == 0
                && matches!(entry.mode, Mode::File | Mode::Executable | Mode::Link)
                && (self.args.sparse || !self.is_left_out(key, entry))
                && self.specs.is_meant(key.path(), false);
            if is_wanted {
                jobs.push(StageJob::new(key.path(), None, filters, index, &mut self.messages)?);
            }
        }
        let results = self.stage(index, &jobs, Purpose::Renormalize, filters, batch)?;
        for (job, result) in jobs.iter().zip(results) {
            match result {
                Ok(staged) => {
                    self.messages.extend(staged.messages);
                    self.write_messages();
                    let before = index.get(&job.path, 0).map(|entry| entry.mode);
                    let mode = self.rules.mode(staged.seen.kind, before).unwrap_or(Mode::File);
                    self.put(index, &job.path, staged.id, mode, staged.seen, batch, &job.path);
                }
                Err(StageError::Unreadable(_)) if !self.is_there(&job.path) => {
                    return Err(self.cannot_stat(&job.path));
                }
                Err(error) => self.fail(error, "updating")?,
            }
        }
        Ok(())
    }

    /// `--chmod`.
    pub(super) fn change_modes(&mut self, index: &mut Index) {
        let sign = self.args.chmod.as_deref().unwrap_or_default().trim_end_matches('x').to_owned();
        let mode = if sign == "+" { Mode::Executable } else { Mode::File };
        let mut meant = Vec::new();
        for (key, entry) in index.entries() {
            let is_open = self.args.sparse || !self.is_left_out(key, entry);
            if is_open && self.specs.is_meant(key.path(), entry.mode == Mode::Gitlink) {
                meant.push((key.clone(), *entry));
            }
        }
        for (key, entry) in meant {
            if !entry.mode.is_file() {
                let shown = String::from_utf8_lossy(key.path());
                self.messages.push(format!("error: cannot chmod {sign}x '{shown}'"));
                self.code = 255;
            } else if !self.args.dry_run && entry.mode != mode {
                index.insert(key.path(), key.stage(), IndexEntry { mode, ..entry });
            }
        }
        self.write_messages();
    }

    /// Racy entries that are not settled and whose content changed.
    pub(super) fn modified_since(
        &mut self,
        index: &Index,
        settled: &HashSet<Vec<u8>>,
    ) -> Result<HashSet<Vec<u8>>, Fatal> {
        let racy: Vec<(Vec<u8>, IndexEntry)> = index
            .entries()
            .filter(|(key, entry)| key.stage() == 0 && entry.mode.is_file() && index.is_racy(entry))
            .filter(|(key, _)| !settled.contains(key.path()))
            // Of the others, the stat data says that they have changed.
            .filter(|(key, entry)| {
                let seen = look(&self.place_of(key.path()));
                seen.is_ok_and(|seen| seen.is_some_and(|seen| self.rules.matches(entry, &seen)))
            })
            .map(|(key, entry)| (key.path().to_vec(), *entry))
            .collect();
        let mut modified = HashSet::new();
        if racy.is_empty() {
            return Ok(modified);
        }
        let direction = packrace_worktree::filter::Direction::CheckIn;
        // What is wrong with attribute files has been said.
        let said = &mut Vec::new();
        let mut filters = Filters::new(&self.repository, &self.snapshot, &self.tree.place, direction, said)?;
        filters.set_variables(&self.variables_of_filters());
        let mut jobs = Vec::new();
        for (path, entry) in &racy {
            jobs.push(StageJob::new(path, Some(entry.id), &mut filters, index, said)?);
        }
        let stager = Stager::new(&self.repository, &self.tree.place, filters.converter(), index, None)?;
        let results = stager.with_purpose(Purpose::Compare).with_unreadable(true).run(&jobs);
        for ((path, entry), result) in racy.into_iter().zip(results) {
            match result {
                Ok(staged) => {
                    self.messages.extend(staged.messages);
                    if self.rules.matches(&entry, &staged.seen) && staged.id != entry.id {
                        modified.insert(path);
                    }
                }
                Err(error @ StageError::Refused(..)) => {
                    let failed = self.fail(error, "updating");
                    self.write_messages();
                    failed?;
                }
                Err(_) => {}
            }
        }
        self.write_messages();
        Ok(modified)
    }

    fn look_again(&self, path: &[u8]) -> Result<Seen, Fatal> {
        look(&self.place_of(path)).ok().flatten().ok_or_else(|| self.cannot_stat(path))
    }

    fn cannot_stat(&self, path: &[u8]) -> Fatal {
        let why = std::fs::symlink_metadata(self.place_of(path)).err();
        let why = why.unwrap_or_else(|| std::io::ErrorKind::NotFound.into());
        let shown = String::from_utf8_lossy(path);
        Fatal::new(format!("unable to stat '{shown}': {}", packrace_os::reason(&why)))
    }

    /// Whether a submodule is left alone because nothing of it is ever staged. If it is named, that is reported.
    /// `submodules` is filled at the first.
    fn skips_submodule(
        &self,
        path: &[u8],
        submodules: &mut Option<HashMap<Vec<u8>, bool>>,
    ) -> Result<bool, Fatal> {
        let known = match submodules {
            Some(known) => known,
            None => submodules.insert(self.submodules()?),
        };
        if known.get(path) != Some(&true) {
            return Ok(false);
        }
        let is_named = self.is_named(path);
        if is_named && !self.args.force {
            report::ignored_submodule(self.call, path, self.repository.config())?;
        }
        Ok(!(is_named && self.args.force))
    }

    /// The submodules by path, and whether nothing of them is ever staged (gitmodules, "ignore").
    fn submodules(&self) -> Result<HashMap<Vec<u8>, bool>, Fatal> {
        let modules = Config::of_file(&self.place_of(b".gitmodules"))?;
        let mut found = HashMap::new();
        for (name, key, value) in modules.subsections("submodule") {
            if let (b"path", Some(path)) = (key, value) {
                let ignore = modules.string(&format!("submodule.{}.ignore", String::from_utf8_lossy(name)));
                found.entry(path.to_vec()).or_insert(ignore.as_deref() == Some(b"all"));
            }
        }
        Ok(found)
    }

    /// Whether a pathspec is this path.
    fn is_named(&self, path: &[u8]) -> bool {
        let mut named = self.specs.iter().filter(|(spec, _)| spec.is_one_path() && !spec.is_excluding());
        named.any(|(spec, _)| spec.path().strip_suffix(b"/").unwrap_or(spec.path()) == path)
    }

    /// The commit of a nested repository, unless it cannot be staged, which is reported.
    fn commit_to_stage(
        &mut self,
        path: &[u8],
        commit: Option<ObjectId>,
        what: &str,
    ) -> Result<Option<ObjectId>, Fatal> {
        let fit = commit.filter(|commit| commit.kind() == self.repository.hash_kind());
        if fit.is_none() {
            self.fail_repository(path, commit, what)?;
        }
        Ok(fit)
    }

    /// Reports that the commit of a nested repository, if it has one, cannot be added.
    fn fail_repository(&mut self, path: &[u8], commit: Option<ObjectId>, what: &str) -> Result<(), Fatal> {
        let shown = String::from_utf8_lossy(path);
        let why = match commit {
            Some(_) => OTHER_HASH.to_owned(),
            None => format!("'{shown}/' does not have a commit checked out"),
        };
        let slash = if what == "adding" { "/" } else { "" };
        let lines = vec![format!("error: {why}"), format!("error: unable to index file '{shown}{slash}'")];
        self.fail(StageError::Unreadable(lines), what)
    }

    /// Reports why a file is not added; fails unless errors are ignored.
    pub(super) fn fail(&mut self, error: StageError, what: &str) -> Result<(), Fatal> {
        match error {
            StageError::Unreadable(lines) => {
                self.messages.extend(lines);
                self.write_messages();
                if !self.ignores_errors {
                    return Err(Fatal::new(format!("{what} files failed")));
                }
                self.code = 1;
                Ok(())
            }
            StageError::Refused(lines, words) => {
                self.messages.extend(lines);
                Err(Fatal::new(words))
            }
            StageError::Store(error) => Err(error.into()),
            StageError::Skipped => Err(Fatal::new(format!("{what} files failed"))),
        }
    }
}

/// The path as patterns of a sparse checkout see it: a nested repository is a directory.
fn as_listed(found: &Untracked) -> Cow<'_, [u8]> {
    match found.found {
        UntrackedKind::Repository(_) => Cow::Owned([&found.path[..], b"/"].concat()),
        UntrackedKind::File | UntrackedKind::Link => Cow::Borrowed(&found.path),
    }
}

fn invalid(path: &[u8]) -> StageError {
    let shown = String::from_utf8_lossy(path);
    StageError::Unreadable(vec![
        format!("error: invalid path '{shown}'"),
        format!("error: unable to add '{shown}' to index"),
    ])
}
