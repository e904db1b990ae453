//! Changes per file, as `git diff --stat` and similar options print them.

use packrace_worktree::difference::{Difference, LineCounts, content, line_counts};
use packrace_worktree::objects::Objects;

use crate::call::fatal::Fatal;
use crate::text::columns::width;
use crate::text::quoting::PathStyle;

/// Output width in columns.
const COLUMNS: usize = 80;

/// Minimum width of a graph that is shortened for long names.
const LEAST_GRAPH: usize = 6;

/// The changes in one file.
pub struct FileStat {
    /// The name as shown, possibly not UTF-8 if `core.quotePath` is off.
    name: Vec<u8>,
    counts: LineCounts,
}

/// Counts the lines of each file.
pub fn count(objects: &Objects, found: &[Difference], style: &PathStyle) -> Result<Vec<FileStat>, Fatal> {
    let mut stats = Vec::with_capacity(found.len());
    for difference in found {
        let counts = match (&difference.old, &difference.new) {
            (Some(old), Some(new)) if old.id == new.id => LineCounts::default(),
            (old, new) => line_counts(&content(objects, old.as_ref())?, &content(objects, new.as_ref())?),
        };
        stats.push(FileStat { name: name(difference, style), counts });
    }
    Ok(stats)
}

/// The name of a file; for a rename both names, with common parts written once.
fn name(difference: &Difference, style: &PathStyle) -> Vec<u8> {
    let new = style.show(&difference.path);
    let Some(old) = difference.renamed_from.as_ref().map(|from| style.show(from)) else {
        return new;
    };
    match old.starts_with(b"\"") || new.starts_with(b"\"") {
        true => [&old, &b" => "[..], &new].concat(),
        false => both(&old, &new),
    }
}

/// `a/{b => c}/d`.
fn both(old: &[u8], new: &[u8]) -> Vec<u8> {
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let before = old[..same].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    // The common suffix starts with a slash, which it may share with the common prefix.
    let lend = usize::from(before > 0);
    let (tail_old, tail_new) = (&old[before - lend..], &new[before - lend..]);
    let same = tail_old.iter().rev().zip(tail_new.iter().rev()).take_while(|(a, b)| a == b).count();
    let tail = &tail_old[tail_old.len() - same..];
    let behind = tail.iter().position(|byte| *byte == b'/').map_or(0, |at| tail.len() - at);
    if before == 0 && behind == 0 {
        return [old, b" => ", new].concat();
    }
    [
        &old[..before],
        b"{",
        middle(old, before, behind),
        b" => ",
        middle(new, before, behind),
        b"}",
        &old[old.len() - behind..],
    ]
    .concat()
}

/// The part between a common prefix and suffix, which may share a slash.
fn middle(path: &[u8], before: usize, behind: usize) -> &[u8] {
    &path[before..(path.len() - behind).max(before)]
}

/// `--numstat`.
pub fn numstat(stats: &[FileStat]) -> Vec<u8> {
    let mut text = Vec::new();
    for FileStat { name, counts } in stats {
        let counts = match counts.binary {
            Some(_) => "-\t-\t".to_owned(),
            None => format!("{}\t{}\t", counts.added, counts.removed),
        };
        text.extend_from_slice(&[counts.as_bytes(), name, b"\n"].concat());
    }
    text
}

/// `--shortstat`.
pub fn shortstat(stats: &[FileStat]) -> String {
    if stats.is_empty() {
        return String::new();
    }
    let added: usize = stats.iter().map(|stat| stat.counts.added).sum();
    let removed: usize = stats.iter().map(|stat| stat.counts.removed).sum();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let mut text = format!(" {} file{} changed", stats.len(), plural(stats.len()));
    if added > 0 || removed == 0 {
        text += &format!(", {added} insertion{}(+)", plural(added));
    }
    if removed > 0 || added == 0 {
        text += &format!(", {removed} deletion{}(-)", plural(removed));
    }
    text.push('\n');
    text
}

