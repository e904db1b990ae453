//! Pages of the book that must have what the source has: every error text and every metric.

use std::collections::BTreeSet;

use crate::source::{is_test_file, string_literals};

/// The page of error texts.
pub const ERRORS: &str = "docs/errors.md";

/// The page of metrics.
pub const RUNBOOK: &str = "docs/runbook.md";

/// Where texts come from that clients, operators and logs of a server get. A path that ends in `/` is a folder.
const SOURCES_OF_ERRORS: [&str; 27] = [
    "crates/cli/src/bucket.rs",
    "crates/cli/src/process.rs",
    "crates/cli/src/sandbox.rs",
    "crates/cli/src/serve.rs",
    "crates/cli/src/shell.rs",
    "crates/journal/src/",
    "crates/maintenance/src/error.rs",
    "crates/maintenance/src/lock.rs",
    "crates/pack/src/error.rs",
    "crates/pack/src/ingest/contradiction.rs",
    "crates/pack/src/ingest/error.rs",
    "crates/pack/src/select/filter/parse.rs",
    "crates/protocol/src/refusal.rs",
    "crates/remote/src/",
    "crates/server/src/",
    "crates/ssh/src/",
    "crates/store/src/config/",
    "crates/store/src/error/",
    "crates/store/src/hooks.rs",
    "crates/store/src/objects/",
    "crates/store/src/publish/",
    "crates/store/src/quarantine/",
    "crates/store/src/refs/files.rs",
    "crates/store/src/refs/packed_file.rs",
    "crates/store/src/refs/reftable.rs",
    "crates/store/src/refs/transaction/",
    "crates/store/src/repository/",
];

/// Folders and files among them whose texts are pages, settings, reports or tests.
const OTHER_TEXTS: [&str; 9] = [
    "crates/remote/src/bucket/double.rs",
    "crates/remote/src/cache/apply.rs",
    "crates/remote/src/probe.rs",
    "crates/server/src/access/gitolite/",
    "crates/server/src/admin/",
    "crates/server/src/metrics/",
    "crates/server/src/serve_config/item.rs",
    "crates/server/src/serve_config/print.rs",
    "crates/server/src/serve_config/table.rs",
];

/// Beginnings of texts there that nobody gets as a message: parts of protocols and files, lines of traces, and what a log
/// says at the start.
const NO_MESSAGES: [&str; 31] = [
    "opened bitmap file",
    "transaction_prepare: ",
    "reflog_expire_",
    "update_shallow_ref …",
    "HTTP/1.1 400",
    "ref: refs/heads",
    "public, max-age",
    "private, no-cache",
    "[bundle \"…\"] uri",
    "event: gone",
    "id: … data",
    "HTTP/1.1 … … Retry",
    "Basic realm",
    "text/plain; charset",
    "Fri, 01 Jan",
    "no-cache, max-age",
    "001e#",
    "001f#",
    "Good \"git\" signature",
    "receive-pack … on …",
    "Unnamed repository",
    "packrace cache 1",
    "access rules decide who",
    "everybody may push",
    "pushes are refused",
    "with git-daemon-export-ok",
    "each repository's own",
    "loopback names over",
    "any name",
    "packrace: status page",
    "packrace: serving",
];

/// Texts of errors in the shipped sources, given as (path, text), that `page` does not have; and texts that
/// only the page has.
pub fn errors(sources: &[(&str, &str)], page: &str) -> Vec<String> {
    let is_in = |path: &str, places: &[&str]| places.iter().any(|place| path.starts_with(place));
    let mut findings = Vec::new();
    let mut said = BTreeSet::new();
    for (path, text) in sources {
        if is_test_file(path) || !is_in(path, &SOURCES_OF_ERRORS) || is_in(path, &OTHER_TEXTS) {
            continue;
        }
        let (code, literals) = string_literals(text);
        for (at, literal) in literals {
            let message = template(&literal);
            if is_message(&code[..at], &message) && !page.contains(&format!("`{message}`")) {
                findings.push(format!("{path}: {ERRORS} lacks: {message}"));
            }
            said.insert(message);
        }
    }
    // Most are whole messages; the others are parts of one.
    let is_said = |text: &str| said.contains(text) || said.iter().any(|message| message.contains(text));
    let gone = texts_of(page).filter(|text| !is_said(text));
    findings.extend(gone.map(|text| format!("{ERRORS}: no source says: {text}")));
    findings
}

