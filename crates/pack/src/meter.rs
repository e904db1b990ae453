//! Progress as git's lines, for a terminal or band 2; time is an argument.

use std::fmt::Write as _;
use std::time::Duration;

use crate::progress::{Phase, Totals};

/// How often lines are shown.
#[derive(Debug, Clone, Copy)]
pub struct ProgressInterval {
    /// The least time between two lines of a phase.
    pub interval: Duration,
    /// How long a usually short phase must take before it is shown.
    pub delay: Duration,
}

/// Turns reports to a [`crate::ProgressSink`] into lines: a running phase ends in a carriage return, a
/// finished one in `done.` and a line feed.
#[derive(Debug)]
pub struct Meter {
    pace: ProgressInterval,
    phase: Option<Current>,
    sent_bytes: Option<u64>,
    /// The title of [`Phase::Receiving`] and [`Phase::Indexing`], if not git's.
    intake_title: Option<String>,
}

/// The current phase.
#[derive(Debug)]
struct Current {
    phase: Phase,
    title: String,
    since: Duration,
    shown: Duration,
    is_open: bool,
    done: u64,
    total: u64,
}

impl Meter {
    /// A meter without a phase.
    pub fn new(pace: ProgressInterval) -> Self {
        Meter { pace, phase: None, sent_bytes: None, intake_title: None }
    }

    /// Sets the title of [`Phase::Receiving`] and [`Phase::Indexing`].
    pub fn set_intake_title(&mut self, title: &str) {
        self.intake_title = Some(title.to_owned());
    }

    /// The text to show now, if any.
    pub fn update(&mut self, phase: Phase, done: u64, total: u64, now: Duration) -> Option<String> {
        let mut text = String::new();
        if self.phase.as_ref().is_some_and(|current| current.phase != phase) {
            text = self.finish(now);
        }
        let current = self.phase.get_or_insert_with(|| {
            let title = match (phase, &self.intake_title) {
                (Phase::Receiving | Phase::Indexing, Some(title)) => title.clone(),
                _ => title(phase),
            };
            Current { phase, title, since: now, shown: now, is_open: false, done, total }
        });
        (current.done, current.total) = (done, total);
        if now.saturating_sub(current.shown) >= self.pace.interval && is_long(current, self.pace, now) {
            (current.shown, current.is_open) = (now, true);
            text.push_str(&line(current, self.sent_bytes, now));
            text.push('\r');
        }
        (!text.is_empty()).then_some(text)
    }

    /// Ends the current phase with `done.`
    pub fn finish(&mut self, now: Duration) -> String {
        self.finish_saying("done.", now)
    }

    /// The same with `words` instead of `done.`
    pub fn finish_saying(&mut self, words: &str, now: Duration) -> String {
        match self.phase.take() {
            Some(current) if current.done > 0 && is_long(&current, self.pace, now) => {
                format!("{}, {words}\n", line(&current, self.sent_bytes, now))
            }
            _ => String::new(),
        }
    }

    /// Ends the line of the current phase without finishing the phase, because another message follows.
    pub fn stop(&mut self) -> &'static str {
        if self.phase.take().is_some_and(|current| current.is_open) { "\n" } else { "" }
    }

    /// Adds bytes sent; the sum is shown while a pack is written.
    pub fn sent(&mut self, bytes: u64) {
        self.sent_bytes = Some(self.sent_bytes.unwrap_or(0).saturating_add(bytes));
    }
}

/// Git's closing line for a complete pack.
pub fn total_line(totals: &Totals) -> String {
    let Totals { objects, deltas, reused, reused_deltas, pack_reused, packs_reused } = totals;
    format!(
        "Total {objects} (delta {deltas}), reused {reused} (delta {reused_deltas}), pack-reused {pack_reused} (from {packs_reused})\n"
    )
}

fn is_long(current: &Current, pace: ProgressInterval, now: Duration) -> bool {
    !is_usually_short(current.phase) || now.saturating_sub(current.since) >= pace.delay
}

