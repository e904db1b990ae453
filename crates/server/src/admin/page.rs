//! The page at `/-/`: the state of a server, for people. HTML with inline style and plots, without a script.
//!
//! Text from strangers (paths, addresses, names of clients' sessions) is [`escaped`] everywhere.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::html::escaped;
use super::maintenance::MaintenanceView;
use super::plot::{Base, Plot, Series};
use super::units::{bytes, duration};
use crate::history::{KEPT, Sample};
use crate::metrics::{Closed as _, DoorName, Kind, Metrics, Reason};
use crate::transfers::Transfer;

/// The style of the page. The content security policy allows it by its hash.
pub(super) const STYLE: &str = include_str!("style.css");

/// The most running calls in the table.
const MAX_ROWS: usize = 200;

/// Seconds between two refreshes.
const REFRESH_SECONDS: u32 = 2;

/// The content of the page.
pub(super) struct View<'a> {
    pub(super) agent: &'a str,
    pub(super) uptime: Duration,
    pub(super) is_stopping: bool,
    /// Whether the page refreshes itself.
    pub(super) refreshes: bool,
    /// Whether it shows clients and repositories.
    pub(super) shows_names: bool,
    pub(super) live: Vec<Arc<Transfer>>,
    pub(super) samples: Vec<Sample>,
    pub(super) metrics: &'a Metrics,
    pub(super) maintenance: MaintenanceView<'a>,
}