/// Metrics, and values of their labels, in the shipped sources that `page` does not have.
pub fn metrics(sources: &[(&str, &str)], page: &str) -> Vec<String> {
    let of_metrics = sources.iter().filter(|(path, _)| path.starts_with("crates/server/src/metrics/"));
    let mut findings = Vec::new();
    for (path, text) in of_metrics {
        let (code, literals) = string_literals(text);
        for (at, literal) in literals {
            let before = code[..at].trim_end();
            let registers = ["add.one(", "add.bytes(", "add.seconds(", ".register(", ".register_with_unit("];
            let is_name = registers.iter().any(|call| before.ends_with(call));
            let is_label = path.ends_with("labels.rs") && before.ends_with(" =");
            // Only those of the process have the same names everywhere.
            let prefix = if literal.starts_with("process_") { "`" } else { "packrace_" };
            if is_name && !page.contains(&format!("{prefix}{literal}")) {
                findings.push(format!("{RUNBOOK} lacks {prefix}{literal}"));
            }
            if is_label
                && !page.contains(&format!("`{literal}`"))
                && !page.contains(&format!("\"{literal}\""))
            {
                findings.push(format!("{RUNBOOK} lacks the label {literal}"));
            }
        }
    }
    findings
}

/// The text with `…` for what a format fills in.
fn template(literal: &str) -> String {
    let mut text = String::new();
    let mut rest = literal;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let brace = &rest[at..at + 1];
        let doubled = rest[at + 1..].starts_with(brace);
        let end = match doubled {
            true => at + 2,
            false => rest[at..].find('}').map_or(rest.len(), |end| at + end + 1),
        };
        text.push_str(if doubled { brace } else { "…" });
        rest = &rest[end..];
    }
    text.push_str(rest);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a text after this code is for others than developers: words that are no assertion and no news.
fn is_message(before: &str, text: &str) -> bool {
    let is_news =
        ["tracing::info!(", "tracing::debug!(", "assert!("].iter().any(|call| is_inside(before, call));
    let is_bug = ["expect(", "unreachable!("].iter().any(|call| before.ends_with(call));
    words(text) > 1
        && text.contains(' ')
        && !is_news
        && !is_bug
        && !NO_MESSAGES.iter().any(|start| text.starts_with(start))
}

/// Whether the last `call` in `code` is still open at its end.
fn is_inside(code: &str, call: &str) -> bool {
    let open = |at: usize| {
        let depth = code[at + call.len()..].chars().try_fold(1_u32, |depth, c| match c {
            '(' => Some(depth + 1),
            ')' => depth.checked_sub(1).filter(|depth| *depth > 0),
            _ => Some(depth),
        });
        depth.is_some()
    };
    let statement = code.rfind(';').unwrap_or_default();
    code[statement..].rfind(call).is_some_and(|at| open(statement + at))
}

/// How many words a text has: letters of which all but the first are small.
fn words(text: &str) -> usize {
    let is_small = |c: char| c.is_ascii_lowercase() || c == '\'';
    let runs = text.split(|c: char| !c.is_ascii_alphabetic() && c != '\'');
    runs.filter(|run| run.len() > 1 && run[1..].chars().all(is_small)).count()
}

/// The texts in the first column of the page's tables.
fn texts_of(page: &str) -> impl Iterator<Item = &str> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.strip_prefix("| ")?.split(" | ").next());
    cells.flat_map(|cell| cell.split("<br>").map(|text| text.trim_matches('`').trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, page: &str, findings: usize) {
        let found = errors(&[("crates/server/src/a.rs", code)], page);
        assert_eq!(found.len(), findings, "{code}: {found:?}");
    }

    #[test]
    fn texts_that_are_missing_are_found() {
        check("f(\"no such thing: {name}\")", "", 1);
        check("f(\"no such thing: {name}\")", "| `no such thing: …` | why | what |\n", 0);
        check("f(format!(\"a {{b}} thing {:?} \\\n    is\", x))", "| `a {b} thing … is` | why | what |\n", 0);
        check("f(\"word\"); g(\"{a}: {b}\")", "", 0);
        check("tracing::info!(\"some news\"); x.expect(\"two words\")", "", 0);
        check("match x { A => tracing::info!(\"some news\"), B => tracing::warn!(\"bad news\") }", "", 1);
        assert!(errors(&[("crates/pack/src/a.rs", "f(\"no such thing\")")], "").is_empty());
    }

    #[test]
    fn texts_that_are_gone_are_found() {
        check("", "| `no such thing` | why | what |\n", 1);
        check("f(\"EOF\")", "| `EOF` | why | what |\n", 0);
    }

    #[test]
    fn metrics_that_are_missing_are_found() {
        let sources =
            [("crates/server/src/metrics/labels.rs", "add.one(\n    \"x\", \"Help text\"); A = \"b\",")];
        assert_eq!(metrics(&sources, "").len(), 2);
        assert_eq!(metrics(&sources, "`packrace_x_total`, by `b`").len(), 0);
    }
}