fn line(current: &Current, sent_bytes: Option<u64>, now: Duration) -> String {
    let Current { phase, title, done, total, .. } = current;
    let mut line = title.clone();
    let _ = match (done * 100).checked_div(*total) {
        Some(percent) => write!(line, ": {percent:>3}% ({done}/{total})"),
        None => write!(line, ": {done}"),
    };
    if let (Phase::Writing | Phase::Receiving, Some(bytes)) = (phase, sent_bytes) {
        let millis = now.saturating_sub(current.since).as_millis().max(1);
        let rate = u64::try_from(u128::from(bytes) * 1000 / millis).unwrap_or(u64::MAX);
        let _ = write!(line, ", {} | {}/s", size(bytes), size(rate));
    }
    line
}

/// A size in git's format, such as `12.10 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    let (unit, shift) = match bytes {
        0x4000_0001.. => ("GiB", 30),
        0x0010_0001.. => ("MiB", 20),
        0x0000_0401.. => ("KiB", 10),
        1 => return "1 byte".to_owned(),
        _ => return format!("{bytes} bytes"),
    };
    let hundredths = (u128::from(bytes) * 100) >> shift;
    format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100)
}

/// Whether git shows this phase only if it takes longer.
fn is_usually_short(phase: Phase) -> bool {
    !matches!(
        phase,
        Phase::Enumerating
            | Phase::EnumeratingCruft
            | Phase::Counting
            | Phase::CompressingByPath
            | Phase::Compressing
            | Phase::Writing
            | Phase::SelectingBitmaps
            | Phase::BuildingBitmaps
            | Phase::VerifyingOrder
            | Phase::VerifyingOffsets
            | Phase::VerifyingCommits
            | Phase::Receiving
            | Phase::Indexing
            | Phase::Resolving
            | Phase::Unpacking
    )
}

