//! Links among the pages of the repository, and the table of contents of the book in `docs`.

use std::collections::BTreeMap;

/// The table of contents that mdBook reads.
pub const SUMMARY: &str = "docs/SUMMARY.md";

/// Relative links of `pages`, given as (path, text), that lead to no file, no directory or no heading.
pub fn broken(pages: &[(&str, &str)], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let anchors: BTreeMap<&str, Vec<String>> =
        pages.iter().map(|(path, text)| (*path, anchors_of(text))).collect();
    let mut findings = Vec::new();
    for (page, text) in pages {
        for link in links_of(text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { (*page).to_owned() } else { resolve(page, path) };
            let has_anchor = || match anchors.get(target.as_str()) {
                Some(known) => known.iter().any(|known| known == anchor),
                None => false,
            };
            if !exists(&target) {
                findings.push(format!("{page}: {link} leads to no file"));
            } else if !anchor.is_empty() && !has_anchor() {
                findings.push(format!("{page}: {link} leads to no heading"));
            }
        }
    }
    findings
}

/// Pages named in a text, as `docs/….md`, that do not exist.
pub fn unknown_pages(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let part_of_path = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    text.match_indices("docs/")
        // In the middle of a path, it is another folder.
        .filter(|(at, _)| !text[..*at].ends_with(part_of_path))
        .filter_map(|(at, _)| {
            let rest = &text[at..];
            let name = &rest[..rest.find(|c| !part_of_path(c)).unwrap_or(rest.len())];
            let name = name.trim_end_matches('.');
            (name.ends_with(".md") && !exists(name)).then(|| format!("{path}: names {name}"))
        })
        .collect()
}

/// Pages below `docs` that the book does not have exactly once.
pub fn not_in_the_book(paths: &[&str], summary: &str) -> Vec<String> {
    let chapters: Vec<String> = links_of(summary).map(|link| resolve(SUMMARY, link)).collect();
    let pages = paths.iter().filter(|path| path.starts_with("docs/") && path.ends_with(".md"));
    pages
        .filter(|page| **page != SUMMARY)
        .filter_map(|page| match chapters.iter().filter(|chapter| chapter == page).count() {
            1 => None,
            count => Some(format!("{page} is {count} times in {SUMMARY}")),
        })
        .collect()
}

/// The targets of links in a page that lead to other files or headings of the repository.
fn links_of(text: &str) -> impl Iterator<Item = &str> {
    prose_of(text)
        .into_iter()
        .flat_map(|piece| {
            let inline = piece.match_indices("](").map(move |(at, opening)| &piece[at + opening.len()..]);
            let defined = piece.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
            inline.chain(defined.map(|(_, target)| target))
        })
        .map(|rest| rest.split([')', ' ', '\n']).next().unwrap_or_default())
        // With a scheme, it leads elsewhere.
        .filter(|target| !target.split(['/', '#']).next().unwrap_or_default().contains(':'))
}

/// The pieces of a page outside code blocks and code spans.
fn prose_of(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            // A link whose text has code is cut in two, and its target is in the second piece.
            pieces.extend(line.split('`').step_by(2));
        }
    }
    pieces
}

/// The path from the root of what `page` calls `path`.
fn resolve(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The anchors of the headings of a page, as mdBook and hosts of repositories make them.
fn anchors_of(text: &str) -> Vec<String> {
    let mut in_block = false;
    let mut anchors: Vec<String> = Vec::new();
    for line in text.lines() {
        in_block ^= line.trim_start().starts_with("```");
        let Some((_, heading)) = line
            .split_once(' ')
            .filter(|(marks, _)| !in_block && !marks.is_empty() && marks.bytes().all(|byte| byte == b'#'))
        else {
            continue;
        };
        let letters = heading.trim().chars().flat_map(char::to_lowercase);
        let anchor: String = letters
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let repeated = anchors.iter().filter(|known| **known == anchor).count();
        anchors.push(if repeated == 0 { anchor } else { format!("{anchor}-{repeated}") });
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, expected: &[&str]) {
        let pages = [("docs/a.md", page), ("docs/b/c.md", "# One `two`: three\n## Same\n## Same\n")];
        let exists = |path: &str| ["docs/a.md", "docs/b/c.md", "docs/b", "README.md"].contains(&path);
        assert_eq!(broken(&pages, exists), expected, "{page}");
    }

    #[test]
    fn broken_links_are_found() {
        check("[x](b/c.md) [`y`](b/) [z](../README.md) [w](https://example.com/#x)", &[]);
        check("# Here\n[x](#here) [y](b/c.md#one-two-three) [z](b/c.md#same-1)", &[]);
        check("[x](c.md)", &["docs/a.md: c.md leads to no file"]);
        check("[`x`](../docs/c.md) and `[y](d.md)`", &["docs/a.md: ../docs/c.md leads to no file"]);
        check("[x]: c.md\n", &["docs/a.md: c.md leads to no file"]);
        check("[x](#there)", &["docs/a.md: #there leads to no heading"]);
        check("[x](b/c.md#two)", &["docs/a.md: b/c.md#two leads to no heading"]);
        check("```\n[x](c.md)\n```\n", &[]);
    }

    #[test]
    fn names_of_pages_that_are_gone_are_found() {
        let exists = |path: &str| path == "docs/a.md";
        let found = |text: &str| unknown_pages("x", text, exists).len();
        assert_eq!(found("see `docs/a.md`, docs/a.md. and x/docs/b.md, docs/ and docs/how-to/*.md"), 0);
        assert_eq!(found("see docs/b.md."), 1);
    }

    #[test]
    fn pages_outside_the_book_are_found() {
        let paths = ["README.md", "docs/SUMMARY.md", "docs/a.md", "docs/b/c.md"];
        let missing = |summary: &str| not_in_the_book(&paths, summary).len();
        assert_eq!(missing("- [A](a.md)\n  - [C](b/c.md)\n"), 0);
        assert_eq!(missing("- [A](a.md)\n- [A](./a.md)\n"), 2);
    }
}
