//! The report as one HTML file: no scripts, nothing from elsewhere, in light and dark.

use std::fmt::Write as _;

use serde_json::Value;

use super::bars::{self, Bar};
use super::curves;
use super::runs::{BenchRun, Standing, standings, work_of};
use super::svg::{STYLE, escaped};
use crate::goals::{Yardstick, rounded, shown};

/// Style of the page besides that of its plots.
const PAGE_STYLE: &str = "\
body{background:var(--paper);color:var(--ink);font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1120px;padding:0 1em}
h1{font-size:1.6em}h2{margin-top:2em;font-size:1.25em}figure{margin:1em 0;overflow-x:auto}figcaption{color:var(--muted)}
table{border-collapse:collapse;display:block;overflow-x:auto;font-size:13px;margin:1em 0}
th,td{border-bottom:1px solid var(--faint);padding:.25em .6em;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
th{color:var(--muted);font-weight:600}.held{color:var(--ours)}.missed{color:var(--peer);font-weight:bold}.none{color:var(--muted)}
td.held,td.missed,td.none,td.run{white-space:nowrap}summary{cursor:pointer;margin:1em 0;font-weight:600}code{font-size:.9em}
";

/// The whole page.
pub fn page(runs: &[BenchRun]) -> String {
    let standings = standings(runs);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>packrace beside its peers</title>\n\
         <style>\n{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n<h1>packrace beside its peers</h1>\n"
    );
    let [held, missed, none] = counts(&standings);
    let _ = writeln!(
        page,
        "<p>All contenders did the same work in turns, on one machine, and their answers were compared. Only ratios within one run count. \
         Goals: <span class=\"held\">✓ {held} held</span>, <span class=\"missed\">✗ {missed} missed</span>, <span class=\"none\">– {none} not measured</span>.</p>"
    );
    page.push_str(&conditions(runs));
    page.push_str(&failures(runs));
    page.push_str("<h2>Ratios of goals</h2>\n");
    let bars: Vec<Bar> = standings.iter().filter_map(goal_bar).collect();
    figure(
        &mut page,
        bars::svg("Ratios to the peer, with goals", &bars),
        "Solid and left of 1 × is faster than the peer, dashed and right of it slower. The bracket is the goal. The figures are in the next table.",
    );
    page.push_str("<h2>Goals</h2>\n");
    page.push_str(&goals(&standings));
    for run in runs {
        page.push_str(&details(run));
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// How many goals are held, missed and not measured.
pub fn counts(standings: &[Standing<'_>]) -> [usize; 3] {
    let count = |wanted: Option<bool>| {
        let same =
            standings.iter().filter(|it| it.worst.as_ref().map(|(_, judgement)| judgement.is_held) == wanted);
        same.count()
    };
    [count(Some(true)), count(Some(false)), count(None)]
}

/// A bar for each goal beside a peer. More is better for some: their ratio is turned around.
fn goal_bar(standing: &Standing<'_>) -> Option<Bar> {
    let goal = &standing.row.goal;
    let (_, judgement) = standing.worst.as_ref()?;
    if !matches!(goal.yardstick, Yardstick::Peer | Yardstick::Of(_)) {
        return None;
    }
    let turned = |ratio: f64| if goal.is_floor { 1.0 / ratio } else { ratio };
    Some(Bar {
        label: format!("{} {}: {}", standing.row.row, standing.row.what, goal.label),
        note: standing.run.map(BenchRun::label).unwrap_or_default(),
        ratio: turned(judgement.measured),
        goal: Some((turned(goal.limit), judgement.is_held)),
    })
}

fn figure(page: &mut String, svg: Option<String>, caption: &str) {
    if let Some(svg) = svg {
        let _ = writeln!(page, "<figure>\n{svg}<figcaption>{}</figcaption>\n</figure>", escaped(caption));
    }
}

fn conditions(runs: &[BenchRun]) -> String {
    let mut text =
        "<table>\n<tr><th>run</th><th>packrace</th><th>machine</th><th>when</th><th>command</th></tr>\n"
            .to_string();
    for run in runs {
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
            escaped(&run.label()),
            escaped(&run.program()),
            escaped(&run.machine()),
            escaped(&run.when()),
            escaped(&run.command())
        );
    }
    text + "</table>\n"
}

fn failures(runs: &[BenchRun]) -> String {
    let failed = runs.iter().flat_map(|run| run.failures().map(move |(work, why)| (run, work, why)));
    let lines: Vec<String> = failed
        .map(|(run, work, why)| {
            format!("<li>{}, {}: {}</li>\n", escaped(&run.label()), escaped(work), escaped(why))
        })
        .collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("<h2 class=\"missed\">✗ What failed</h2>\n<ul>\n{}</ul>\n", lines.concat()),
    }
}

fn goals(standings: &[Standing<'_>]) -> String {
    let mut text = "<table>\n<tr><th>row</th><th>work</th><th>run</th><th class=\"n\">beside</th><th class=\"n\">packrace</th>\
                    <th class=\"n\">ratio</th><th>goal</th><th></th></tr>\n"
        .to_string();
    for standing in standings {
        let cells = standing.cells();
        let class = match cells.is_held {
            Some(true) => "held",
            Some(false) => "missed",
            None => "none",
        };
        let [row, work, run, peer, ours, ratio, goal, state] = cells.texts.map(|text| escaped(&text));
        let _ = writeln!(
            text,
            "<tr><td>{row}</td><td>{work}</td><td class=\"run\">{run}</td><td class=\"n\">{peer}</td><td class=\"n\">{ours}</td>\
             <td class=\"n\">{ratio}</td><td>{goal}</td><td class=\"{class}\">{state}</td></tr>"
        );
    }
    text + "</table>\n"
}

/// Curves, bars and all figures of one run.
fn details(run: &BenchRun) -> String {
    let mut text = format!("<h2>{}</h2>\n", escaped(&run.label()));
    figure(
        &mut text,
        curves::crowds(&run.records),
        "Clones at once. The clients run on the server's machine.",
    );
    figure(&mut text, curves::packs_inline(&run.records), "One history in more and more packs: CPU time.");
    figure(&mut text, curves::refs(&run.records), "Refs in a reftable.");
    let pairs: Vec<(&Value, &Value)> = run.pairs().collect();
    let bars = pairs.iter().filter(|(ours, _)| !work_of(ours).contains(" packs")).map(|(ours, peer)| Bar {
        label: format!("{}{}", work_of(ours), who_if_not_packrace(ours)),
        note: "CPU".to_string(),
        ratio: ratio(ours, peer, "cpu_seconds").unwrap_or(f64::NAN),
        goal: None,
    });
    let bars: Vec<Bar> = bars.collect();
    let mut body = String::new();
    figure(&mut body, bars::svg("CPU time beside the peer", &bars), "CPU time of all work beside its peer.");
    body.push_str(&compared(&pairs));
    body.push_str(&figures(&run.records));
    let _ =
        writeln!(text, "<details>\n<summary>All {} records</summary>\n{body}</details>", run.records.len());
    text
}

fn who_if_not_packrace(record: &Value) -> String {
    match record["who"].as_str() {
        Some("packrace") | None => String::new(),
        Some(who) => format!(", {who}"),
    }
}

fn ratio(ours: &Value, peer: &Value, figure: &str) -> Option<f64> {
    Some(ours[figure].as_f64()? / peer[figure].as_f64().filter(|peer| *peer > 0.0)?)
}

fn compared(pairs: &[(&Value, &Value)]) -> String {
    let columns = [
        ("wall", "wall_seconds"),
        ("CPU", "cpu_seconds"),
        ("write calls", "write_calls"),
        ("bytes", "bytes"),
        ("private memory", "peak_anonymous_bytes"),
    ];
    let mut text = "<table>\n<tr><th>work: peer, packrace, ratio</th>".to_string();
    columns.iter().for_each(|(name, _)| text.push_str(&format!("<th class=\"n\">{name}</th>")));
    text.push_str("</tr>\n");
    for (ours, peer) in pairs {
        let _ =
            write!(text, "<tr><td>{}{}</td>", escaped(work_of(ours)), escaped(&who_if_not_packrace(ours)));
        for (_, figure) in columns {
            let cell = match (peer[figure].as_f64(), ours[figure].as_f64()) {
                (Some(theirs), Some(own)) => {
                    let ratio = ratio(ours, peer, figure)
                        .map_or("–".to_string(), |it| format!("{} ×", rounded(it)));
                    format!("{}, {}, {ratio}", shown(figure, theirs), shown(figure, own))
                }
                _ => "–".to_string(),
            };
            let _ = write!(text, "<td class=\"n\">{}</td>", escaped(&cell));
        }
        text.push_str("</tr>\n");
    }
    text + "</table>\n"
}

/// Every figure of every record.
fn figures(records: &[Value]) -> String {
    let mut text = "<table>\n<tr><th>work</th><th>who</th><th>figures</th></tr>\n".to_string();
    for record in records {
        let numbers = record.as_object().into_iter().flatten();
        let numbers = numbers.filter_map(|(name, value)| Some((name, value.as_f64()?)));
        let numbers: Vec<String> = numbers
            .map(|(name, value)| format!("{} {}", name.replace('_', " "), shown(name, value)))
            .collect();
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(work_of(record)),
            escaped(record["who"].as_str().unwrap_or_default()),
            escaped(&numbers.join(", "))
        );
    }
    text + "</table>\n"
}

#[cfg(test)]
mod tests {
    use super::super::runs::tests::run;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_stands_alone() {
        let mut first =
            run("<script>x</script>", &[("P1 clone, bitmap", 1.0, 0.05), ("<img src=x>", 1.0, 2.0)]);
        first.records.push(json!({ "work": "siege", "failure": "<b>leak</b>" }));
        let page = page(&[first, run("b", &[("P1 clone, bitmap", 1.0, 0.2)])]);
        for foreign in ["<script", "<img", "<b>", "http://", "https://", "url(", "@import", "javascript:"] {
            // The name of SVG's elements is no address that anybody asks.
            let page = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("prefers-color-scheme:dark"));
        assert!(page.contains("&lt;b&gt;leak&lt;/b&gt;"));
        assert!(page.contains("<td class=\"held\">✓ held</td>"), "{page}");
        assert!(page.contains("<td class=\"missed\">✗ missed</td>"), "{page}");
        assert!(page.contains("<td class=\"none\">– not measured</td>"), "{page}");
        assert!(page.contains("P1b"), "{page}");
    }

    #[test]
    fn nothing_measured_is_a_page_too() {
        let page = page(&[]);
        assert!(page.contains("✓ 0 held") && !page.contains("<svg"), "{page}");
    }
}