/// git's title of a phase.
pub fn title(phase: Phase) -> String {
    let title = match phase {
        Phase::Enumerating => "Enumerating objects",
        Phase::EnumeratingCruft => "Enumerating cruft objects",
        Phase::Counting => "Counting objects",
        Phase::CompressingByPath => "Compressing objects by path",
        Phase::Compressing => "Compressing objects",
        Phase::Writing => "Writing objects",
        Phase::RemovingDuplicates => "Removing duplicate objects",
        Phase::SelectingBitmaps => "Selecting bitmap commits",
        Phase::ReadingTrees => "Reading trees for bitmaps",
        Phase::BuildingBitmaps => "Building bitmaps",
        Phase::AddingPacks => "Adding packfiles to multi-pack-index",
        Phase::LookingForPacks => "Looking for referenced packfiles",
        Phase::VerifyingOrder => "Verifying OID order in multi-pack-index",
        Phase::VerifyingOffsets => "Verifying object offsets",
        Phase::CountingReferenced => "Counting referenced objects",
        Phase::DeletingPacks => "Finding and deleting unreferenced packfiles",
        Phase::FindingPackedCommits => "Finding commits for commit graph among packed objects",
        Phase::FindingCommits { packs: 1 } => "Finding commits for commit graph in 1 pack",
        Phase::FindingCommits { packs } => {
            return format!("Finding commits for commit graph in {packs} packs");
        }
        Phase::CollectingReferenced => "Collecting referenced commits",
        Phase::CollectingInput => "Collecting commits from input",
        Phase::ExpandingCommits => "Expanding reachable commits in commit graph",
        Phase::ComputingFilters => "Computing commit changed paths Bloom filters",
        Phase::VerifyingCommits => "Verifying commits in commit graph",
        Phase::CheckingConnectivity => "Checking connectivity",
        Phase::Receiving => "Receiving objects",
        Phase::Indexing => "Indexing objects",
        Phase::Resolving => "Resolving deltas",
        Phase::Unpacking => "Unpacking objects",
    };
    title.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: ProgressInterval =
        ProgressInterval { interval: Duration::from_secs(1), delay: Duration::from_secs(2) };

    /// Checks which lines are shown, and when, for these reports; the phase ends at `end`.
    fn check(reports: &[(u64, Phase, u64, u64)], end: u64, expect: &[(u64, &str)]) {
        let mut meter = Meter::new(PACE);
        let mut found = Vec::new();
        for (millis, phase, done, total) in reports {
            let text = meter.update(*phase, *done, *total, Duration::from_millis(*millis));
            found.extend(text.map(|text| (*millis, text)));
        }
        let text = meter.finish(Duration::from_millis(end));
        found.extend((!text.is_empty()).then_some((end, text)));
        let found: Vec<(u64, &str)> = found.iter().map(|(millis, text)| (*millis, text.as_str())).collect();
        assert_eq!(found, expect);
        assert_eq!(meter.finish(Duration::from_millis(end)), "");
    }

    #[test]
    fn a_phase_is_shown_once_a_second_and_when_it_ends() {
        check(
            &[
                (0, Phase::Enumerating, 5, 0),
                (999, Phase::Enumerating, 6, 0),
                (1000, Phase::Enumerating, 7, 0),
                (1001, Phase::Enumerating, 8, 0),
                (1002, Phase::Counting, 4, 8),
                (2002, Phase::Counting, 8, 8),
            ],
            2003,
            &[
                (1000, "Enumerating objects: 7\r"),
                (1002, "Enumerating objects: 8, done.\n"),
                (2002, "Counting objects: 100% (8/8)\r"),
                (2003, "Counting objects: 100% (8/8), done.\n"),
            ],
        );
    }

    #[test]
    fn what_is_usually_short_is_shown_when_it_is_not() {
        check(
            &[(0, Phase::AddingPacks, 0, 0), (1999, Phase::AddingPacks, 3, 0), (2000, Phase::Counting, 0, 9)],
            2000,
            &[(2000, "Adding packfiles to multi-pack-index: 3, done.\n")],
        );
        check(&[(0, Phase::AddingPacks, 0, 0), (1500, Phase::AddingPacks, 3, 0)], 1999, &[]);
        check(
            &[(0, Phase::ExpandingCommits, 1, 0), (2000, Phase::ExpandingCommits, 3, 0)],
            2001,
            &[
                (2000, "Expanding reachable commits in commit graph: 3\r"),
                (2001, "Expanding reachable commits in commit graph: 3, done.\n"),
            ],
        );
    }

    #[test]
    fn nothing_done_is_nothing_shown() {
        check(&[(0, Phase::Counting, 0, 0), (1, Phase::Writing, 0, 5)], 2, &[]);
    }

    #[test]
    fn an_open_line_is_left_when_something_else_is_said() {
        let mut meter = Meter::new(PACE);
        meter.update(Phase::Writing, 1, 4, Duration::ZERO);
        assert_eq!(meter.stop(), "");
        meter.update(Phase::Writing, 1, 4, Duration::ZERO);
        meter.update(Phase::Writing, 2, 4, Duration::from_secs(1));
        assert_eq!((meter.stop(), meter.stop()), ("\n", ""));
    }

    #[test]
    fn bytes_are_shown_while_a_pack_is_written() {
        let mut meter = Meter::new(PACE);
        meter.update(Phase::Writing, 1, 4, Duration::ZERO);
        meter.sent(12_000);
        meter.sent(390);
        assert_eq!(
            meter.finish(Duration::from_millis(500)),
            "Writing objects:  25% (1/4), 12.09 KiB | 24.19 KiB/s, done.\n"
        );
    }

    #[test]
    fn what_comes_in_is_called_as_asked() {
        let mut meter = Meter::new(PACE);
        meter.set_intake_title("Taking");
        meter.update(Phase::Receiving, 1, 4, Duration::ZERO);
        let next = meter.update(Phase::Resolving, 1, 1, Duration::ZERO);
        assert_eq!(next.as_deref(), Some("Taking:  25% (1/4), done.\n"));
        assert_eq!(meter.finish(Duration::ZERO), "Resolving deltas: 100% (1/1), done.\n");
    }

    #[test]
    fn sizes() {
        let check = |bytes, expect| assert_eq!(size(bytes), expect);
        check(0, "0 bytes");
        check(1024, "1024 bytes");
        check(1025, "1.00 KiB");
        check(1 << 20, "1024.00 KiB");
        check((1 << 20) + (1 << 19), "1.50 MiB");
        check(5 << 30, "5.00 GiB");
        check(u64::MAX, "17179869183.99 GiB");
    }
}
