//! Decides which bundles a repository needs, and makes them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use packrace_format::bundle::BundleHeader;
use packrace_pack::plan::estimated_memory;
use packrace_pack::{PackRequest, ProgressSink, RequestObjects, Settings};
use packrace_store::publish::WritePolicy;
use packrace_store::{Pack, Repository};

use super::BundleRules;
use super::files::{BundleExtent, BundleFiles, BundleName, MAX_TOKEN};
use super::making::{BundleMaker, BundleRefs};
use super::tips::{BundleTips, PREFIXES, refs_of};
use crate::error::Error;

/// Time in seconds between two increments.
const BETWEEN_INCREMENTS: u64 = 24 * 60 * 60;

/// With more increments, the older half is merged into the full bundle.
const MAX_INCREMENTS: usize = 14;

/// The same if they have more than one part in this many of its length.
const LARGE_PART: u64 = 2;

/// A step of upkeep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BundleStep {
    /// There is nothing to do.
    Nothing,
    /// There is something new, but the last increment is too young.
    Wait,
    /// Remove all: none is wanted, or something in them can no longer be reached.
    Withdraw,
    /// Remove those that others took the place of.
    Clean,
    /// Make a full one.
    Full(BundleName),
    /// Make an increment.
    Increment(BundleName),
    /// Make a full one of the first ones: of the full one, and of this many increments.
    Merge(BundleName, usize),
}

impl BundleStep {
    /// Its name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BundleStep::Nothing => "nothing",
            BundleStep::Wait => "wait",
            BundleStep::Withdraw => "withdraw",
            BundleStep::Clean => "clean",
            BundleStep::Full(_) => "full",
            BundleStep::Increment(_) => "increment",
            BundleStep::Merge(..) => "merge",
        }
    }
}

/// Upkeep of the bundles of a repository.
pub(crate) struct BundleUpkeep<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) rules: &'a BundleRules,
    /// How packs are made.
    pub(crate) settings: Settings,
    pub(crate) now: SystemTime,
    pub(crate) progress: &'a dyn ProgressSink,
    /// The greatest token of the bundles that it has withdrawn. Bundles made afterwards have greater ones.
    pub(crate) withdrawn: Option<u64>,
}

/// What was found in a repository.
struct FoundBundles {
    files: BundleFiles,
    headers: Vec<BundleHeader>,
    tips: BundleRefs,
    request_objects: Arc<RequestObjects>,
}

