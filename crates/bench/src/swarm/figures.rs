//! One server's results for a crowd, and their table.

use serde_json::{Value, json};

use super::Contender;
use super::crowd::Crowd;
use crate::measure::Peak;

/// How the results are measured.
pub const HOW: &str = "\
Swarm: clients are threads of this program which read and sum up what comes; their processor time is in the table. \
Medians of rounds in turns, of which there are fewer where all of them would take long. First byte: from the start of a client to \
the first byte of its pack. CPU: of the server with its children. Memory: as above, in a run of its own.";

/// After rounds with this total time, a server gets no further round.
pub const ENOUGH_SECONDS: f64 = 60.0;

/// One round.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// From the start of the first client to the end of the last.
    pub wall_seconds: f64,
    /// CPU seconds of the server.
    pub cpu_seconds: f64,
    /// CPU seconds of the clients.
    pub client_cpu_seconds: f64,
}

/// One server's results for one scene.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Its name.
    pub who: &'static str,
    /// Whose figures they are compared with.
    pub beside: Option<&'static str>,
    /// Clients at once.
    pub clients: usize,
    /// All rounds.
    pub rounds: Vec<Round>,
    /// Seconds to the first byte of each pack, of all rounds.
    pub first_bytes: Vec<f64>,
    /// Bytes of all packs in a round.
    pub pack_bytes: u64,
    /// Clients that were rejected, and retried.
    pub sent_away: usize,
    /// Memory, in a separate run.
    pub peak: Option<Peak>,
}

impl Figures {
    /// Results without rounds.
    pub fn new(contender: &Contender<'_>, clients: usize, peak: Option<Peak>) -> Self {
        Figures {
            who: contender.who,
            beside: contender.beside,
            clients,
            rounds: Vec::new(),
            first_bytes: Vec::new(),
            pack_bytes: 0,
            sent_away: 0,
            peak,
        }
    }

    /// Adds a round.
    pub fn add(&mut self, crowd: &Crowd, cpu_seconds: f64, client_cpu_seconds: f64) {
        self.rounds.push(Round { wall_seconds: crowd.wall_seconds, cpu_seconds, client_cpu_seconds });
        self.first_bytes.extend(crowd.received.iter().map(|received| received.first_byte.as_secs_f64()));
        self.pack_bytes = crowd.received.iter().map(|received| received.pack.bytes).sum();
        self.sent_away += crowd.sent_away;
    }

    /// Whether there are enough rounds, or they took long enough.
    pub fn has_enough(&self, rounds: usize) -> bool {
        let seconds: f64 = self.rounds.iter().map(|round| round.wall_seconds).sum();
        self.rounds.len() >= rounds || seconds > ENOUGH_SECONDS
    }

    fn median(&self, figure: fn(&Round) -> f64) -> f64 {
        quantile(&self.rounds.iter().map(figure).collect::<Vec<_>>(), 0.5)
    }

    /// The row of the table.
    pub fn row(&self, scene: &str) -> String {
        let wall = self.median(|round| round.wall_seconds);
        let cpu = self.median(|round| round.cpu_seconds);
        let first = |share| quantile(&self.first_bytes, share) * 1e3;
        let memory = self.peak.map_or("–".to_string(), |peak| format!("{:.1}", mega(peak.anonymous_bytes)));
        let sent_away = match self.sent_away {
            0 => String::new(),
            count => format!("{count} sent away"),
        };
        format!(
            "| {scene} | {} | {:.0} | {:.0} | {:.2} | {:.0} | {} | {memory} | {:.0}, {:.0} | {:.0} | {} | {sent_away} |\n",
            self.who,
            wall * 1e3,
            mega(self.pack_bytes) / wall,
            self.clients as f64 / wall,
            cpu * 1e3,
            if cpu > 0.0 { format!("{:.1}", self.clients as f64 / cpu) } else { "–".to_string() },
            first(0.5),
            first(0.99),
            self.median(|round| round.client_cpu_seconds) * 1e3,
            self.rounds.len(),
        )
    }

    /// The ratios to stock git's server.
    pub fn ratio_row(&self, git: &Figures, goals: &str) -> String {
        let ratio = |figure: fn(&Round) -> f64| self.median(figure) / git.median(figure);
        let wall = ratio(|round| round.wall_seconds);
        let cpu = ratio(|round| round.cpu_seconds);
        let throughput = self.pack_bytes as f64 / git.pack_bytes as f64 / wall;
        let memory = match (self.peak, git.peak) {
            (Some(ours), Some(theirs)) => {
                format!("{:.2} ×", ours.anonymous_bytes as f64 / theirs.anonymous_bytes as f64)
            }
            _ => "–".to_string(),
        };
        let first = |share| quantile(&self.first_bytes, share) / quantile(&git.first_bytes, share);
        format!(
            "| | **ratio** | {wall:.2} × | {throughput:.2} × | {:.2} × | {cpu:.2} × | {:.2} × | {memory} | {:.2} ×, {:.2} × | | | {} |\n",
            1.0 / wall,
            1.0 / cpu,
            first(0.5),
            first(0.99),
            goals,
        )
    }

    /// The record.
    pub fn json(&self, scene: &str) -> Value {
        json!({
            "work": format!("swarm, {scene}"),
            "who": self.who,
            "beside": self.beside,
            "clients": self.clients,
            "rounds": self.rounds.len(),
            "wall_seconds": self.median(|round| round.wall_seconds),
            "cpu_seconds": self.median(|round| round.cpu_seconds),
            "client_cpu_seconds": self.median(|round| round.client_cpu_seconds),
            "pack_bytes": self.pack_bytes,
            "pack_bytes_a_second": self.pack_bytes as f64 / self.median(|round| round.wall_seconds),
            "first_byte_seconds_p50": quantile(&self.first_bytes, 0.5),
            "first_byte_seconds_p99": quantile(&self.first_bytes, 0.99),
            "sent_away": self.sent_away,
            "peak_anonymous_bytes": self.peak.map(|peak| peak.anonymous_bytes),
        })
    }
}

/// The table's head.
pub fn head() -> &'static str {
    "| clones at once | who | wall ms | MB/s | clones/s | server CPU ms | clones per CPU s | peak private MB | first byte ms p50, p99 | client CPU ms | rounds | goals |\n\
     |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"
}

/// Bytes as megabytes.
pub fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The value that this share of all values does not exceed; NaN if there are none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 0.5), 100.0);
        assert_eq!(quantile(&values, 0.99), 198.0);
        assert_eq!(quantile(&[3.0], 0.99), 3.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn ratios_to_git() {
        let figures = |who, wall_seconds, cpu_seconds| Figures {
            who,
            beside: None,
            clients: 2,
            rounds: vec![Round { wall_seconds, cpu_seconds, client_cpu_seconds: 0.1 }],
            first_bytes: vec![wall_seconds],
            pack_bytes: 1_000_000,
            sent_away: 0,
            peak: None,
        };
        let row = figures("p", 1.0, 1.0).ratio_row(&figures("g", 4.5, 5.0), "a goal ✓");
        assert!(row.contains("| 0.22 × | 4.50 × | 4.50 × | 0.20 × | 5.00 × | – |"), "{row}");
        assert!(row.ends_with("| a goal ✓ |\n"), "{row}");
    }
}
