//! Finds expired entries of reflogs (git-reflog, "expire").

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use gix_glob::wildmatch;
use gix_glob::wildmatch::Mode;
use packrace_object::{Kind, ObjectId, parse_commit, parse_tag};
use packrace_store::expiry::expiry;
use packrace_store::refs::{LoggedChange, RefStore, Target, name_in_work_tree};
use packrace_store::{ObjectReader, Repository, cache_bytes, check_roots, ref_tips};

use crate::error::Error;
use crate::sound_commits::SoundCommits;

/// Finds expired entries.
pub struct ReflogExpiry<'a> {
    repository: &'a Repository,
    total: Option<u64>,
    unreachable: Option<u64>,
    reader: ObjectReader,
    /// With `--stale-fix`.
    sound: Option<SoundCommits>,
}

/// The keys of times, and their values if nothing is configured (git-gc).
const KEYS: [(&str, &str); 2] = [("reflogexpire", "90.days.ago"), ("reflogexpireunreachable", "30.days.ago")];

/// Expiry times in seconds since 1970; older entries expire.
#[derive(Debug, Clone, Copy)]
struct Cutoffs {
    total: u64,
    unreachable: u64,
}

/// Decides which entries of one reflog have expired.
pub struct ExpiredEntries {
    cutoffs: Cutoffs,
    /// Commits reachable from the ref; `None` if there are none.
    reached: Option<HashSet<ObjectId>>,
    /// The commits that ids in the log name or tag; `None` for other objects.
    commits: HashMap<ObjectId, Option<ObjectId>>,
    /// Ids in the log that are no sound commits.
    broken: HashSet<ObjectId>,
}

impl ExpiredEntries {
    /// Whether this entry has expired.
    pub fn has(&self, change: &LoggedChange) -> bool {
        if self.broken.contains(&change.old) || self.broken.contains(&change.new) {
            return true;
        }
        let seconds = change.seconds();
        if seconds < self.cutoffs.total {
            return true;
        }
        if seconds >= self.cutoffs.unreachable {
            return false;
        }
        let is_reached = |id: &ObjectId, reached: &HashSet<ObjectId>| match self.commits.get(id) {
            // Non-commits and missing objects count as reachable.
            None | Some(None) => true,
            Some(Some(commit)) => reached.contains(commit),
        };
        match &self.reached {
            None => true,
            Some(reached) => !is_reached(&change.old, reached) || !is_reached(&change.new, reached),
        }
    }
}

impl<'a> ReflogExpiry<'a> {
    /// Uses these times, or the configuration for `None`.
    pub fn new(
        repository: &'a Repository,
        total: Option<u64>,
        unreachable: Option<u64>,
    ) -> Result<Self, Error> {
        let reader = repository.snapshot()?.reader(cache_bytes::MANY_OBJECTS);
        Ok(ReflogExpiry { repository, total, unreachable, reader, sound: None })
    }

    /// Entries that name anything but a sound commit expire too, whatever their age (git-reflog, `--stale-fix`).
    /// Where refs lead to missing objects, everything would be stale: that is an error.
    pub fn with_stale_fix(mut self) -> Result<Self, Error> {
        check_roots(self.repository)?;
        let mut tips = Vec::new();
        for tip in ref_tips(self.repository)? {
            tips.extend(self.commit(tip)?);
        }
        let reachable = self.ancestors(tips)?;
        let shallow = self.repository.snapshot()?.shallow()?.iter().copied().collect();
        self.sound = Some(SoundCommits { reachable, shallow, complete: HashSet::new() });
        Ok(self)
    }

    /// The expired entries of the reflog of a ref, as seen from the work tree that `refs` belongs to.
    pub fn of(&mut self, refs: &RefStore, name: &[u8]) -> Result<ExpiredEntries, Error> {
        let mut cutoffs = self.cutoffs(name)?;
        let log = refs.log(name)?.unwrap_or_default();
        let between = cutoffs.total..cutoffs.unreachable;
        let is_between = |change: &LoggedChange| between.contains(&change.seconds());
        // Look at the ref and walk the history only if it matters.
        let mut reached = None;
        if log.iter().any(is_between) {
            let tip = refs.resolve(name)?.map(|found| found.id);
            if self.is_missing(tip)? {
                // The log may be what brings it back. Git takes all of it for unreachable.
                cutoffs.unreachable = cutoffs.total;
            } else {
                reached = self.reached_from(refs, name, tip)?;
            }
        }
        let mut commits: HashMap<ObjectId, Option<ObjectId>> = HashMap::new();
        // Look up commits only if the ref reaches any.
        let asked = log.iter().filter(|change| reached.is_some() && is_between(change));
        for id in asked.flat_map(|change| [change.old, change.new]) {
            if !id.is_null() && !commits.contains_key(&id) {
                commits.insert(id, self.commit(id)?);
            }
        }
        let broken = self.broken(&log)?;
        Ok(ExpiredEntries { cutoffs, reached, commits, broken })
    }

