//! Contenders on one work: medians, ratios, rows of the table and records.

use serde_json::{Value, json};

use crate::goals::verdicts;
use crate::measure::{Calls, Peak, Timing};
use packrace_testkit::mounted::Traffic;

/// One contender's results for one work.
#[derive(Debug, Clone)]
pub struct Record {
    /// git, packrace or gix.
    pub who: &'static str,
    /// Median of the rounds.
    pub wall_seconds: f64,
    /// Median of the rounds.
    pub cpu_seconds: f64,
    /// Timed rounds.
    pub rounds: usize,
    /// Consecutive runs per round.
    pub runs_a_round: usize,
    /// System calls of all processes.
    pub calls: Option<Calls>,
    /// Write calls to the client, from packrace's own report.
    pub reported_client_writes: Option<u64>,
    /// Write calls to packs, from the same report.
    pub reported_pack_writes: Option<u64>,
    /// The mounted file system's requests for packs.
    pub packs_on_mount: Option<Traffic>,
    /// Bytes of the answer.
    pub bytes: u64,
    /// Peak memory of all processes.
    pub peak: Option<Peak>,
}

/// The contenders on one work.
pub struct Comparison {
    /// The work's name.
    pub name: String,
    /// git's record.
    pub git: Record,
    /// packrace's, if it took part.
    pub packrace: Option<Record>,
    /// gix's record, if it took part.
    pub gix: Option<Record>,
    /// The bytes that packrace's are compared with.
    pub reference_bytes: u64,
}

/// Median wall and CPU time; each sorted on its own.
pub fn medians(timings: &[Timing]) -> (f64, f64) {
    let middle = |figure: fn(&Timing) -> f64| {
        let mut figures: Vec<f64> = timings.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    (middle(|timing| timing.wall_seconds), middle(|timing| timing.cpu_seconds))
}

/// The table's head.
pub fn head() -> &'static str {
    "| work | who | wall ms | CPU ms | write calls, of all | reads, positioned | syncs | MB out | peak anonymous MB (resident) | goals |\n\
     |---|---|---:|---:|---:|---:|---:|---:|---:|---|"
}

impl Comparison {
    /// The rows of the table.
    pub fn rows(&self) -> String {
        let mut rows = format!("| {} {}", self.name, row(&self.git));
        if let Some(gix) = &self.gix {
            rows.push_str(&format!("| {}", row(gix)));
        }
        if let Some(packrace) = &self.packrace {
            rows.push_str(&format!("| {}", row(packrace)));
            rows.push_str(&self.ratio_row(packrace));
        }
        rows
    }

    fn ratio_row(&self, packrace: &Record) -> String {
        let ratio = |ours: Option<f64>, theirs: Option<f64>| match (ours, theirs) {
            (Some(ours), Some(theirs)) if theirs > 0.0 => format!("{:.2} ×", ours / theirs),
            _ => "–".to_string(),
        };
        let git = &self.git;
        let calls = |figure: fn(&Calls) -> u64| {
            let figure = |record: &Record| record.calls.as_ref().map(|calls| figure(calls) as f64);
            ratio(figure(packrace), figure(git))
        };
        let memory = |record: &Record| record.peak.map(|peak| peak.anonymous_bytes as f64);
        let goals = verdicts(&self.record_json(packrace), &self.json());
        format!(
            "| | **ratio** | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            ratio(Some(packrace.wall_seconds), Some(git.wall_seconds)),
            ratio(Some(packrace.cpu_seconds), Some(git.cpu_seconds)),
            calls(|calls| calls.writes),
            calls(|calls| calls.reads + calls.positioned_reads),
            calls(|calls| calls.syncs),
            ratio(Some(packrace.bytes as f64), Some(self.reference_bytes as f64)),
            ratio(memory(packrace), memory(git)),
            goals
        )
    }

    /// The records as JSON.
    pub fn json(&self) -> Vec<Value> {
        std::iter::once(&self.git)
            .chain(&self.packrace)
            .chain(&self.gix)
            .map(|record| self.record_json(record))
            .collect()
    }

