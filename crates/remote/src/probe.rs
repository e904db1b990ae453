//! Checks whether a store keeps the guarantees that repositories need: above all, that exactly one of many
//! concurrent conditional writes wins.
//!
//! Sequential checks reveal little: some stores pass them all, and lose writes as soon as two are concurrent.
//!
//! A store that has passed gets a marker, `v1/probed-<address>`, so that nodes need not probe it again: see [`require`].

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use sha2::Digest as _;

use crate::bucket::{Bucket, Looked, ObjectVersion, WriteOutcome};
use crate::error::{Error, ErrorKind};

/// How thoroughly a store is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeOptions {
    /// Concurrent writers.
    pub writers: usize,
    /// How often they race to create an object, and how often to swap one.
    pub rounds: usize,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        ProbeOptions { writers: 32, rounds: 20 }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The expected behaviour.
    pub promise: &'static str,
    /// A remark, or how the store deviates.
    pub result: Result<String, String>,
}

/// Writers of all rounds that run at once: a store may take a second for every writer of one object that waits. Each has
/// a thread and a connection.
const MAX_WRITERS: usize = 320;

/// Longest object of a check.
const MAX_BYTES: usize = 1 << 10;

/// Probes a store under unique keys, and removes what it wrote. Calls `each` with every finding. Returns
/// whether the store can be used.
pub fn probe(bucket: &Bucket, options: &ProbeOptions, each: &mut dyn FnMut(&Finding)) -> Result<bool, Error> {
    let run = Run { bucket, root: format!("probe/{}", random_text()), options };
    let mut is_good = true;
    let mut tell = |promise, result: Result<String, String>| {
        is_good &= result.is_ok();
        each(&Finding { promise, result });
    };
    tell("objects read as written", run.reads_what_was_written()?);
    tell("conditional create (If-None-Match: *)", run.creates_once()?);
    tell("conditional replace (If-Match)", run.swaps_from_its_version()?);
    tell("conditional read (304)", run.knows_what_is_unchanged()?);
    tell("range reads", run.sends_parts()?);
    tell("list and delete", run.lists_and_deletes()?);
    tell("one winner among concurrent creates", run.races_to_create()?);
    tell("one winner among concurrent replaces", run.races_to_swap()?);
    Ok(is_good)
}

/// Probes a store unless it has passed before under this address, and fails if it does not pass. One request if it
/// has; otherwise calls `begins` first, because it may take a minute.
pub fn require(bucket: &Bucket, address: &str, begins: impl FnOnce()) -> Result<(), Error> {
    if bucket.get_if_changed(&marker_key(address), None, MAX_BYTES)? != Looked::Absent {
        return Ok(());
    }
    begins();
    let mut failed = Vec::new();
    let is_good = probe(bucket, &ProbeOptions::default(), &mut |found| {
        if let Err(why) = &found.result {
            failed.push(format!("{}: {why}", found.promise));
        }
    })?;
    if !is_good {
        let words = format!("bucket is not suitable for repositories: {}", failed.join("; "));
        return Err(Error::new(ErrorKind::Refused, words));
    }
    mark(bucket, address, true)
}

/// Leaves a marker for a store that has passed a probe, or removes it from one that has not.
pub fn mark(bucket: &Bucket, address: &str, is_good: bool) -> Result<(), Error> {
    let key = marker_key(address);
    if !is_good {
        return bucket.delete(&key);
    }
    match bucket.put_new(&key, &Bytes::from_static(b"passed\n"))? {
        // Another node was faster, or will have been.
        WriteOutcome::Won(_) | WriteOutcome::Lost { .. } => Ok(()),
        WriteOutcome::Unknown(error) => Err(error),
    }
}

/// A copy of a bucket in another store has another address, and has proved nothing.
fn marker_key(address: &str) -> String {
    let digest = sha2::Sha256::digest(address.as_bytes());
    let digits: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v1/probed-{digits}")
}

fn random_text() -> String {
    (0..4).map(|_| format!("{:08x}", packrace_os::durable::random_number())).collect()
}

struct Run<'a> {
    bucket: &'a Bucket,
    root: String,
    options: &'a ProbeOptions,
}

/// An error of ours ends the probe; a fault of the store is a finding.
type Checked = Result<Result<String, String>, Error>;

fn finding(why: &str) -> Checked {
    Ok(Err(why.to_owned()))
}

const FINE: Checked = Ok(Ok(String::new()));

