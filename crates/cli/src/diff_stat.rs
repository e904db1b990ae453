//! What changed, file by file, in the forms of `git diff --stat` and its relatives.

use packrace_object::Kind;
use packrace_worktree::difference::{Difference, LineCounts, line_counts};
use packrace_worktree::objects::Objects;

use crate::commands::Fatal;
use crate::quoting::PathStyle;

/// Columns that are used.
const COLUMNS: usize = 80;

/// Fewest columns of a graph that has to give way to names.
const LEAST_GRAPH: usize = 6;

/// What changed in one file.
pub struct FileStat {
    /// As it is shown.
    name: String,
    counts: LineCounts,
}

/// Counts the lines of each file.
pub fn count(objects: &Objects, found: &[Difference], style: &PathStyle) -> Result<Vec<FileStat>, Fatal> {
    let content = |item: &Option<packrace_worktree::listing::Item>| match item {
        Some(item) if item.mode == packrace_worktree::index::Mode::Gitlink => {
            Ok(format!("Subproject commit {}\n", item.id).into_bytes())
        }
        Some(item) => objects.read_as(&item.id, Kind::Blob),
        None => Ok(Vec::new()),
    };
    let mut stats = Vec::with_capacity(found.len());
    for difference in found {
        let counts = match (&difference.old, &difference.new) {
            (Some(old), Some(new)) if old.id == new.id => LineCounts::default(),
            (old, new) => line_counts(&content(old)?, &content(new)?),
        };
        stats.push(FileStat { name: name(difference, style), counts });
    }
    Ok(stats)
}

/// The name of a file, or both names of one that was renamed with what they have in common said once.
fn name(difference: &Difference, style: &PathStyle) -> String {
    let show = |path: &[u8]| String::from_utf8_lossy(&style.show(path)).into_owned();
    match &difference.renamed_from {
        None => show(&difference.path),
        Some(from) => {
            let (old, new) = (show(from), show(&difference.path));
            if old.starts_with('"') || new.starts_with('"') {
                return format!("{old} => {new}");
            }
            both(&old, &new)
        }
    }
}

/// `a/{b => c}/d`.
fn both(old: &str, new: &str) -> String {
    let same = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let before = old[..same].rfind('/').map_or(0, |at| at + 1);
    let (left_old, left_new) = (&old[before..], &new[before..]);
    // What is behind begins with a slash, and may share that with what is before.
    let lend = usize::from(before > 0);
    let (tail_old, tail_new) = (&old[before - lend..], &new[before - lend..]);
    let same = tail_old.bytes().rev().zip(tail_new.bytes().rev()).take_while(|(a, b)| a == b).count();
    let tail = &tail_old[tail_old.len() - same..];
    let behind = tail.find('/').map_or(0, |at| tail.len() - at);
    if before == 0 && behind == 0 {
        return format!("{old} => {new}");
    }
    let middle = |left: &str| left[..left.len().saturating_sub(behind)].to_owned();
    let (middle_old, middle_new) = (middle(left_old), middle(left_new));
    format!("{}{{{middle_old} => {middle_new}}}{}", &old[..before], &old[old.len() - behind..])
}

/// `--numstat`.
pub fn numstat(stats: &[FileStat]) -> String {
    let line = |stat: &FileStat| match stat.counts.binary {
        Some(_) => format!("-\t-\t{}\n", stat.name),
        None => format!("{}\t{}\t{}\n", stat.counts.added, stat.counts.removed, stat.name),
    };
    stats.iter().map(line).collect()
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
pub fn stat(stats: &[FileStat]) -> String {
    let width = COLUMNS;
    let longest = stats.iter().map(|stat| stat.name.chars().count()).max().unwrap_or(0);
    let most = stats.iter().map(|stat| stat.counts.added + stat.counts.removed).max().unwrap_or(0);
    let bytes = stats.iter().filter_map(|stat| stat.counts.binary);
    let binary = bytes.map(|(old, new)| format!("Bin {old} -> {new} bytes").len()).max().unwrap_or(0);
    let has_binary = binary > 0;
    let digits = most.to_string().len().max(if has_binary { 3 } else { 0 });
    let (mut names, mut graph) = (longest, if binary > most + digits { binary - digits } else { most });
    if names + digits + 6 + graph > width {
        let share = (width * 3 / 8).saturating_sub(digits + 6);
        graph = graph.min(share.max(LEAST_GRAPH));
        if names > width.saturating_sub(digits + 6 + graph) {
            names = width.saturating_sub(digits + 6 + graph);
        } else {
            graph = width.saturating_sub(digits + 6 + names);
        }
    }
    let mut text = String::new();
    for stat in stats {
        let name = shortened(&stat.name, names);
        let pad = " ".repeat(names - name.chars().count().min(names));
        text += &match stat.counts.binary {
            Some((0, 0)) => format!(" {name}{pad} | {:>digits$}\n", "Bin"),
            Some((old, new)) => format!(" {name}{pad} | {:>digits$} {old} -> {new} bytes\n", "Bin"),
            None => {
                let LineCounts { added, removed, .. } = stat.counts;
                let (plus, minus) = scaled(added, removed, most, graph);
                let bars = format!("{}{}", "+".repeat(plus), "-".repeat(minus));
                let gap = if bars.is_empty() { "" } else { " " };
                format!(" {name}{pad} | {:>digits$}{gap}{bars}\n", added + removed)
            }
        };
    }
    text + &shortstat(stats)
}

/// A name that is too long loses what it begins with, where possible up to a slash.
fn shortened(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(length - width.saturating_sub(3)).collect();
    let tail = tail.find('/').map_or(tail.as_str(), |at| &tail[at..]);
    format!("...{tail}")
}

/// How long the bars are, where the longest may be `width`. What changed at all can be seen.
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
        let check = |old, new, expect| assert_eq!(both(old, new), expect);
        check("a", "b", "a => b");
        check("d/a", "d/b", "d/{a => b}");
        check("a/f", "b/f", "{a => b}/f");
        check("x/a/f", "x/b/f", "x/{a => b}/f");
        check("a/b/c", "a/c", "a/{b => }/c");
        check("a/c", "a/b/c", "a/{ => b}/c");
        check("f", "d/f", "f => d/f");
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
