//! What each measurement should reach: one table, judged on records, in a run and in a report.

mod table;

use serde_json::Value;

pub use table::ROWS;

/// One goal of the table.
#[derive(Debug, Clone, Copy)]
pub struct GoalRow {
    /// The row's name: several goals may share it.
    pub row: &'static str,
    /// What is measured, for readers.
    pub what: &'static str,
    /// The work of the records, where `*` stands for anything.
    pub work: &'static str,
    /// Who is judged, in the same way.
    pub who: &'static str,
    /// The goal.
    pub goal: Goal,
}

/// A bound of one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// The figure in words.
    pub label: &'static str,
    /// The record's field.
    pub figure: &'static str,
    /// What the figure is compared with.
    pub yardstick: Yardstick,
    /// Whether more is better.
    pub is_floor: bool,
    /// The bound.
    pub limit: f64,
    /// What may be above the bound without counting, in units of the figure.
    pub slack: f64,
}

/// What a figure is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yardstick {
    /// Nothing: the figure itself counts.
    Itself,
    /// The same figure of the peer: of git, unless the record names another.
    Peer,
    /// The same figure of another contender.
    Of(&'static str),
    /// Another figure of the same record.
    Own(&'static str),
}

/// A figure, and whether it reaches its goal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// The figure of packrace.
    pub figure: f64,
    /// The figure that it is compared with.
    pub peer: Option<f64>,
    /// The ratio, or the figure itself: what the bound is for.
    pub measured: f64,
    /// Whether the goal is held.
    pub is_held: bool,
}

impl Goal {
    const fn new(label: &'static str, figure: &'static str, yardstick: Yardstick, limit: f64) -> Self {
        Goal { label, figure, yardstick, is_floor: false, limit, slack: 0.0 }
    }

    /// At most this share of the peer's CPU time.
    pub const fn cpu_ratio(limit: f64) -> Self {
        Goal::new("CPU", "cpu_seconds", Yardstick::Peer, limit)
    }

    /// At most this share of the peer's wall time.
    pub const fn wall_ratio(limit: f64) -> Self {
        Goal::new("wall", "wall_seconds", Yardstick::Peer, limit)
    }

    /// At most this figure.
    pub const fn at_most(label: &'static str, figure: &'static str, limit: f64) -> Self {
        Goal::new(label, figure, Yardstick::Itself, limit)
    }

    /// The bound is for the ratio to something.
    pub const fn beside(self, yardstick: Yardstick) -> Self {
        Goal { yardstick, ..self }
    }

    /// At least this much instead of at most.
    pub const fn or_more(self) -> Self {
        Goal { is_floor: true, ..self }
    }

    /// So much above the bound does not count.
    pub const fn with_slack(self, slack: f64) -> Self {
        Goal { slack, ..self }
    }

    /// The bound is for a ratio, and not for the figure.
    pub fn is_ratio(&self) -> bool {
        self.yardstick != Yardstick::Itself
    }

    /// The goal in words.
    pub fn words(&self) -> String {
        let sign = if self.is_floor { '≥' } else { '≤' };
        let beside = match self.yardstick {
            Yardstick::Of(who) => format!(" {who}"),
            Yardstick::Own(_) | Yardstick::Peer | Yardstick::Itself => String::new(),
        };
        let limit = match self.is_ratio() {
            true => format!("{} ×{beside}", self.limit),
            false => shown(self.figure, self.limit),
        };
        format!("{} {sign} {limit}", self.label)
    }

    /// Judges a record among those of its run; `None` if a figure is missing.
    pub fn judge(&self, record: &Value, run: &[Value]) -> Option<Judgement> {
        let figure = record[self.figure].as_f64()?;
        let of = |who: &str| Some(beside(record, who, run)?[self.figure].as_f64());
        let peer = match self.yardstick {
            Yardstick::Itself => None,
            Yardstick::Peer => Some(of(record["beside"].as_str().unwrap_or("git"))??),
            Yardstick::Of(who) => Some(of(who)??),
            Yardstick::Own(other) => Some(record[other].as_f64()?),
        };
        let measured = peer.map_or(figure, |peer| figure / peer);
        if !measured.is_finite() {
            return None;
        }
        let bound = self.limit * peer.unwrap_or(1.0);
        let is_held = if self.is_floor { figure >= bound } else { figure <= bound + self.slack };
        Some(Judgement { figure, peer, measured, is_held })
    }

    /// How far a measured value is from the bound: beyond 1 it is missed.
    pub fn distance(&self, judgement: &Judgement) -> f64 {
        match self.is_floor {
            true => self.limit / judgement.measured,
            false if judgement.is_held => (judgement.measured / self.limit).min(1.0),
            false => judgement.measured / self.limit,
        }
    }
}

impl GoalRow {
    /// Whether the goal is for this record.
    pub fn is_for(&self, record: &Value) -> bool {
        let is_like = |pattern, key: &str| record[key].as_str().is_some_and(|text| is_like(pattern, text));
        is_like(self.work, "work") && is_like(self.who, "who")
    }
}

/// The goals of a record in words, and whether it reaches them.
pub fn verdicts(record: &Value, run: &[Value]) -> String {
    let rows = ROWS.iter().filter(|row| row.is_for(record));
    let verdicts = rows.map(|row| {
        let words = row.goal.words();
        match row.goal.judge(record, run).map(|judgement| judgement.is_held) {
            Some(true) => format!("{words} ✓"),
            Some(false) => format!("**{words} ✗**"),
            None => format!("{words} ?"),
        }
    });
    verdicts.collect::<Vec<_>>().join(", ")
}