/// `--stat`.
pub fn stat(stats: &[FileStat]) -> Vec<u8> {
    let columns = COLUMNS;
    let longest = stats.iter().map(|stat| width(&stat.name)).max().unwrap_or(0);
    let most = stats.iter().map(|stat| stat.counts.added + stat.counts.removed).max().unwrap_or(0);
    let bytes = stats.iter().filter_map(|stat| stat.counts.binary);
    let binary = bytes.map(|(old, new)| format!("Bin {old} -> {new} bytes").len()).max().unwrap_or(0);
    let has_binary = binary > 0;
    let digits = most.to_string().len().max(if has_binary { 3 } else { 0 });
    let (mut names, mut graph) = (longest, if binary > most + digits { binary - digits } else { most });
    if names + digits + 6 + graph > columns {
        let share = (columns * 3 / 8).saturating_sub(digits + 6);
        graph = graph.min(share.max(LEAST_GRAPH));
        if names > columns.saturating_sub(digits + 6 + graph) {
            names = columns.saturating_sub(digits + 6 + graph);
        } else {
            graph = columns.saturating_sub(digits + 6 + names);
        }
    }
    let mut text = Vec::new();
    for stat in stats {
        let name = shortened(&stat.name, names);
        let pad = " ".repeat(names.saturating_sub(width(&name)));
        let counts = match &stat.counts.binary {
            Some((0, 0)) => format!("{:>digits$}", "Bin"),
            Some((old, new)) => format!("{:>digits$} {old} -> {new} bytes", "Bin"),
            None => {
                let LineCounts { added, removed, .. } = stat.counts;
                let (plus, minus) = scaled(added, removed, most, graph);
                let bars = format!("{}{}", "+".repeat(plus), "-".repeat(minus));
                let gap = if bars.is_empty() { "" } else { " " };
                format!("{:>digits$}{gap}{bars}", added + removed)
            }
        };
        text.extend_from_slice(&[&b" "[..], &name, format!("{pad} | {counts}\n").as_bytes()].concat());
    }
    text.extend_from_slice(shortstat(stats).as_bytes());
    text
}

/// Cuts the beginning of a name that is too long, at a slash if possible.
fn shortened(name: &[u8], columns: usize) -> Vec<u8> {
    if width(name) <= columns {
        return name.to_vec();
    }
    let room = columns.saturating_sub(3);
    let start = match std::str::from_utf8(name) {
        Ok(text) => {
            let mut left = width(name);
            let fits = |(_, letter): &(usize, char)| {
                let fits = left <= room;
                left -= width(letter.encode_utf8(&mut [0; 4]).as_bytes());
                fits
            };
            text.char_indices().find(fits).map_or(name.len(), |(at, _)| at)
        }
        // Invalid UTF-8 is measured in bytes.
        Err(_) => name.len() - room,
    };
    let tail = &name[start..];
    let tail = tail.iter().position(|byte| *byte == b'/').map_or(tail, |at| &tail[at..]);
    [b"...", tail].concat()
}

/// Lengths of the bars, scaled to at most `width`. Any change shows at least one character.
fn scaled(added: usize, removed: usize, most: usize, width: usize) -> (usize, usize) {
    if most <= width {
        return (added, removed);
    }
    let scale = |count: usize| if count == 0 { 0 } else { 1 + count * (width - 1) / most };
    let mut total = scale(added + removed);
    if total < 2 && added > 0 && removed > 0 {
        total = 2;
    }
    if added < removed {
        let plus = scale(added);
        (plus, total - plus)
    } else {
        let minus = scale(removed);
        (total - minus, minus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_what_was_renamed() {
        let check = |old: &str, new: &str, expect: &str| {
            assert_eq!(String::from_utf8(both(old.as_bytes(), new.as_bytes())).unwrap(), expect);
        };
        check("a", "b", "a => b");
        check("d/a", "d/b", "d/{a => b}");
        check("a/f", "b/f", "{a => b}/f");
        check("x/a/f", "x/b/f", "x/{a => b}/f");
        check("a/b/c", "a/c", "a/{b => }/c");
        check("a/c", "a/b/c", "a/{ => b}/c");
        check("f", "d/f", "f => d/f");
        check("ä", "ö", "ä => ö");
        check("d/ä/f", "d/ö/f", "d/{ä => ö}/f");
        check("d/©", "d/é", "d/{© => é}");
    }

    #[test]
    fn bars() {
        let check = |added, removed, most, width, expect| {
            assert_eq!(scaled(added, removed, most, width), expect);
        };
        check(3, 4, 10, 10, (3, 4));
        check(1, 1, 1000, 10, (1, 1));
        check(500, 500, 1000, 10, (5, 5));
        check(0, 1000, 1000, 10, (0, 10));
    }
}