impl BundleUpkeep<'_> {
    /// The next step.
    pub(crate) fn look(&self) -> Result<BundleStep, Error> {
        if !self.rules.keep && BundleFiles::list(self.repository)?.last_token().is_none() {
            return Ok(BundleStep::Nothing);
        }
        Ok(self.find()?.1)
    }

    /// Does the next step. Returns it and the length of the bundle that was made, if one was.
    pub(crate) fn advance(&mut self) -> Result<(BundleStep, Option<u64>), Error> {
        let (mut found, step) = self.find()?;
        let bytes = match step {
            BundleStep::Nothing | BundleStep::Wait => None,
            BundleStep::Withdraw => {
                self.withdrawn = self.withdrawn.max(found.files.last_token());
                found.files.remove_all()?;
                found.files.remove_dir();
                None
            }
            BundleStep::Clean => {
                found.files.remove_superseded()?;
                None
            }
            BundleStep::Full(name) => Some(self.maker(&found)?.full(name, &found.tips)?),
            BundleStep::Increment(name) => {
                self.maker(&found)?.increment(name, &refs_of(&found.headers), &found.tips)?
            }
            BundleStep::Merge(name, increments) => {
                Some(self.maker(&found)?.full(name, &refs_of(&found.headers[..=increments]))?)
            }
        };
        Ok((step, bytes))
    }

    /// Estimates the memory for a step.
    pub(crate) fn memory_bytes(&self) -> Result<u64, Error> {
        let request_objects = RequestObjects::new(self.repository.snapshot()?);
        Ok(estimated_memory(&request_objects, &PackRequest::default()))
    }

    fn find(&self) -> Result<(FoundBundles, BundleStep), Error> {
        let files = BundleFiles::list(self.repository)?;
        let request_objects = Arc::new(RequestObjects::new(self.repository.snapshot()?));
        let mut found = FoundBundles { files, headers: Vec::new(), tips: BundleRefs::new(), request_objects };
        if self.rules.apply_to(self.repository.config())? && self.is_possible(&found.request_objects)? {
            let refs = self.repository.refs().snapshot(&PREFIXES)?;
            let tips = BundleTips::of(self.repository, &refs, &found.request_objects)?;
            let headers = found.files.headers().inspect_err(|why| tracing::warn!("unusable bundle: {why}"));
            found.headers = headers.unwrap_or_default();
            let are_readable = found.headers.len() == found.files.current.len();
            if are_readable && tips.reach(&found.headers, &found.request_objects, self.progress)? {
                found.tips = tips.refs;
                let step = self.next_step(&found)?;
                return Ok((found, step));
            }
        }
        let step =
            if found.files.last_token().is_some() { BundleStep::Withdraw } else { BundleStep::Nothing };
        Ok((found, step))
    }

    /// Whether a bundle can hold this repository: all objects are there, and there are not too many.
    fn is_possible(&self, request_objects: &RequestObjects) -> Result<bool, Error> {
        let snapshot = request_objects.snapshot();
        let bytes: u64 = snapshot.packs().iter().map(|pack| pack.bytes().len() as u64).sum();
        Ok(snapshot.shallow()?.is_empty()
            && !self.repository.has_grafts()
            && !snapshot.packs().iter().any(Pack::is_promisor)
            && bytes <= self.rules.max_bytes)
    }

    fn next_step(&self, found: &FoundBundles) -> Result<BundleStep, Error> {
        let FoundBundles { files, headers, tips, .. } = found;
        if files.has_superseded() {
            return Ok(BundleStep::Clean);
        }
        let lengths = files.current.iter().map(|name| files.bytes(*name)).collect::<Result<Vec<_>, _>>()?;
        let now = self.now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let now = self.withdrawn.map_or(now, |token| now.max(next_token(token)));
        Ok(match tips.is_empty() {
            true if files.current.is_empty() => BundleStep::Nothing,
            true => BundleStep::Withdraw,
            false => decide(&files.current, &lengths, refs_of(headers) != *tips, now),
        })
    }

    fn maker<'f>(&'f self, found: &'f FoundBundles) -> Result<BundleMaker<'f>, Error> {
        Ok(BundleMaker {
            files: &found.files,
            request_objects: &found.request_objects,
            settings: self.settings,
            // A bundle that a crash left without its bytes would be offered.
            policy: WritePolicy::of(self.repository.config())?.of_rewrites(),
            max_bytes: self.rules.max_bytes,
            progress: self.progress,
        })
    }
}

/// The least token that is greater.
fn next_token(token: u64) -> u64 {
    (token + 1).min(MAX_TOKEN)
}