impl Run<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    fn put(&self, key: &str, text: &str) -> Result<WriteOutcome, Error> {
        self.bucket.put_new(key, &Bytes::from(text.to_owned()))
    }

    fn reads_what_was_written(&self) -> Checked {
        let key = self.key("plain");
        if self.bucket.get_if_changed(&key, None, MAX_BYTES)? != Looked::Absent {
            return finding("an object that was never written exists");
        }
        self.put(&key, "one")?;
        let found = self.bucket.get_if_changed(&key, None, MAX_BYTES)?;
        self.bucket.delete(&key)?;
        match found {
            Looked::Found(bytes, _) if bytes == "one" => FINE,
            other => Ok(Err(format!("read {other:?}"))),
        }
    }

    fn creates_once(&self) -> Checked {
        let key = self.key("create");
        let first = self.put(&key, "one")?;
        let second = self.put(&key, "two")?;
        let found = self.bucket.get_if_changed(&key, None, MAX_BYTES)?;
        self.bucket.delete(&key)?;
        match (first, second, found) {
            (WriteOutcome::Unknown(why), _, _) | (_, WriteOutcome::Unknown(why), _) => Err(why),
            (WriteOutcome::Lost { in_doubt: false }, _, _) => {
                finding("object cannot be created with If-None-Match: *")
            }
            (_, WriteOutcome::Lost { .. }, Looked::Found(bytes, _)) if bytes == "one" => FINE,
            _ => finding("object was created twice: If-None-Match is ignored"),
        }
    }

    fn swaps_from_its_version(&self) -> Checked {
        let key = self.key("swap");
        self.put(&key, "one")?;
        let result = self.swaps(&key);
        self.bucket.delete(&key)?;
        result
    }

    fn swaps(&self, key: &str) -> Checked {
        let Looked::Found(_, first) = self.bucket.get_if_changed(key, None, MAX_BYTES)? else {
            return finding("object is missing");
        };
        let two = Bytes::from_static(b"two");
        let mut form = "ETags match with quotes";
        if !matches!(self.bucket.swap(key, &first, &two)?, WriteOutcome::Won(_)) {
            form = "ETags match only without quotes";
            if !matches!(self.bucket.swap(key, &first.unquoted(), &two)?, WriteOutcome::Won(_)) {
                return finding(
                    "object cannot be replaced with If-Match, with or without quotes around its ETag",
                );
            }
        }
        let three = Bytes::from_static(b"three");
        for version in [first.clone(), first.unquoted(), ObjectVersion("\"0123456789abcdef\"".into())] {
            if matches!(self.bucket.swap(key, &version, &three)?, WriteOutcome::Won(_)) {
                return finding("object was replaced although its ETag differs: If-Match is ignored");
            }
        }
        match self.bucket.get_if_changed(key, None, MAX_BYTES)? {
            Looked::Found(bytes, _) if bytes == "two" => Ok(Ok(form.to_owned())),
            _ => finding("read returns the old object after a replace"),
        }
    }

    fn knows_what_is_unchanged(&self) -> Checked {
        let key = self.key("unchanged");
        self.put(&key, "one")?;
        let Looked::Found(_, version) = self.bucket.get_if_changed(&key, None, MAX_BYTES)? else {
            return finding("object is missing");
        };
        let again = self.bucket.get_if_changed(&key, Some(&version), MAX_BYTES)?;
        self.bucket.delete(&key)?;
        self.put(&key, "two")?;
        let changed = self.bucket.get_if_changed(&key, Some(&version), MAX_BYTES)?;
        self.bucket.delete(&key)?;
        match (again, changed) {
            (Looked::Unchanged, Looked::Found(bytes, _)) if bytes == "two" => FINE,
            (Looked::Unchanged, _) => finding("304 for an object that has changed"),
            _ => finding("unchanged object was sent again: If-None-Match is ignored"),
        }
    }

    fn sends_parts(&self) -> Checked {
        let key = self.key("parts");
        self.put(&key, "0123456789")?;
        let mut result = FINE;
        for (range, expect) in [(0..3, "012"), (4..7, "456"), (9..10, "9"), (0..10, "0123456789")] {
            match self.bucket.get_range(&key, range.clone()) {
                Ok(Some(bytes)) if bytes == expect => {}
                Ok(other) => result = Ok(Err(format!("bytes {range:?} were {other:?}"))),
                Err(error) => result = Ok(Err(format!("bytes {range:?}: {error}"))),
            }
        }
        self.bucket.delete(&key)?;
        result
    }

    fn lists_and_deletes(&self) -> Checked {
        let keys = ["list/a", "list/b=2fc"].map(|name| self.key(name));
        for key in &keys {
            self.put(key, "one")?;
        }
        let listed = self.listed()?;
        for key in &keys {
            self.bucket.delete(key)?;
        }
        match (listed == keys, self.listed()?.is_empty()) {
            (false, _) => Ok(Err(format!("listed {listed:?}"))),
            (true, false) => finding("deleted objects are still listed"),
            (true, true) => FINE,
        }
    }

    fn listed(&self) -> Result<Vec<String>, Error> {
        let mut listed = Vec::new();
        self.bucket.list(&self.key("list/"), &mut |key| {
            listed.push(key.to_owned());
            std::ops::ControlFlow::Continue(())
        })?;
        listed.sort();
        listed.dedup();
        Ok(listed)
    }

    fn races_to_create(&self) -> Checked {
        self.races("create", |key| self.has_one_winner(key, |text| self.bucket.put_new(key, text)))
    }

    fn races_to_swap(&self) -> Checked {
        self.races("match", |key| {
            self.put(key, "first")?;
            let Looked::Found(_, version) = self.bucket.get_if_changed(key, None, MAX_BYTES)? else {
                return Ok(false);
            };
            // As an earlier check found out, one of the two forms matches.
            let swap = |text: &Bytes| match self.bucket.swap(key, &version, text)? {
                WriteOutcome::Lost { in_doubt: false } => self.bucket.swap(key, &version.unquoted(), text),
                other => Ok(other),
            };
            self.has_one_winner(key, swap)
        })
    }

    /// Runs all rounds, each with an object of its own.
    fn races(&self, name: &str, race: impl Fn(&str) -> Result<bool, Error> + Sync) -> Checked {
        let next = AtomicUsize::new(0);
        let run = || -> Result<usize, Error> {
            let mut bad = 0;
            loop {
                let round = next.fetch_add(1, Ordering::Relaxed);
                if round >= self.options.rounds {
                    return Ok(bad);
                }
                bad += usize::from(!race(&self.key(&format!("{name}-{round}")))?);
            }
        };
        let bad = std::thread::scope(|scope| {
            let at_once = (MAX_WRITERS / self.options.writers.max(1)).clamp(1, self.options.rounds.max(1));
            let running: Vec<_> = (0..at_once).map(|_| scope.spawn(run)).collect();
            let joined = running.into_iter().map(|running| running.join());
            joined
                .map(|bad| bad.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .sum::<Result<usize, _>>()
        })?;
        self.told(bad)
    }

    fn told(&self, bad: usize) -> Checked {
        let ProbeOptions { writers, rounds } = self.options;
        match bad {
            0 => Ok(Ok(format!("{rounds} rounds of {writers}"))),
            _ => Ok(Err(format!("failed in {bad} of {rounds} rounds of {writers}: writes are lost"))),
        }
    }

    /// Starts all writes at once. Exactly one must win, and its text must be stored; if none is known to have
    /// won, the text of a writer in doubt is accepted.
    fn has_one_winner(
        &self,
        key: &str,
        write: impl Fn(&Bytes) -> Result<WriteOutcome, Error> + Sync,
    ) -> Result<bool, Error> {
        let all = Barrier::new(self.options.writers);
        let text = |writer: usize| Bytes::from(format!("written by {writer}"));
        let outcomes: Vec<Result<WriteOutcome, Error>> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..self.options.writers)
                .map(|writer| {
                    let (all, write) = (&all, &write);
                    scope.spawn(move || {
                        all.wait();
                        write(&text(writer))
                    })
                })
                .collect();
            let joined = writers.into_iter().map(|writer| writer.join());
            joined.map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        let found = self.bucket.get_if_changed(key, None, MAX_BYTES)?;
        self.bucket.delete(key)?;
        let (mut winners, mut in_doubt) = (Vec::new(), Vec::new());
        for (writer, outcome) in outcomes.into_iter().enumerate() {
            match outcome? {
                WriteOutcome::Won(_) => winners.push(text(writer)),
                WriteOutcome::Lost { in_doubt: false } => {}
                WriteOutcome::Lost { in_doubt: true } | WriteOutcome::Unknown(_) => {
                    in_doubt.push(text(writer))
                }
            }
        }
        let Looked::Found(found, _) = found else { return Ok(false) };
        Ok(match winners.as_slice() {
            [] => in_doubt.contains(&found),
            [winner] => *winner == found,
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::bucket::double::{Double, FaultRates, StoreFlaw};

    fn run(double: Double, options: &ProbeOptions) -> (bool, Vec<Finding>, Arc<Double>) {
        let double = Arc::new(double);
        let mut findings = Vec::new();
        let bucket = Bucket::new(double.clone());
        let is_good = probe(&bucket, options, &mut |finding| findings.push(finding.clone())).unwrap();
        (is_good, findings, double)
    }

    fn broken(findings: &[Finding]) -> Vec<&str> {
        findings.iter().filter(|found| found.result.is_err()).map(|found| found.promise).collect()
    }

    #[test]
    fn a_good_store_is_taken_and_left_as_it_was() {
        let (is_good, findings, double) = run(Double::new(), &ProbeOptions { writers: 8, rounds: 5 });
        assert!(is_good, "{findings:?}");
        assert_eq!(findings.len(), 8);
        assert_eq!(double.keys(), [""; 0]);
    }

    #[test]
    fn a_store_is_probed_once_for_each_address() {
        let double = Arc::new(Double::new());
        let bucket = Bucket::new(double.clone());
        require(&bucket, "http://a", || ()).unwrap();
        assert_eq!(double.keys().len(), 1);
        double.leave_after(1);
        require(&bucket, "http://a", || ()).unwrap();
        double.set_away(false);
        require(&bucket, "http://b", || ()).unwrap();
        assert_eq!(double.keys().len(), 2);
        mark(&bucket, "http://b", false).unwrap();
        assert_eq!(double.keys().len(), 1);
    }

    #[test]
    fn a_store_that_fails_is_refused_with_the_reason() {
        let double = Arc::new(Double::flawed(StoreFlaw::IgnoresConditions));
        let refused = require(&Bucket::new(double.clone()), "http://a", || ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused);
        let words = refused.to_string();
        assert!(words.contains("not suitable") && words.contains("If-Match is ignored"), "{words}");
        assert_eq!(double.keys(), [""; 0]);
    }

    #[test]
    fn answers_that_are_lost_do_not_make_a_store_bad() {
        let rates =
            FaultRates { lost_before: 20, lost_after: 20, busy: 20, cut: 20, ..FaultRates::default() };
        for seed in 0..20 {
            let options = ProbeOptions { writers: 8, rounds: 5 };
            let (_, findings, _) = run(Double::with_faults(seed, rates), &options);
            let races = &findings[6..];
            assert!(races.iter().all(|race| race.result.is_ok()), "{seed}: {races:?}");
        }
    }

    #[test]
    fn stores_that_do_not_do_are_refused() {
        let check = |flaw, expect: &[&str]| {
            let (is_good, findings, _) = run(Double::flawed(flaw), &ProbeOptions { writers: 8, rounds: 2 });
            assert!(!is_good);
            assert_eq!(broken(&findings), expect);
        };
        check(StoreFlaw::NeverUnchanged, &["conditional read (304)"]);
        check(StoreFlaw::IgnoresRanges, &["range reads"]);
        check(
            StoreFlaw::IgnoresConditions,
            &[
                "conditional create (If-None-Match: *)",
                "conditional replace (If-Match)",
                "one winner among concurrent creates",
                "one winner among concurrent replaces",
            ],
        );
    }

    #[test]
    fn the_form_of_tags_is_told() {
        let options = ProbeOptions { writers: 4, rounds: 2 };
        let said = |double| run(double, &options).1[2].result.clone().unwrap();
        assert_eq!(said(Double::new()), "ETags match with quotes");
        assert_eq!(said(Double::flawed(StoreFlaw::WantsUnquoted)), "ETags match only without quotes");
    }

    /// Each sequential check passes. The races must detect the flaw every time, although they depend on
    /// chance.
    fn check_races_find_out_who_is_not_atomic(runs: usize) {
        for run_number in 0..runs {
            let options = ProbeOptions { writers: 32, rounds: 20 };
            let (is_good, findings, _) = run(Double::flawed(StoreFlaw::NotAtomic), &options);
            assert!(!is_good, "run {run_number}");
            assert_eq!(broken(&findings[..6]), [""; 0]);
        }
    }

    #[test]
    fn races_find_out_who_is_not_atomic() {
        check_races_find_out_who_is_not_atomic(20);
    }

    #[test]
    #[ignore = "slow: a hundred runs of 1,280 races each"]
    fn races_always_find_out_who_is_not_atomic() {
        check_races_find_out_who_is_not_atomic(100);
    }

    #[test]
    fn stores_without_conditions_are_always_refused() {
        for _ in 0..100 {
            let options = ProbeOptions { writers: 4, rounds: 2 };
            assert!(!run(Double::flawed(StoreFlaw::IgnoresConditions), &options).0);
        }
    }
}