impl View<'_> {
    pub(super) fn render(&self) -> String {
        let mut out = String::with_capacity(32 << 10);
        let title = format!("packrace: {} running", self.live.len());
        begin(&title, self.refreshes.then_some(REFRESH_SECONDS), &mut out);
        self.head(&mut out);
        self.tiles(&mut out);
        out.push_str("<div class=\"pair\">");
        self.throughput(&mut out);
        self.calls(&mut out);
        out.push_str("</div>");
        self.running(&mut out);
        self.maintenance.render(self.metrics, self.shows_names, &mut out);
        out.push_str("<div class=\"pair\">");
        self.totals(&mut out);
        self.rest(&mut out);
        out.push_str("</div></main></body></html>\n");
        out
    }

    fn head(&self, out: &mut String) {
        let (class, state) = match self.is_stopping {
            false => ("serving", "serving"),
            true => ("stopping", "stopping: running transfers finish, new clones are refused"),
        };
        let again = match self.refreshes {
            true => "<a href=\"?refresh=off\">pause</a>",
            false => "paused · <a href=\"?\">resume</a>",
        };
        let _ = write!(
            out,
            "<header><h1>packrace</h1><span class=\"state {class}\">{state}</span>\
             <span class=\"soft\">{} · up {}</span>\
             <span class=\"soft right\">{again} · <a href=\"metrics\">metrics</a></span></header>",
            escaped(self.agent),
            duration(self.uptime)
        );
    }

    fn tiles(&self, out: &mut String) {
        let metrics = self.metrics;
        let last = self.samples.last().copied().unwrap_or_default();
        let connections = |door| metrics.connections_open(door);
        let [http, git, ssh] = [DoorName::Http, DoorName::Git, DoorName::Ssh].map(connections);
        let hits = metrics.cache_hits_running.get() + metrics.cache_hits_kept.get();
        let cache = format!("{} kept", bytes(metrics.cache_bytes.get() as f64));
        let answers = share(metrics.answer_hits.get(), metrics.answer_misses.get());
        let (sent, received) = (metrics.bytes_sent.get() as f64, metrics.bytes_received.get() as f64);
        out.push_str("<dl class=\"tiles\">");
        let mut tile = |name: &str, value: String, more: String| {
            let (value, more) = (escaped(&value), escaped(&more));
            let _ =
                write!(out, "<div class=\"tile\"><dt>{name}</dt><dd>{value}<small>{more}</small></dd></div>");
        };
        tile("Sending", rate(last.sent_rate), format!("{} in total", bytes(sent)));
        tile("Receiving", rate(last.received_rate), format!("{} in total", bytes(received)));
        tile("Running", self.live.len().to_string(), format!("clones: {}", metrics.running_clones.get()));
        tile("Queue", metrics.queue_length.get().to_string(), "waiting clones".to_owned());
        tile("Connections", (http + git + ssh).to_string(), format!("{http} http, {git} git, {ssh} ssh"));
        tile("Pack cache hits", share(hits, metrics.cache_misses.get()), cache);
        tile(
            "Ref cache hits",
            answers,
            format!("open repositories: {}", metrics.repository_cache_open.get()),
        );
        out.push_str("</dl>");
    }

    fn throughput(&self, out: &mut String) {
        out.push_str(
            "<section><span class=\"key\"><i class=\"out\"></i>sent<i class=\"in\"></i>received</span>\
             <h2>Throughput</h2>",
        );
        let last = self.samples.last().copied().unwrap_or_default();
        Plot {
            label: format!("Bytes per second in the last five minutes; now {}", rate(last.sent_rate)),
            series: vec![
                self.series("out", true, |sample| sample.sent_rate),
                self.series("in", false, |sample| sample.received_rate),
            ],
            least_top: 4096.0,
            base: Base::Two,
            write: rate,
            ..time_plot()
        }
        .render(out);
        out.push_str("</section>");
    }

    fn calls(&self, out: &mut String) {
        out.push_str(
            "<section><span class=\"key\"><i class=\"out\"></i>running<i class=\"in\"></i>waiting</span>\
             <h2>Transfers and queue</h2>",
        );
        let last = self.samples.last().copied().unwrap_or_default();
        Plot {
            label: format!("Running transfers in the last five minutes; now {}", last.live),
            series: vec![
                self.series("out", true, |sample| sample.live),
                self.series("in", false, |sample| sample.queued),
            ],
            least_top: 4.0,
            base: Base::Ten,
            write: |value| format!("{value}"),
            ..time_plot()
        }
        .render(out);
        out.push_str("</section>");
    }

    fn series(&self, class: &'static str, is_filled: bool, value: fn(&Sample) -> f64) -> Series {
        Series { class, values: self.samples.iter().map(value).collect(), is_filled }
    }

    fn running(&self, out: &mut String) {
        let _ = write!(out, "<section><h2>Running transfers · {}</h2>", self.live.len());
        if self.live.is_empty() {
            out.push_str("<p class=\"empty\">None at the moment.</p></section>");
            return;
        }
        let names = if self.shows_names { "<th>Peer</th><th>Repository</th>" } else { "" };
        let _ = write!(
            out,
            "<div class=\"scroll\"><table><thead><tr><th>Session</th><th>Transport</th>{names}<th>Kind</th>\
             <th>Phase</th><th class=\"number\">Sent</th><th class=\"number\">Received</th>\
             <th class=\"number\">Mean rate</th><th class=\"number\">For</th></tr></thead><tbody>"
        );
        for transfer in self.live.iter().take(MAX_ROWS) {
            self.row(transfer, out);
        }
        out.push_str("</tbody></table></div>");
        if self.live.len() > MAX_ROWS {
            let _ = write!(out, "<p class=\"empty\">and {} more.</p>", self.live.len() - MAX_ROWS);
        }
        if !self.shows_names {
            out.push_str(
                "<p class=\"empty\">Clients and repositories are hidden; \
                 to see them, give <code>listen.admin</code> its own address.</p>",
            );
        }
        out.push_str("</section>");
    }

    fn row(&self, transfer: &Transfer, out: &mut String) {
        let (age, sent) = (transfer.age(), transfer.sent_bytes() as f64);
        let number = transfer.session_id().rsplit('/').next().unwrap_or_default();
        let _ = write!(
            out,
            "<tr><td class=\"mono\" title=\"{}\">{}</td><td>{}</td>",
            escaped(transfer.session_id()),
            escaped(number),
            transfer.door().name()
        );
        if self.shows_names {
            let repository = escaped(transfer.repository());
            let _ = write!(
                out,
                "<td class=\"mono\">{}</td><td class=\"mono wide\" title=\"{repository}\"><bdi>{repository}</bdi></td>",
                escaped(transfer.peer()),
            );
        }
        let _ = write!(
            out,
            "<td>{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            transfer.kind().map_or("–", |kind| kind.name()),
            transfer.step().name(),
            bytes(sent),
            bytes(transfer.received_bytes() as f64),
            rate(sent / age.as_secs_f64().max(0.001)),
            duration(age)
        );
    }

    fn totals(&self, out: &mut String) {
        out.push_str(
            "<section><h2>Since startup</h2><div class=\"scroll\"><table><thead><tr><th>Transfers</th>\
             <th class=\"number\">Started</th><th class=\"number\">Finished</th><th class=\"number\">Failed</th>\
             </tr></thead><tbody>",
        );
        for kind in Kind::ALL.iter().copied() {
            let (finished, failed) = self.metrics.ended_so_far(kind);
            let class = if failed > 0 { "number bad" } else { "number" };
            let _ = write!(
                out,
                "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{finished}</td>\
                 <td class=\"{class}\">{failed}</td></tr>",
                kind.name(),
                self.metrics.started_so_far(kind)
            );
        }
        out.push_str("</tbody></table></div></section>");
    }

    fn rest(&self, out: &mut String) {
        out.push_str("<section><h2>Events</h2><div class=\"scroll\"><table><tbody>");
        let metrics = self.metrics;
        let mut row = |name: &str, value: u64, is_bad: bool| {
            let class = if is_bad && value > 0 { "number bad" } else { "number" };
            let _ = write!(out, "<tr><td>{name}</td><td class=\"{class}\">{value}</td></tr>");
        };
        row("packs generated", metrics.cache_misses.get(), false);
        row("packs shared while being generated", metrics.cache_hits_running.get(), false);
        row("packs sent from the cache", metrics.cache_hits_kept.get(), false);
        row("keepalives", metrics.keepalives.get(), false);
        for reason in Reason::ALL.iter().copied() {
            let count = metrics.refused_so_far(reason);
            if count > 0 {
                row(&format!("refused: {}", reason.name()), count, false);
            }
        }
        row("panics", metrics.panics.get(), true);
        out.push_str("</tbody></table></div></section>");
    }
}

