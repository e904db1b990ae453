//! Curves on logarithmic axes, some panels beside each other.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::runs::work_of;
use super::svg::{Decades, STYLE, escaped, plot};
use crate::goals::{rounded, shown};

/// The size of a panel, and the margins of its plot.
const PANEL: (f64, f64) = (350.0, 230.0);
const PLOT: (f64, f64) = (265.0, 150.0);
const PLOT_AT: (f64, f64) = (75.0, 32.0);

/// Panels per row.
const COLUMNS: usize = 3;

/// One contender's figures by how much of something there was.
struct CurveLine {
    name: String,
    /// The class of a variant, whose dashes differ.
    variant: &'static str,
    points: BTreeMap<u64, f64>,
}

/// One plot of a chart.
struct CurvePanel {
    title: String,
    /// What the horizontal axis counts.
    counts: &'static str,
    figure: &'static str,
    lines: Vec<CurveLine>,
}

/// Adds points to panels, which are made when needed.
#[derive(Default)]
struct Chart {
    panels: Vec<CurvePanel>,
}

impl Chart {
    fn add(
        &mut self,
        (title, counts, figure): (&str, &'static str, &'static str),
        (name, variant): (&str, &'static str),
        (count, record): (u64, &Value),
    ) {
        let Some(value) = record[figure].as_f64().filter(|value| *value > 0.0) else { return };
        let at = self.panels.iter().position(|panel| panel.title == title).unwrap_or_else(|| {
            self.panels.push(CurvePanel { title: title.to_owned(), counts, figure, lines: Vec::new() });
            self.panels.len() - 1
        });
        let lines = &mut self.panels[at].lines;
        let at = lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
            lines.push(CurveLine { name: name.to_owned(), variant, points: BTreeMap::new() });
            lines.len() - 1
        });
        lines[at].points.insert(count, value);
    }

    /// The chart; `None` if nothing grows.
    fn svg(&self, title: &str) -> Option<String> {
        let first = self.panels.first()?;
        let rows = self.panels.len().div_ceil(COLUMNS);
        let columns = self.panels.len().min(COLUMNS);
        let names: Vec<&CurveLine> = first.lines.iter().collect();
        let legend: f64 = names.iter().map(|line| legend_width(line)).sum::<f64>() + 20.0;
        let size = ((PANEL.0 * columns as f64 + 10.0).max(legend), PANEL.1 * rows as f64 + 30.0);
        let mut body = String::new();
        let mut x = 20.0;
        for line in names {
            let _ = writeln!(
                body,
                "<path class=\"{}\" d=\"M{x} 16h34\"/>{}<text x=\"{}\" y=\"20\">{}</text>",
                classes(line),
                dot(line, x + 17.0, 16.0),
                x + 42.0,
                escaped(&line.name)
            );
            x += legend_width(line);
        }
        for (at, panel) in self.panels.iter().enumerate() {
            let (left, top) = (PANEL.0 * (at % COLUMNS) as f64, 30.0 + PANEL.1 * (at / COLUMNS) as f64);
            let _ = writeln!(body, "<g transform=\"translate({left} {top})\">\n{}</g>", panel.svg());
        }
        Some(plot(size, title, &self.description(), &body))
    }

    /// The first and last point of each line.
    fn description(&self) -> String {
        let mut text = String::new();
        for panel in &self.panels {
            let _ = write!(text, "{} by {}: ", panel.title, panel.counts);
            for line in &panel.lines {
                let ends = line.points.iter().next().into_iter().chain(line.points.iter().next_back());
                let ends: Vec<String> = ends
                    .map(|(count, value)| format!("{} at {count}", shown(panel.figure, *value)))
                    .collect();
                let _ = write!(text, "{} {}; ", line.name, ends.join(" to "));
            }
        }
        text
    }
}

fn legend_width(line: &CurveLine) -> f64 {
    60.0 + 7.0 * line.name.chars().count() as f64
}

fn is_ours(line: &CurveLine) -> bool {
    line.name.starts_with("packrace")
}

fn classes(line: &CurveLine) -> String {
    let whose = if is_ours(line) { "ours" } else { "peer" };
    format!("line {whose} {}", line.variant)
}

/// A circle for packrace, a square for others.
fn dot(line: &CurveLine, x: f64, y: f64) -> String {
    match is_ours(line) {
        true => format!("<circle class=\"dot ours\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"),
        false => format!(
            "<rect class=\"dot peer\" x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"6\"/>",
            x - 3.0,
            y - 3.0
        ),
    }
}

impl CurvePanel {
    fn svg(&self) -> String {
        let counts = self.lines.iter().flat_map(|line| line.points.keys()).map(|count| *count as f64);
        let values = self.lines.iter().flat_map(|line| line.points.values()).copied();
        let (counts, values) = (Decades::around(counts), Decades::around(values));
        let x = |value: f64| PLOT_AT.0 + PLOT.0 * counts.part(value);
        let y = |value: f64| PLOT_AT.1 + PLOT.1 * (1.0 - values.part(value));
        let mut text = format!(
            "<text class=\"head\" x=\"{}\" y=\"22\">{}</text>\n<text class=\"muted\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            PLOT_AT.0,
            escaped(&self.title),
            PLOT_AT.0 + PLOT.0 / 2.0,
            PLOT_AT.1 + PLOT.1 + 30.0,
            self.counts,
        );
        for value in counts.each() {
            let _ = writeln!(
                text,
                "<path class=\"grid\" d=\"M{0:.1} {1}v{2}\"/><text x=\"{0:.1}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>",
                x(value),
                PLOT_AT.1,
                PLOT.1,
                PLOT_AT.1 + PLOT.1 + 15.0,
                rounded(value)
            );
        }
        for value in values.each() {
            let _ = writeln!(
                text,
                "<path class=\"grid\" d=\"M{0} {1:.1}h{2}\"/><text x=\"{3}\" y=\"{4:.1}\" text-anchor=\"end\">{5}</text>",
                PLOT_AT.0,
                y(value),
                PLOT.0,
                PLOT_AT.0 - 5.0,
                y(value) + 4.0,
                shown(self.figure, value)
            );
        }
        for line in &self.lines {
            let points = line.points.iter().map(|(count, value)| (x(*count as f64), y(*value)));
            let path: Vec<String> = points.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let dots: String = points.map(|(x, y)| dot(line, x, y)).collect();
            let _ =
                writeln!(text, "<polyline class=\"{}\" points=\"{}\"/>{dots}", classes(line), path.join(" "));
        }
        text
    }
}