/// The record of another contender for the same work.
pub fn beside<'a>(record: &Value, who: &str, run: &'a [Value]) -> Option<&'a Value> {
    run.iter().find(|other| other["who"] == who && other["work"] == record["work"])
}

/// A figure with its unit, which the end of the field's name says.
pub fn shown(figure: &str, value: f64) -> String {
    let is_time = figure.ends_with("seconds") || figure.contains("seconds_p");
    let (value, unit) = match () {
        () if is_time && value < 1.0 => (value * 1e3, " ms"),
        () if is_time => (value, " s"),
        () if figure.contains("bytes") && value < 1e6 => (value / 1e3, " kB"),
        () if figure.contains("bytes") && value < 1e9 => (value / 1e6, " MB"),
        () if figure.contains("bytes") => (value / 1e9, " GB"),
        () if figure.ends_with("microseconds_each") => (value, " µs"),
        () => (value, ""),
    };
    let rate = if figure.ends_with("a_second") { "/s" } else { "" };
    format!("{}{unit}{rate}", rounded(value))
}

/// Three digits, or all digits before the point.
pub fn rounded(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = usize::try_from((2 - magnitude).clamp(0, 4)).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction.trim_end_matches('0') {
        "" => grouped,
        fraction => format!("{grouped}.{fraction}"),
    }
}

/// Whether `text` is like `pattern`, in which `*` stands for anything.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').map_or((None, rest), |(middle, end)| (Some(middle), end));
    for part in middle.into_iter().flat_map(|middle| middle.split('*')) {
        let Some((_, after)) = text.split_once(part) else { return false };
        text = after;
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patterns() {
        for (pattern, text, expect) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*c", "abc", true),
            ("a*c", "abd", false),
            ("clone, * packs*", "clone, 300 packs, multi-pack-index", true),
            ("clone, * packs", "clone, 300 packs, multi-pack-index", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(is_like(pattern, text), expect, "{pattern} {text}");
        }
    }

    #[test]
    fn figures_are_compared() {
        let run = [
            json!({ "work": "w", "who": "git", "cpu_seconds": 2.0, "bytes": 5_000 }),
            json!({ "work": "w", "who": "gix", "wall_seconds": 1.0 }),
            json!({ "work": "w", "who": "packrace", "cpu_seconds": 0.5, "wall_seconds": 0.9, "bytes": 5_900, "reference_bytes": 5_000 }),
        ];
        let check = |goal: Goal, measured: f64, is_held: bool| {
            let judgement = goal.judge(&run[2], &run).unwrap();
            assert!((judgement.measured - measured).abs() < 1e-9, "{judgement:?}");
            assert_eq!(judgement.is_held, is_held, "{goal:?}");
            assert_eq!(goal.distance(&judgement) > 1.0, !is_held, "{goal:?}");
        };
        check(Goal::cpu_ratio(0.25), 0.25, true);
        check(Goal::cpu_ratio(0.2), 0.25, false);
        check(Goal::wall_ratio(0.5).beside(Yardstick::Of("gix")), 0.9, false);
        check(Goal::at_most("wall", "wall_seconds", 1.0), 0.9, true);
        let bytes = Goal::at_most("bytes", "bytes", 1.0).beside(Yardstick::Own("reference_bytes"));
        check(bytes.with_slack(1000.0), 1.18, true);
        check(bytes, 1.18, false);
        check(Goal::at_most("bytes", "bytes", 2.0).beside(Yardstick::Peer).or_more(), 1.18, false);
        // git's record has no wall time, and there is no such figure.
        assert_eq!(Goal::wall_ratio(1.0).judge(&run[2], &run), None);
        assert_eq!(Goal::at_most("syncs", "sync_calls", 1.0).judge(&run[2], &run), None);
        assert_eq!(Goal::cpu_ratio(1.0).judge(&run[2], &run[1..]), None);
    }

    #[test]
    fn goals_in_words() {
        assert_eq!(Goal::cpu_ratio(0.1).words(), "CPU ≤ 0.1 ×");
        assert_eq!(Goal::wall_ratio(0.5).beside(Yardstick::Of("gix")).words(), "wall ≤ 0.5 × gix");
        assert_eq!(Goal::at_most("memory", "peak_anonymous_bytes", 2e8).words(), "memory ≤ 200 MB");
        assert_eq!(Goal::at_most("wall", "wall_seconds", 0.005).words(), "wall ≤ 5 ms");
    }

    #[test]
    fn numbers() {
        for (value, expect) in [
            (0.0, "0"),
            (0.01234, "0.0123"),
            (0.5, "0.5"),
            (9.996, "10"),
            (123.4, "123"),
            (68690.0, "68,690"),
            (1234567.0, "1,234,567"),
            (-1500.0, "-1,500"),
        ] {
            assert_eq!(rounded(value), expect);
        }
        assert_eq!(shown("cpu_seconds", 0.1204), "120 ms");
        assert_eq!(shown("pack_bytes_a_second", 2.7e9), "2.7 GB/s");
        assert_eq!(shown("write_calls", 296.0), "296");
    }

    #[test]
    fn each_row_says_what_it_is_for() {
        for row in ROWS {
            assert!(!row.row.is_empty() && !row.what.is_empty() && row.goal.limit > 0.0, "{row:?}");
        }
        for name in [
            "P1", "P1b", "P2", "P3", "P4", "P5", "P6", "P6f", "P7", "P8", "P9", "P10", "P10b", "P10c", "P11",
            "P12", "P13",
        ] {
            assert!(ROWS.iter().any(|row| row.row == name), "{name}");
        }
    }
}