/// Writes the start of a page, which may refresh after this many seconds.
pub(super) fn begin(title: &str, refresh_seconds: Option<u32>, out: &mut String) {
    // Writing to a String cannot fail, here and above.
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">"
    );
    if let Some(seconds) = refresh_seconds {
        let _ = write!(out, "<meta http-equiv=\"refresh\" content=\"{seconds}\">");
    }
    let _ = write!(
        out,
        "<title>{title}</title><link rel=\"icon\" href=\"data:,\"><style>{STYLE}</style></head><body><main>"
    );
}

/// An empty plot over the time of the kept samples.
fn time_plot() -> Plot {
    let minutes = KEPT / 60;
    let mut times: Vec<String> = (1..=minutes).rev().map(|minute| format!("−{minute} min")).collect();
    times.push("now".to_owned());
    Plot {
        label: String::new(),
        series: Vec::new(),
        slots: KEPT,
        times,
        least_top: 1.0,
        base: Base::Ten,
        write: rate,
    }
}

fn rate(bytes_per_second: f64) -> String {
    format!("{}/s", bytes(bytes_per_second.round()))
}

fn share(hits: u64, misses: u64) -> String {
    match hits + misses {
        0 => "–".to_owned(),
        all => format!("{:.0} %", 100.0 * hits as f64 / all as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::transfers::RunningCall;

    fn render(shows_names: bool, peer: &str, repository: &[u8]) -> String {
        let host = Arc::<Host>::default();
        let call = RunningCall::new(&host.transfers, &host.metrics, DoorName::Http, peer);
        call.transfer().is_about(repository);
        call.transfer().enter(Kind::Clone);
        let metrics = &host.metrics;
        let live = host.transfers.list();
        let samples = vec![Sample { sent_rate: 3e6, live: 1.0, ..Sample::default() }; 40];
        let uptime = Duration::from_secs(3725);
        let refreshes = true;
        let (maintenance, is_stopping) = (MaintenanceView::default(), false);
        View {
            agent: "p/1",
            uptime,
            is_stopping,
            refreshes,
            shows_names,
            live,
            samples,
            metrics,
            maintenance,
        }
        .render()
    }

    #[test]
    fn names_are_shown_only_where_they_may_be() {
        let page = render(true, "192.0.2.7:81", b"/secret.git");
        assert!(page.contains("192.0.2.7:81") && page.contains("/secret.git"), "{page}");
        let page = render(false, "192.0.2.7:81", b"/secret.git");
        assert!(!page.contains("192.0.2.7") && !page.contains("secret"), "{page}");
        assert!(page.contains("<td>clone</td>") && page.contains("up 1 h 02 min"), "{page}");
    }

    #[test]
    fn strangers_write_no_markup() {
        let page = render(true, "<img src=x>", b"\"><script>alert(1)</script>");
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
    }

    #[test]
    fn numbers_are_for_people() {
        let check = |count: f64, expect: &str| assert_eq!(bytes(count), expect);
        check(0.0, "0 B");
        check(1023.0, "1023 B");
        check(1024.0, "1 KiB");
        check(1536.0, "1.5 KiB");
        check(123.4 * 1024.0 * 1024.0, "123 MiB");
        assert_eq!(rate(0.4), "0 B/s");
        assert_eq!([share(0, 0), share(1, 2)], ["–", "33 %"]);
        let check = |seconds, expect: &str| assert_eq!(duration(Duration::from_secs(seconds)), expect);
        check(59, "59 s");
        check(61, "1 min 01 s");
        check(90_000, "1 d 01 h");
    }
}