/// CPU time against the number of packs: of all work named `WORK, N packs` or `WORK, N packs, multi-pack-index`.
/// It stands alone, with its own style.
pub fn packs(records: &[Value]) -> Option<String> {
    let svg = packs_inline(records)?;
    Some(svg.replacen("<title>", &format!("<style>\n{STYLE}</style>\n<title>"), 1))
}

/// The same in a page.
pub fn packs_inline(records: &[Value]) -> Option<String> {
    let mut chart = Chart::default();
    for record in records {
        let name = work_of(record);
        let plain = name.strip_suffix(", multi-pack-index");
        let Some((work, count)) =
            plain.unwrap_or(name).strip_suffix(" packs").and_then(|it| it.rsplit_once(", "))
        else {
            continue;
        };
        let (Ok(count), Some(who)) = (count.parse(), record["who"].as_str()) else { continue };
        let who = format!("{who}{}", if plain.is_some() { ", multi-pack-index" } else { "" });
        chart.add(
            (work, "packs", "cpu_seconds"),
            (&who, if plain.is_some() { "dashes" } else { "" }),
            (count, record),
        );
    }
    chart.svg("CPU time by the number of packs")
}

/// Throughput, server CPU and the slowest first bytes against the number of clients that clone at once.
pub fn crowds(records: &[Value]) -> Option<String> {
    let mut chart = Chart::default();
    for record in records {
        let count = work_of(record).strip_prefix("swarm, ").and_then(|work| work.strip_suffix(" identical"));
        let (Some(Ok(count)), Some(who)) = (count.map(str::parse), record["who"].as_str()) else { continue };
        let variant = match () {
            () if who.contains("http") => "dashes",
            () if who.contains("kept") => "dots",
            () => "",
        };
        let panels = [
            ("throughput", "pack_bytes_a_second"),
            ("first byte of a pack, p99", "first_byte_seconds_p99"),
            ("CPU of the server", "cpu_seconds"),
        ];
        for (title, figure) in panels {
            chart.add((title, "clients at once", figure), (who, variant), (count, record));
        }
    }
    chart.svg("Clones at once by the number of clients")
}

/// The time for each of so many refs.
pub fn refs(records: &[Value]) -> Option<String> {
    let mut chart = Chart::default();
    for record in records {
        let (Some(count), Some(who)) = (record["refs"].as_u64(), record["who"].as_str()) else { continue };
        chart.add(
            ("created, deleted, created again: each", "refs", "microseconds_each"),
            (who, ""),
            (count, record),
        );
    }
    chart.svg("Time of a ref by the number of refs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_of_work_has_a_panel() {
        let pair = |work: &str, git: f64, packrace: f64| {
            [("git", git), ("packrace", packrace)]
                .map(|(who, seconds)| json!({ "work": work, "who": who, "cpu_seconds": seconds }))
        };
        let records = [
            pair("clone, 1 packs", 1.0, 0.5),
            pair("clone, 100 packs", 8.0, 0.9),
            pair("clone, 100 packs, multi-pack-index", 7.0, 0.8),
            pair("ls-refs, 1 packs", 0.002, 0.003),
            pair("clone", 1.0, 0.5),
        ]
        .concat();
        let svg = packs(&records).unwrap();
        assert_eq!(svg.matches("<g ").count(), 2);
        assert!(
            svg.contains(">100</text>") && svg.contains(">10 s</text>") && svg.contains(">1 ms</text>"),
            "{svg}"
        );
        // From one pack to a hundred, and from half a second (0.1 to 10) to nearly one.
        assert!(svg.contains("points=\"75.0,129.6 340.0,110.4\""), "{svg}");
        assert!(svg.contains("<style>") && svg.contains("packrace, multi-pack-index</text>"), "{svg}");
        assert!(packs(&records[8..]).is_none());
    }

    #[test]
    fn crowds_grow() {
        let record = |count: u64, who: &str| {
            json!({ "work": format!("swarm, {count} identical"), "who": who, "cpu_seconds": 0.1, "clients": count,
                "pack_bytes_a_second": 1e9 * count as f64, "first_byte_seconds_p99": 0.002 })
        };
        let records = [record(1, "git daemon"), record(32, "git daemon"), record(1, "packrace <http>://")];
        let svg = crowds(&records).unwrap();
        assert!(
            svg.contains("throughput by clients at once: git daemon 1 GB/s at 1 to 32 GB/s at 32;"),
            "{svg}"
        );
        assert!(svg.contains("packrace &lt;http&gt;") && !svg.contains("<http>"), "{svg}");
        assert!(crowds(&[json!({ "work": "swarm, x identical" }), json!({})]).is_none());
        assert!(
            refs(&[json!({ "work": "P7", "who": "git", "refs": 1000, "microseconds_each": 8.0 })]).is_some()
        );
    }
}
