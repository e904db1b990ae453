//! Medians, ratios and the tables that show them.

use serde_json::{Value, json};

use crate::measure::Timing;
use crate::work::Goal;

/// What one contender needed for one work.
#[derive(Debug, Clone)]
pub struct Record {
    /// git or packrace.
    pub who: &'static str,
    /// Median of the rounds.
    pub wall_seconds: f64,
    /// Median of the rounds.
    pub cpu_seconds: f64,
    /// Runs a round, one after the other.
    pub runs_a_round: usize,
    /// Write calls of all processes.
    pub write_calls: Option<u64>,
    /// System calls of all processes.
    pub calls: Option<u64>,
    /// Write calls to the client by packrace's own count.
    pub reported_client_writes: Option<u64>,
    /// Bytes of the answer.
    pub bytes: u64,
    /// Highest anonymous memory of all processes.
    pub peak_anonymous_bytes: Option<u64>,
}

/// Both contenders on one work.
pub struct Comparison {
    /// The work's name.
    pub name: String,
    /// git's record.
    pub git: Record,
    /// packrace's, if it took part.
    pub packrace: Option<Record>,
    /// The bytes by which packrace's are judged.
    pub reference_bytes: u64,
    /// What is to be reached.
    pub goals: Vec<Goal>,
}

/// The middle wall and CPU time; each sorted on its own.
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
    "| work | who | wall ms | CPU ms | write calls, of all | MB out | peak anonymous MB | goals |\n\
     |---|---|---:|---:|---:|---:|---:|---|"
}

impl Comparison {
    /// The rows of the table.
    pub fn rows(&self) -> String {
        let mut rows = format!("| {} {}", self.name, row(&self.git));
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
        let float = |number: Option<u64>| number.map(|number| number as f64);
        let goals: Vec<String> = self.goals.iter().map(|goal| self.judged(*goal, packrace)).collect();
        format!(
            "| | **ratio** | {} | {} | {} | {} | {} | {} |\n",
            ratio(Some(packrace.wall_seconds), Some(self.git.wall_seconds)),
            ratio(Some(packrace.cpu_seconds), Some(self.git.cpu_seconds)),
            ratio(float(packrace.write_calls), float(self.git.write_calls)),
            ratio(Some(packrace.bytes as f64), Some(self.reference_bytes as f64)),
            ratio(float(packrace.peak_anonymous_bytes), float(self.git.peak_anonymous_bytes)),
            goals.join(", ")
        )
    }

    /// The goal in words, and whether it is reached.
    fn judged(&self, goal: Goal, ours: &Record) -> String {
        let git = &self.git;
        let (words, reached) = match goal {
            Goal::CpuRatio(limit) => {
                (format!("CPU ≤ {limit} ×"), Some(ours.cpu_seconds <= limit * git.cpu_seconds))
            }
            Goal::WallRatio(limit) => {
                (format!("wall ≤ {limit} ×"), Some(ours.wall_seconds <= limit * git.wall_seconds))
            }
            Goal::WallSeconds(limit) => {
                (format!("wall ≤ {} ms", limit * 1000.0), Some(ours.wall_seconds <= limit))
            }
            Goal::WriteCalls(limit) => {
                let calls = ours.reported_client_writes.or(ours.write_calls);
                (format!("writes ≤ {limit}"), calls.map(|calls| calls <= limit))
            }
            Goal::Calls(limit) => (format!("calls ≤ {limit}"), ours.calls.map(|calls| calls <= limit)),
            Goal::PeakBytes(limit) => (
                format!("memory ≤ {} MB", limit / 1_000_000),
                ours.peak_anonymous_bytes.map(|bytes| bytes <= limit),
            ),
            Goal::BytesRatio(limit) => {
                // The advertisement names the agent: a few bytes are no difference.
                let limit_bytes = self.reference_bytes as f64 * limit + 1000.0;
                (format!("bytes ≤ {limit} ×"), Some(ours.bytes as f64 <= limit_bytes))
            }
        };
        match reached {
            Some(true) => format!("{words} ✓"),
            Some(false) => format!("**{words} ✗**"),
            None => format!("{words} ?"),
        }
    }

    /// The records as JSON.
    pub fn json(&self) -> Vec<Value> {
        std::iter::once(&self.git).chain(&self.packrace).map(|record| self.record_json(record)).collect()
    }

    fn record_json(&self, record: &Record) -> Value {
        json!({
            "work": self.name,
            "who": record.who,
            "wall_seconds": record.wall_seconds,
            "cpu_seconds": record.cpu_seconds,
            "runs_a_round": record.runs_a_round,
            "write_calls": record.write_calls,
            "calls": record.calls,
            "reported_client_writes": record.reported_client_writes,
            "bytes": record.bytes,
            "peak_anonymous_bytes": record.peak_anonymous_bytes,
        })
    }
}

fn row(record: &Record) -> String {
    let calls = match (record.write_calls, record.reported_client_writes) {
        (Some(writes), Some(client)) => format!("{writes} ({client} to the client)"),
        (Some(writes), None) => writes.to_string(),
        (None, Some(client)) => format!("{client} to the client"),
        (None, None) => "–".to_string(),
    };
    let of_all = record.calls.map_or(String::new(), |all| format!(" of {all}"));
    let memory =
        record.peak_anonymous_bytes.map_or("–".to_string(), |bytes| format!("{:.1}", bytes as f64 / 1e6));
    format!(
        "| {} | {:.1} | {:.1} | {calls}{of_all} | {:.3} | {memory} | |\n",
        record.who,
        record.wall_seconds * 1e3,
        record.cpu_seconds * 1e3,
        record.bytes as f64 / 1e6,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(who: &'static str, seconds: f64, calls: u64) -> Record {
        Record {
            who,
            wall_seconds: seconds,
            cpu_seconds: seconds,
            runs_a_round: 1,
            write_calls: Some(calls),
            calls: None,
            reported_client_writes: None,
            bytes: 2_000_000,
            peak_anonymous_bytes: None,
        }
    }

    #[test]
    fn goals_are_judged() {
        let comparison = Comparison {
            name: "w".to_string(),
            git: record("git", 1.0, 1000),
            packrace: Some(record("packrace", 0.5, 50)),
            reference_bytes: 1_000_000,
            goals: vec![Goal::CpuRatio(0.5), Goal::WriteCalls(49), Goal::PeakBytes(1), Goal::BytesRatio(1.1)],
        };
        let rows = comparison.rows();
        let last = rows.lines().last().unwrap();
        assert!(last.contains("0.50 × | 0.50 × | 0.05 × | 2.00 × | –"), "{last}");
        assert!(
            last.contains("CPU ≤ 0.5 × ✓, **writes ≤ 49 ✗**, memory ≤ 0 MB ?, **bytes ≤ 1.1 × ✗**"),
            "{last}"
        );
        assert_eq!(comparison.json().len(), 2);
    }

    #[test]
    fn the_median_is_the_middle() {
        let timing = |wall_seconds, cpu_seconds| Timing { wall_seconds, cpu_seconds, bytes: 0 };
        assert_eq!(medians(&[timing(3.0, 1.0), timing(1.0, 9.0), timing(2.0, 5.0)]), (2.0, 5.0));
    }
}