    fn record_json(&self, record: &Record) -> Value {
        json!({
            "work": self.name,
            "who": record.who,
            "wall_seconds": record.wall_seconds,
            "cpu_seconds": record.cpu_seconds,
            "runs_a_round": record.runs_a_round,
            "rounds": record.rounds,
            "write_calls": record.calls.map(|calls| calls.writes),
            "client_writes": record.reported_client_writes.or(record.calls.map(|calls| calls.writes)),
            "pack_writes": record.packs_on_mount.map(|packs| packs.writes).or(record.reported_pack_writes),
            "read_calls": record.calls.map(|calls| calls.reads),
            "positioned_read_calls": record.calls.map(|calls| calls.positioned_reads),
            "sync_calls": record.calls.map(|calls| calls.syncs),
            "calls": record.calls.map(|calls| calls.all),
            "bytes": record.bytes,
            "reference_bytes": self.reference_bytes,
            "mebibytes": record.bytes >> 20,
            "peak_anonymous_bytes": record.peak.map(|peak| peak.anonymous_bytes),
            "peak_resident_bytes": record.peak.map(|peak| peak.resident_bytes),
        })
    }
}

fn row(record: &Record) -> String {
    let mounted = record.packs_on_mount.map(|packs| format!("{} of packs on the mount", packs.writes));
    let own = record.reported_pack_writes.filter(|_| mounted.is_none()).map(|own| format!("{own} of packs"));
    let client = record.reported_client_writes.map(|client| format!("{client} to the client"));
    let notes: Vec<String> = client.into_iter().chain(own).chain(mounted).collect();
    let writes = record.calls.map(|calls| calls.writes.to_string());
    let writes = match (writes, notes.is_empty()) {
        (Some(writes), true) => writes,
        (Some(writes), false) => format!("{writes} ({})", notes.join(", ")),
        (None, true) => "–".to_string(),
        (None, false) => notes.join(", "),
    };
    let of_all = record.calls.map_or(String::new(), |calls| format!(" of {}", calls.all));
    let dash = || "–".to_string();
    let reads =
        record.calls.map_or_else(dash, |calls| format!("{}, {}", calls.reads, calls.positioned_reads));
    let syncs = record.calls.map_or_else(dash, |calls| calls.syncs.to_string());
    let memory = record.peak.map_or_else(dash, |peak| {
        format!("{:.1} ({:.1})", peak.anonymous_bytes as f64 / 1e6, peak.resident_bytes as f64 / 1e6)
    });
    format!(
        "| {} | {:.1} | {:.1} | {writes}{of_all} | {reads} | {syncs} | {:.3} | {memory} | |\n",
        record.who,
        record.wall_seconds * 1e3,
        record.cpu_seconds * 1e3,
        record.bytes as f64 / 1e6,
    )
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn record(who: &'static str, seconds: f64, calls: u64) -> Record {
        Record {
            who,
            wall_seconds: seconds,
            cpu_seconds: seconds,
            rounds: 1,
            runs_a_round: 1,
            calls: Some(Calls { writes: calls, ..Calls::default() }),
            reported_client_writes: None,
            reported_pack_writes: Some(calls / 2),
            packs_on_mount: None,
            bytes: 2_000_000,
            peak: None,
        }
    }

    #[test]
    fn goals_are_judged() {
        let comparison = Comparison {
            name: "P5 index-pack --stdin, file".to_string(),
            git: record("git", 1.0, 1000),
            packrace: Some(record("packrace", 0.5, 50)),
            gix: Some(record("gix", 0.6, 70)),
            reference_bytes: 1_000_000,
        };
        let rows = comparison.rows();
        let last = rows.lines().last().unwrap();
        assert!(last.contains("0.50 × | 0.50 × | 0.05 × | – | – | 2.00 × | –"), "{last}");
        assert!(
            last.contains("**wall ≤ 0.18 × ✗**, **wall ≤ 0.5 × gix ✗**, memory ≤ 256 MB ?, preads ≤ 2 ✓"),
            "{last}"
        );
        assert!(rows.contains("| packrace | 500.0 | 500.0 | 50 (25 of packs) of 0 | 0, 0 | 0 |"), "{rows}");
        assert_eq!(comparison.json().len(), 3);
    }

    #[test]
    fn the_median_is_the_middle() {
        let timing = |wall_seconds, cpu_seconds| Timing { wall_seconds, cpu_seconds, bytes: 0 };
        assert_eq!(medians(&[timing(3.0, 1.0), timing(1.0, 9.0), timing(2.0, 5.0)]), (2.0, 5.0));
    }
}