    /// Ids in a log that are no sound commits.
    fn broken(&mut self, log: &[LoggedChange]) -> Result<HashSet<ObjectId>, Error> {
        let mut broken = HashSet::new();
        let Some(mut sound) = self.sound.take() else { return Ok(broken) };
        for id in log.iter().flat_map(|change| [change.old, change.new]) {
            if id.is_null() || broken.contains(&id) {
                continue;
            }
            let is_sound = match self.commit(id)? {
                Some(commit) => sound.contains(commit, &mut self.reader)?,
                None => false,
            };
            if !is_sound {
                broken.insert(id);
            }
        }
        self.sound = Some(sound);
        Ok(broken)
    }

    /// The number of entries that are too old, reachable or not.
    pub fn too_old(&self, name: &[u8]) -> Result<u64, Error> {
        let total = self.cutoffs(name)?.total;
        let log = self.repository.refs().log(name)?.unwrap_or_default();
        Ok(log.iter().filter(|change| change.seconds() < total).count() as u64)
    }

    /// The given times, or `gc.<pattern>.reflogExpire`, or `gc.reflogExpire`, or git's defaults (git-gc). As in git, what a
    /// pattern that matches does not say is never, and stashes, which exist only in the reflog, need a pattern to expire.
    fn cutoffs(&self, name: &[u8]) -> Result<Cutoffs, Error> {
        let config = self.repository.config();
        let mut of_pattern: Option<(&[u8], [Option<u64>; 2])> = None;
        for (pattern, key, text) in config.subsections("gc") {
            let Some(slot) = KEYS.iter().position(|(known, _)| known.as_bytes() == key) else { continue };
            if of_pattern.is_none() && wildmatch(pattern.into(), name.into(), Mode::empty()) {
                of_pattern = Some((pattern, [None; 2]));
            }
            // A wrong value is an error whatever it is for.
            let key = format!("{}.{}", String::from_utf8_lossy(pattern), KEYS[slot].0);
            let value = seconds(&key, text.unwrap_or_default())?;
            if let Some((_, values)) = of_pattern.as_mut().filter(|(first, _)| *first == pattern) {
                values[slot] = Some(value);
            }
        }
        let value = |slot: usize| -> Result<u64, Error> {
            let (key, default) = KEYS[slot];
            match &of_pattern {
                Some((_, values)) => Ok(values[slot].unwrap_or(0)),
                None if name == b"refs/stash" => Ok(0),
                None => seconds(key, &config.string(&format!("gc.{key}")).unwrap_or_else(|| default.into())),
            }
        };
        Ok(Cutoffs {
            total: self.total.map_or_else(|| value(0), Ok)?,
            unreachable: self.unreachable.map_or_else(|| value(1), Ok)?,
        })
    }

    /// Whether the object that a ref leads to is missing.
    fn is_missing(&mut self, tip: Option<ObjectId>) -> Result<bool, Error> {
        Ok(tip.map(|tip| self.reader.kind_and_size(&tip)).transpose()?.is_some_and(|found| found.is_none()))
    }

    /// All commits reachable from a ref, which leads to `tip`, and for `HEAD` from all refs; `None` if it points at none.
    fn reached_from(
        &mut self,
        refs: &RefStore,
        name: &[u8],
        tip: Option<ObjectId>,
    ) -> Result<Option<HashSet<ObjectId>>, Error> {
        let mut tips = Vec::new();
        if name_in_work_tree(name) == b"HEAD" {
            refs.snapshot(&[])?.visit(b"refs/", &mut |record| {
                if let Target::Direct { id, .. } = record.target {
                    tips.push(id);
                }
                ControlFlow::Continue(())
            })?;
        }
        tips.extend(tip);
        let mut waiting = Vec::new();
        for tip in tips {
            waiting.extend(self.commit(tip)?);
        }
        match waiting.is_empty() {
            true => Ok(None),
            false => self.ancestors(waiting).map(Some),
        }
    }

    /// These commits and all their ancestors that exist.
    fn ancestors(&mut self, mut waiting: Vec<ObjectId>) -> Result<HashSet<ObjectId>, Error> {
        let mut reached: HashSet<ObjectId> = HashSet::new();
        while let Some(id) = waiting.pop() {
            if !reached.insert(id) || self.reader.kind_and_size(&id)?.is_none() {
                continue;
            }
            let data = self.reader.read(&id)?.data;
            let commit = parse_commit(&data, id.kind()).map_err(Error::Malformed)?;
            waiting.extend(commit.parents.iter().filter(|parent| !reached.contains(*parent)));
        }
        Ok(reached)
    }

    /// The commit that an object is or tags.
    fn commit(&mut self, mut id: ObjectId) -> Result<Option<ObjectId>, Error> {
        loop {
            match self.reader.kind_and_size(&id)? {
                Some((Kind::Commit, _)) => return Ok(Some(id)),
                Some((Kind::Tag, _)) => {
                    let tag = parse_tag(&self.reader.read(&id)?.data, id.kind());
                    id = tag.map_err(Error::Malformed)?.target;
                }
                _ => return Ok(None),
            }
        }
    }
}

/// The time in a setting.
fn seconds(key: &str, text: &[u8]) -> Result<u64, Error> {
    let text = String::from_utf8_lossy(text);
    let seconds =
        expiry(&text).ok_or_else(|| Error::Moment { key: format!("gc.{key}"), value: text.to_string() })?;
    Ok(u64::try_from(seconds).unwrap_or(0))
}
