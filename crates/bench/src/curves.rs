//! A chart of CPU time against the number of packs: one panel per kind of work, with logarithmic axes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::report::Comparison;

/// The size of a panel, and the margins of its plot.
const PANEL: (f64, f64) = (300.0, 210.0);
const PLOT: (f64, f64) = (230.0, 140.0);
const PLOT_AT: (f64, f64) = (55.0, 32.0);

/// Panels per row.
const COLUMNS: usize = 3;

/// Line and label of a contender, without and with a multi-pack-index.
const SERIES: [(&str, &str, &str); 4] = [
    ("git", "#c0504d", "none"),
    ("git, multi-pack-index", "#c0504d", "4 3"),
    ("packrace", "#1f5fa8", "none"),
    ("packrace, multi-pack-index", "#1f5fa8", "4 3"),
];

/// Seconds by number of packs, for each of [`SERIES`].
type CurveLines = [BTreeMap<usize, f64>; 4];

/// The chart of all work whose name contains a number of packs; `None` if there is none.
pub fn svg(done: &[Comparison]) -> Option<String> {
    let mut panels: Vec<(String, CurveLines)> = Vec::new();
    for comparison in done {
        let Some((work, packs, has_multi)) = state_of(&comparison.name) else { continue };
        let at = panels.iter().position(|(name, _)| *name == work).unwrap_or_else(|| {
            panels.push((work, CurveLines::default()));
            panels.len() - 1
        });
        let lines = &mut panels[at].1;
        lines[usize::from(has_multi)].insert(packs, comparison.git.cpu_seconds);
        if let Some(packrace) = &comparison.packrace {
            lines[2 + usize::from(has_multi)].insert(packs, packrace.cpu_seconds);
        }
    }
    if panels.is_empty() {
        return None;
    }
    let rows = panels.len().div_ceil(COLUMNS);
    let (width, height) = (PANEL.0 * COLUMNS as f64 + 10.0, PANEL.1 * rows as f64 + 30.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (at, (name, color, dashes)) in SERIES.iter().enumerate() {
        let x = 20.0 + 200.0 * at as f64;
        let _ = writeln!(
            svg,
            "<path d=\"M{x} 16h30\" stroke=\"{color}\" stroke-dasharray=\"{dashes}\" stroke-width=\"2\"/><text x=\"{}\" y=\"20\">{name}</text>",
            x + 36.0
        );
    }
    for (at, (work, lines)) in panels.iter().enumerate() {
        let (left, top) = (PANEL.0 * (at % COLUMNS) as f64, 30.0 + PANEL.1 * (at / COLUMNS) as f64);
        let _ = writeln!(svg, "<g transform=\"translate({left} {top})\">\n{}</g>", panel(work, lines));
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// Parses `WORK, N packs` or `WORK, N packs, multi-pack-index`.
fn state_of(name: &str) -> Option<(String, usize, bool)> {
    let plain = name.strip_suffix(", multi-pack-index");
    let (work, packs) = plain.unwrap_or(name).strip_suffix(" packs")?.rsplit_once(", ")?;
    Some((work.to_owned(), packs.parse().ok()?, plain.is_some()))
}

fn panel(work: &str, lines: &CurveLines) -> String {
    let packs = lines.iter().flat_map(BTreeMap::keys).map(|packs| *packs as f64);
    let seconds = lines.iter().flat_map(BTreeMap::values).copied().filter(|seconds| *seconds > 0.0);
    let (packs, seconds) = (Decades::around(packs), Decades::around(seconds));
    let x = |value: f64| PLOT_AT.0 + PLOT.0 * packs.part(value);
    let y = |value: f64| PLOT_AT.1 + PLOT.1 * (1.0 - seconds.part(value));
    let mut text = format!("<text x=\"{}\" y=\"22\" font-weight=\"bold\">{work}</text>\n", PLOT_AT.0);
    for value in packs.each() {
        let _ = writeln!(
            text,
            "<path d=\"M{0:.1} {1}v{2}\" stroke=\"#ddd\"/><text x=\"{0:.1}\" y=\"{3}\" text-anchor=\"middle\">{value}</text>",
            x(value),
            PLOT_AT.1,
            PLOT.1,
            PLOT_AT.1 + PLOT.1 + 14.0
        );
    }
    for value in seconds.each() {
        let label = if value < 1.0 { format!("{} ms", value * 1e3) } else { format!("{value} s") };
        let _ = writeln!(
            text,
            "<path d=\"M{0} {1:.1}h{2}\" stroke=\"#ddd\"/><text x=\"{3}\" y=\"{4:.1}\" text-anchor=\"end\">{label}</text>",
            PLOT_AT.0,
            y(value),
            PLOT.0,
            PLOT_AT.0 - 5.0,
            y(value) + 4.0
        );
    }
    for ((_, color, dashes), line) in SERIES.iter().zip(lines) {
        let points = line.iter().filter(|(_, seconds)| **seconds > 0.0);
        let points: Vec<String> =
            points.map(|(packs, seconds)| format!("{:.1},{:.1}", x(*packs as f64), y(*seconds))).collect();
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-dasharray=\"{dashes}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
    }
    text
}

/// Powers of ten from first to last.
struct Decades {
    first: i32,
    last: i32,
}

impl Decades {
    /// The smallest range that contains all values.
    fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) =
            values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return Decades { first: 0, last: 1 };
        }
        let first = low.log10().floor() as i32;
        Decades { first, last: (high.log10().ceil() as i32).max(first + 1) }
    }

    fn each(&self) -> impl Iterator<Item = f64> {
        // Parsed from text: 0.01 and not 0.010000000000000002.
        (self.first..=self.last).map(|power| format!("1e{power}").parse().expect("a number"))
    }

    /// The position of a value between first and last, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        (value.log10() - f64::from(self.first)) / f64::from(self.last - self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::record;

    #[test]
    fn each_kind_of_work_has_a_panel() {
        let comparison = |name: &str, git, packrace| Comparison {
            name: name.to_owned(),
            git: record("git", git, 1),
            packrace: Some(record("packrace", packrace, 1)),
            gix: None,
            reference_bytes: 1,
            goals: Vec::new(),
        };
        let done = [
            comparison("clone, 1 packs", 1.0, 0.5),
            comparison("clone, 100 packs", 8.0, 0.9),
            comparison("clone, 100 packs, multi-pack-index", 7.0, 0.8),
            comparison("ls-refs, 1 packs", 0.002, 0.003),
            comparison("clone", 1.0, 0.5),
        ];
        let svg = svg(&done).unwrap();
        assert_eq!(svg.matches("<g ").count(), 2);
        assert!(
            svg.contains(">100</text>") && svg.contains(">10 s</text>") && svg.contains(">1 ms</text>"),
            "{svg}"
        );
        // From one pack to a hundred, and from half a second (0.1 to 10) to nearly one.
        assert!(svg.contains("<polyline points=\"55.0,123.1 285.0,105.2\""), "{svg}");
        assert!(super::svg(&done[4..]).is_none());
    }
}
