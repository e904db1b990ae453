//! The lines that differ, with their context (git-diff, "Generating patch text with -p").

use std::ops::Range;

use gix_diff::blob::{Algorithm, InternedInput, diff_with_slider_heuristics};

/// Context lines around changes; fewer at the start or the end of the content.
pub(crate) const CONTEXT_LINES: usize = 3;

/// Longest heading of a hunk.
const HEADING_BYTES: usize = 80;

/// Changes close enough to share context.
pub(crate) struct Hunk {
    /// Lines of the old content, with context.
    pub(crate) old: Range<usize>,
    /// Lines of the new content, with context.
    pub(crate) new: Range<usize>,
    changes: Vec<(Range<usize>, Range<usize>)>,
}

impl Hunk {
    /// Whether it begins with the first line, so that git wants it to match at the start.
    pub(crate) fn is_first(&self) -> bool {
        self.old.start == 0
    }

    /// Whether no context follows, so that git wants it to match at the end.
    pub(crate) fn is_last(&self) -> bool {
        self.changes.last().is_some_and(|(removed, _)| self.old.end == removed.end)
    }
}

/// Appends hunks in patch format.
pub fn write_hunks(old: &[u8], new: &[u8], out: &mut Vec<u8>) {
    let lines = |content: &'_ [u8]| -> Vec<Range<usize>> {
        let mut at = 0;
        content
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| {
                at += line.len();
                at - line.len()..at
            })
            .collect()
    };
    let (old_lines, new_lines) = (lines(old), lines(new));
    let mut heading_from = 0;
    let mut heading: &[u8] = b"";
    for hunk in hunks(old, new, old_lines.len(), CONTEXT_LINES) {
        let before = old_lines[heading_from..hunk.old.start].iter().rev();
        let found = before.map(|line| &old[line.clone()]).find(|line| is_heading(line));
        heading_from = hunk.old.start;
        heading = found.map_or(heading, |line| line[..line.len().min(HEADING_BYTES)].trim_ascii_end());
        let gap = if heading.is_empty() { "" } else { " " };
        let header = format!("@@ -{} +{} @@{gap}", place(&hunk.old), place(&hunk.new));
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(heading);
        out.push(b'\n');
        let mut at = hunk.old.start;
        for (removed, added) in &hunk.changes {
            write_lines(b' ', old, &old_lines[at..removed.start], out);
            write_lines(b'-', old, &old_lines[removed.clone()], out);
            write_lines(b'+', new, &new_lines[added.clone()], out);
            at = removed.end;
        }
        write_lines(b' ', old, &old_lines[at..hunk.old.end], out);
    }
}

/// Whether a line looks like the start of a function, by default (gitattributes, "Defining a custom
/// hunk-header").
fn is_heading(line: &[u8]) -> bool {
    line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$'))
}

/// The number of the first line, and the number of lines.
fn place(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => (lines.start + 1).to_string(),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn write_lines(sign: u8, content: &[u8], lines: &[Range<usize>], out: &mut Vec<u8>) {
    for line in lines {
        let line = &content[line.clone()];
        out.push(sign);
        out.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}

/// The hunks between two contents with at most so many lines of context.
pub(crate) fn hunks(old: &[u8], new: &[u8], old_lines: usize, context: usize) -> Vec<Hunk> {
    let input = InternedInput::new(old, new);
    let diff = diff_with_slider_heuristics(Algorithm::Myers, &input);
    let mut hunks: Vec<Hunk> = Vec::new();
    for change in diff.hunks() {
        let range = |lines: &Range<u32>| lines.start as usize..lines.end as usize;
        let (removed, added) = (range(&change.before), range(&change.after));
        let before = removed.start.min(context);
        // Beside another change within the context these are wrong for `new`: the two become one hunk, which begins with
        // the first and ends with the second.
        let behind = (old_lines - removed.end).min(context);
        let (old, new) = (
            removed.start - before..removed.end + behind,
            added.start.saturating_sub(before)..added.end + behind,
        );
        match hunks.last_mut().filter(|last| last.old.end >= old.start) {
            Some(last) => {
                (last.old.end, last.new.end) = (old.end, new.end);
                last.changes.push((removed, added));
            }
            None => hunks.push(Hunk { old, new, changes: vec![(removed, added)] }),
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expect: &str) {
        let mut out = Vec::new();
        write_hunks(old.as_bytes(), new.as_bytes(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }

    #[test]
    fn changes_within_the_context_of_another() {
        check("1\n2\n3\n4\n", "x\n1\n2\n4\n3\n", "@@ -1,4 +1,5 @@\n+x\n 1\n 2\n-3\n 4\n+3\n");
        check("1\n2\n", "2\n3\n4\n", "@@ -1,2 +1,3 @@\n-1\n 2\n+3\n+4\n");
    }

    #[test]
    fn small_contents() {
        check("", "a\n", "@@ -0,0 +1 @@\n+a\n");
        check("a\n", "", "@@ -1 +0,0 @@\n-a\n");
        check("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
        check("a\nb\n", "a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n");
        check("a\n", "a\n", "");
    }

    #[test]
    fn as_git_writes_them() {
        let mut random = packrace_testkit::Random::new(5);
        let dir = packrace_testkit::scratch_dir();
        let git = packrace_testkit::Git::stock();
        git.run(dir.path(), &["init", "-q"]);
        for round in 0..60 {
            let indent = |random: &mut packrace_testkit::Random| " ".repeat(2 * random.below(3));
            let mut lines: Vec<String> = Vec::new();
            for _ in 0..60 {
                lines.push(format!("{}{}\n", indent(&mut random), random.line()));
            }
            let old = lines.concat();
            for _ in 0..=random.below(5) {
                let at = random.below(lines.len());
                match random.below(3) {
                    0 => drop(lines.remove(at)),
                    1 => lines.insert(at, format!("{}new\n", indent(&mut random))),
                    _ => lines[at] = "other\n".to_owned(),
                }
            }
            let new = lines.concat();
            std::fs::write(dir.path().join("f"), &old).unwrap();
            git.run(dir.path(), &["add", "f"]);
            std::fs::write(dir.path().join("f"), &new).unwrap();
            let patch = git.run(dir.path(), &["diff"]);
            let from = patch.find("@@").unwrap_or(patch.len());
            let mut out = Vec::new();
            write_hunks(old.as_bytes(), new.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), patch[from..], "round {round}");
        }
    }
}
