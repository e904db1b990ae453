//! The report as Markdown: conditions, goals, and what failed.

use std::fmt::Write as _;

use super::html::counts;
use super::runs::{BenchRun, standings};
use crate::args::MARKS;

/// The report, without marks.
pub fn report(runs: &[BenchRun]) -> String {
    let standings = standings(runs);
    let [held, missed, none] = counts(&standings);
    let mut text = format!("{held} goals held, {missed} missed, {none} not measured.\n\n");
    for run in runs {
        let _ = writeln!(
            text,
            "- **{}**: {}; {}; {}. `{}`",
            plain(&run.label()),
            plain(&run.program()),
            plain(&run.machine()),
            plain(&run.when()),
            run.command().replace('`', "'")
        );
    }
    text.push_str(
        "\n| row | work | run | beside | packrace | ratio | goal | |\n|---|---|---|---:|---:|---:|---|---|\n",
    );
    for standing in &standings {
        let cells = standing.cells();
        let mut texts = cells.texts.map(|text| plain(&text));
        if cells.is_held == Some(false) {
            texts[7] = format!("**{}**", texts[7]);
        }
        let _ = writeln!(text, "| {} |", texts.join(" | "));
    }
    let failed = runs.iter().flat_map(|run| run.failures().map(move |(work, why)| (run, work, why)));
    for (at, (run, work, why)) in failed.enumerate() {
        let head = if at == 0 { "\n**What failed:**\n\n" } else { "" };
        let _ = writeln!(text, "{head}- {}, {}: {}", plain(&run.label()), plain(work), plain(why));
    }
    text
}

/// A file with the report between its marks. A file without them gets them at its end.
pub fn put_into(old: &str, report: &str) -> String {
    let [begin, end] = MARKS;
    let between = format!("{begin}\n{report}{end}");
    let parts = old.split_once(begin).and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    match parts {
        Some((before, after)) => format!("{before}{between}{after}"),
        None => format!("{old}{between}\n"),
    }
}

/// Text that is nothing but text in a cell.
fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '|' | '*' | '_' | '`' | '[' | ']' | '<' | '>' | '\\' => safe.extend(['\\', letter]),
            letter if letter.is_control() => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::runs::tests::run;
    use super::*;

    #[test]
    fn losses_stand_out() {
        let runs = [run("a|b", &[("P1 clone, bitmap", 1.0, 0.05), ("P2 clone, no bitmap", 1.0, 1.5)])];
        let text = report(&runs);
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_string();
        assert_eq!(
            line("| P1 | clone"),
            "| P1 | clone, the pack is the answer (bitmap) | a\\|b, git 2.47.3 | 1 s | 50 ms | 0.05 × | CPU ≤ 0.1 × | ✓ held |"
        );
        assert!(line("| P2 |").ends_with("| 1.5 × | wall ≤ 0.2 × | **✗ missed** |"), "{text}");
        assert!(line("| P1b |").ends_with("| – | – | – | CPU ≤ 0.25 × | – not measured |"), "{text}");
        assert!(!text.contains("/srv"), "{text}");
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let old = put_into("before\n", "one\n");
        assert_eq!(old, "before\n<!-- packrace-bench -->\none\n<!-- /packrace-bench -->\n");
        assert_eq!(put_into(&format!("{old}after\n"), "two\n"), old.replace("one", "two") + "after\n");
    }
}
