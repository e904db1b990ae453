//! Differences between two runs that a session may allow.

use std::collections::HashSet;

/// An allowed difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    /// The usage of a command: everything from `usage:` on.
    Usage,
    /// The names of packs, if they are free.
    PackNames,
    /// Text on standard error.
    Words,
    /// Lines of progress.
    Progress,
    /// The order of lines on standard error, if two processes write there.
    Order,
    /// Full paths, where git's lead from the current directory.
    Paths,
    /// How often a line on standard error is said.
    Repeats,
}

impl Mask {
    pub fn named(word: &str) -> Result<Mask, String> {
        Ok(match word {
            "usage" => Mask::Usage,
            "pack-names" => Mask::PackNames,
            "words" => Mask::Words,
            "progress" => Mask::Progress,
            "order" => Mask::Order,
            "paths" => Mask::Paths,
            "repeats" => Mask::Repeats,
            _ => return Err(format!("no such mask: {word}")),
        })
    }

    /// Removes what may differ from the text of a stream.
    pub fn apply(self, text: &str, is_stderr: bool) -> String {
        match self {
            Mask::Usage => without_usage(text),
            Mask::PackNames => without_pack_names(text),
            Mask::Words if is_stderr => String::new(),
            Mask::Order if is_stderr => sorted(text),
            Mask::Repeats if is_stderr => said_once(text),
            Mask::Words | Mask::Order | Mask::Repeats => text.to_owned(),
            Mask::Paths => text.replace("/HERE/work/", ""),
            Mask::Progress => text
                .lines()
                .filter(|line| !line.contains('\r') && !is_progress(line))
                .map(|line| format!("{line}\n"))
                .collect(),
        }
    }
}

/// `Counting objects: 100% (3/3), done.`, also from a server.
fn is_progress(line: &str) -> bool {
    let line = line.strip_prefix("remote: ").unwrap_or(line);
    line.trim_end().ends_with(", done.")
        || line.starts_with("Total ")
        || line.starts_with("Delta compression using")
}

fn said_once(text: &str) -> String {
    let mut said = HashSet::new();
    text.lines().filter(|line| said.insert(*line)).map(|line| format!("{line}\n")).collect()
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Replaces each usage by one line. A usage ends at an error or warning, or at the end of the text.
fn without_usage(text: &str) -> String {
    let mut is_usage = false;
    let mut rest = String::new();
    for line in text.lines() {
        let starts = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
        if starts(&["usage:"]) && !is_usage {
            is_usage = true;
            rest.push_str("usage\n");
        } else if starts(&["fatal:", "error:", "warning:", "hint:"]) {
            is_usage = false;
        }
        if !is_usage {
            rest.push_str(&format!("{line}\n"));
        }
    }
    rest
}

/// Replaces the name of each pack by `pack-ID`.
fn without_pack_names(text: &str) -> String {
    let mut pieces = text.split("pack-");
    let mut rest = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_hexdigit).count();
        let (id, behind) = if digits == 40 || digits == 64 { ("ID", &piece[digits..]) } else { ("", piece) };
        rest.push_str(&format!("pack-{id}{behind}"));
    }
    rest
}

#[test]
fn masks_hide_what_they_are_for_and_nothing_else() {
    let check = |mask: Mask, text: &str, expect: &str| assert_eq!(mask.apply(text, true), expect);
    check(Mask::Usage, "error: a\nusage: git b\n    -c\nfatal: d\n", "error: a\nusage\nfatal: d\n");
    check(
        Mask::PackNames,
        &format!("keep pack-{}.idx pack-a\n", "0".repeat(40)),
        "keep pack-ID.idx pack-a\n",
    );
    check(Mask::Words, "error: a\n", "");
    check(Mask::Order, "b\na\n", "a\nb");
    check(Mask::Paths, "/HERE/work/.git/a b\n", ".git/a b\n");
    check(Mask::Repeats, "a\nb\na\n", "a\nb\n");
    assert_eq!(Mask::Words.apply("a\n", false), "a\n");
    check(Mask::Progress, "Counting objects: 100% (3/3), done.\nerror: a\n", "error: a\n");
}