/// The step for bundles of these lengths, which refs still reach; `now` is in seconds since 1970.
fn decide(current: &[BundleName], lengths: &[u64], is_changed: bool, now: u64) -> BundleStep {
    let (Some(newest), Some((full_bytes, increments))) = (current.last(), lengths.split_first()) else {
        return BundleStep::Full(BundleName { token: now, extent: BundleExtent::Full });
    };
    let are_large = increments.iter().sum::<u64>() > full_bytes / LARGE_PART;
    if increments.len() > MAX_INCREMENTS || (are_large && !increments.is_empty()) {
        let merged = increments.len().div_ceil(2);
        let name = BundleName { token: current[merged].token, extent: BundleExtent::Full };
        return BundleStep::Merge(name, merged);
    }
    match is_changed {
        false => BundleStep::Nothing,
        // Also if the clock was wrong.
        true if now.abs_diff(newest.token) < BETWEEN_INCREMENTS => BundleStep::Wait,
        true => {
            let token = now.max(next_token(newest.token));
            BundleStep::Increment(BundleName { token, extent: BundleExtent::Increment })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use packrace_pack::NoProgress;
    use packrace_store::OpenOptions;
    use packrace_testkit::{Git, RepoBuilder, Size};

    use super::*;

    const DAY: u64 = BETWEEN_INCREMENTS;

    /// Bundles by their tokens, the full one first, and their lengths; the step on the tenth day.
    fn check(bundles: &[(u64, u64)], is_changed: bool, expect: &str) {
        let name = |(at, (token, _)): (usize, &(u64, u64))| {
            let extent = if at == 0 { BundleExtent::Full } else { BundleExtent::Increment };
            BundleName { token: *token, extent }
        };
        let names: Vec<BundleName> = bundles.iter().enumerate().map(name).collect();
        let lengths: Vec<u64> = bundles.iter().map(|(_, bytes)| *bytes).collect();
        let step = match decide(&names, &lengths, is_changed, 10 * DAY) {
            BundleStep::Full(name) | BundleStep::Increment(name) => name.to_string(),
            BundleStep::Merge(name, increments) => format!("{name} of {increments}"),
            other => other.name().to_owned(),
        };
        assert_eq!(step, expect, "{bundles:?}");
    }

    #[test]
    fn what_is_next() {
        check(&[], true, "864000-full.bundle");
        check(&[(9 * DAY, 100)], false, "nothing");
        check(&[(9 * DAY, 100)], true, "864000-increment.bundle");
        check(&[(9 * DAY + 1, 100)], true, "wait");
        // The clock was ahead.
        check(&[(11 * DAY - 1, 100)], true, "wait");
        check(&[(11 * DAY, 100)], true, "950401-increment.bundle");
        check(&[(1, 100), (2, 25), (3, 25)], false, "nothing");
        check(&[(1, 100), (2, 25), (3, 26)], false, "2-full.bundle of 1");
        check(&[(1, 100), (2, 51)], true, "2-full.bundle of 1");
        let many: Vec<(u64, u64)> = (1..=16).map(|token| (token, if token == 1 { 100 } else { 1 })).collect();
        check(&many[..15], false, "nothing");
        check(&many, false, "9-full.bundle of 8");
    }

    /// What clients know of a bundle that was withdrawn says nothing of the next one, even if both are made in
    /// one second, or a clock was ahead.
    #[test]
    fn names_are_not_used_again() {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
        let mut upkeep = BundleUpkeep {
            repository: &repository,
            rules: &BundleRules { keep: true, ..BundleRules::default() },
            settings: Settings::of(repository.config(), 1).unwrap(),
            now: UNIX_EPOCH + Duration::from_secs(10 * DAY),
            progress: &NoProgress,
            withdrawn: None,
        };
        let mut step = || upkeep.advance().unwrap().0;
        let git = |args: &[&str]| Git::stock().run(repo.path(), args);
        for tag in ["a", "b", "c"] {
            git(&["tag", tag]);
        }
        let full = |token| BundleStep::Full(BundleName { token, extent: BundleExtent::Full });
        assert_eq!(step(), full(10 * DAY));
        assert_eq!(step(), BundleStep::Nothing);
        git(&["tag", "-d", "a"]);
        assert_eq!(step(), BundleStep::Withdraw);
        assert_eq!(step(), full(10 * DAY + 1));
        let dir = repository.common_dir().join(packrace_store::publish::BUNDLE_DIR);
        let rename = |from: u64, to: u64| {
            std::fs::rename(dir.join(format!("{from}-full.bundle")), dir.join(format!("{to}-full.bundle")))
        };
        for (from, to, tag, next) in
            [(10 * DAY + 1, 99 * DAY, "b", 99 * DAY + 1), (99 * DAY + 1, MAX_TOKEN, "c", MAX_TOKEN)]
        {
            rename(from, to).unwrap();
            git(&["tag", "-d", tag]);
            assert_eq!(step(), BundleStep::Withdraw);
            assert_eq!(step(), full(next));
        }
        assert_eq!(step(), BundleStep::Nothing);
    }
}
