//! The page's section about repositories: the state of each, its next task, and its last one.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use packrace_maintenance::DeltaFacts;

use super::html::escaped;
use super::units::{bytes, duration};
use crate::maintenance::HealthRow;
use crate::metrics::{Closed as _, JobOutcome, Metrics};

/// The most repositories in the table.
const MAX_ROWS: usize = 100;

/// What is known of repositories.
#[derive(Default)]
pub(super) struct MaintenanceView<'a> {
    pub(super) health: Vec<HealthRow>,
    /// On the clock of the queue.
    pub(super) now: Duration,
    /// The served folder, which paths begin with; `None` to show whole paths.
    pub(super) root: Option<&'a Path>,
}

impl MaintenanceView<'_> {
    /// Writes the section, if anything is known.
    pub(super) fn render(&self, metrics: &Metrics, shows_names: bool, out: &mut String) {
        if self.health.is_empty() {
            return;
        }
        let count = |outcome| metrics.maintained_so_far(outcome);
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            out,
            "<section><h2>Maintenance · {} repositories</h2>\
             <p class=\"empty\">{} running, {} due; {} tasks done, {} failed; {} freed.</p>",
            self.health.len(),
            metrics.maintenance_running.get(),
            metrics.maintenance_backlog.get(),
            count(JobOutcome::Done),
            count(JobOutcome::Failed),
            bytes(metrics.maintenance_saved.get() as f64),
        );
        if shows_names {
            out.push_str(
                "<div class=\"scroll\"><table><thead><tr><th>Repository</th><th class=\"number\">Packs</th>\
             <th class=\"number\">Size</th><th class=\"number\">Loose</th><th class=\"number\">In bitmap</th>\
             <th>Deltas</th><th>Next</th><th>Last</th></tr></thead><tbody>",
            );
            for repository in self.health.iter().take(MAX_ROWS) {
                self.row(repository, out);
            }
            out.push_str("</tbody></table></div>");
            if self.health.len() > MAX_ROWS {
                let _ = write!(out, "<p class=\"empty\">and {} more.</p>", self.health.len() - MAX_ROWS);
            }
        }
        out.push_str("</section>");
    }

    fn row(&self, repository: &HealthRow, out: &mut String) {
        let path =
            self.root.and_then(|root| repository.path.strip_prefix(root).ok()).unwrap_or(&repository.path);
        let health = &repository.health;
        let facts = health.facts.clone().unwrap_or_default();
        let coverage = facts.bitmap_coverage().map_or("–".to_owned(), |percent| format!("{percent} %"));
        let deltas = match &facts.deltas {
            Some(deltas) if deltas.is_searched => "searched".to_owned(),
            Some(DeltaFacts { gain: Some(gain), .. }) => format!("a search saves {} %", gain.saved_percent()),
            _ => "–".to_owned(),
        };
        let next = match (&health.next, repository.due) {
            _ if repository.is_running => "running".to_owned(),
            (Some((task, reason)), _) => format!("{}: {reason}", task.name()),
            (None, Some(due)) => format!("check in {}", duration(due.saturating_sub(self.now))),
            (None, None) => "–".to_owned(),
        };
        let last = health.last.as_ref().map_or("–".to_owned(), |last| {
            let ago = duration(self.now.saturating_sub(last.ended));
            format!(
                "{} {} in {:.1} s, {ago} ago",
                last.task.name(),
                last.outcome.name(),
                last.took.as_secs_f64()
            )
        });
        let _ = write!(
            out,
            "<tr><td class=\"mono wide\"><bdi>{}</bdi></td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
         <td class=\"number\">{}</td><td class=\"number\">{coverage}</td><td>{deltas}</td><td>{}</td><td>{}</td></tr>",
            escaped(&path.to_string_lossy()),
            facts.packs.len(),
            bytes(facts.packed_bytes() as f64),
            facts.loose_objects,
            escaped(&next),
            escaped(&last),
        );
    }
}
