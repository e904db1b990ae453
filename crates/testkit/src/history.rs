//! A synthetic history as a stream for `git fast-import` (git-fast-import, "INPUT FORMAT").

use std::io::Write as _;

use packrace_object::HashKind;

use crate::Random;

/// The size of a history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    /// Commits on the main line.
    pub commits: usize,
    /// Files in the first commit.
    pub files: usize,
    /// Initial lines per file.
    pub lines: usize,
    /// Bytes of the incompressible blob; the compressible one has twice as many. 0 for neither.
    pub big_blob_bytes: usize,
    /// Refs below `refs/pull/`, in addition to the branches and tags of every history.
    pub pull_refs: usize,
}

/// A stream for `git fast-import`, and data about it.
pub(crate) struct History {
    /// The stream.
    pub stream: Vec<u8>,
    /// Marks of the commits on the main line, oldest first.
    pub main_line: Vec<u64>,
}

/// Files in every history that need care: quoting, symbolic links, modes.
const ODD_NAMES: [&str; 6] =
    ["with space.txt", "quo\"te.txt", "new\nline.txt", "tab\there.txt", "naïve-ü.txt", "日本/語.txt"];

/// Time of the first commit, in seconds.
const EPOCH_SECONDS: u64 = 1_112_912_053;

/// Makes the history of size `amount` for `seed`.
pub(crate) fn write(amount: Amount, hash: HashKind, seed: u64) -> History {
    let mut writer = Writer {
        stream: Vec::new(),
        random: Random::new(seed),
        files: Vec::new(),
        next_mark: 1,
        clock: 0,
        main_line: Vec::new(),
        sides: Vec::new(),
    };
    writer.first_commit(amount, hash);
    for number in 1..amount.commits {
        writer.main_commit(number, amount);
    }
    writer.more_refs(amount);
    writer.stream.extend_from_slice(b"done\n");
    History { stream: writer.stream, main_line: writer.main_line }
}

struct File {
    path: String,
    lines: Vec<String>,
}

/// An unmerged side branch: its tip and the file that it adds.
struct Side {
    tip: u64,
    path: String,
    blob: u64,
}

struct Writer {
    stream: Vec<u8>,
    random: Random,
    files: Vec<File>,
    next_mark: u64,
    clock: u64,
    main_line: Vec<u64>,
    sides: Vec<Side>,
}

impl Writer {
    fn line(&mut self, text: &str) {
        self.stream.extend_from_slice(text.as_bytes());
        self.stream.push(b'\n');
    }

    fn data(&mut self, bytes: &[u8]) {
        // Writing to a Vec cannot fail.
        let _ = writeln!(self.stream, "data {}", bytes.len());
        self.stream.extend_from_slice(bytes);
        self.stream.push(b'\n');
    }

    fn mark(&mut self) -> u64 {
        let mark = self.next_mark;
        self.next_mark += 1;
        self.line(&format!("mark :{mark}"));
        mark
    }

    fn blob(&mut self, bytes: &[u8]) -> u64 {
        self.line("blob");
        let mark = self.mark();
        self.data(bytes);
        mark
    }

    /// Starts a commit; the caller adds the changes. Every 17th committer's clock is ten days behind.
    fn commit(&mut self, branch: &str, message: &str, parents: &[u64]) -> u64 {
        self.clock += 1;
        let seconds = EPOCH_SECONDS + self.clock * 3600;
        let skewed = if self.clock.is_multiple_of(17) { seconds.saturating_sub(864_000) } else { seconds };
        self.line(&format!("commit {branch}"));
        let mark = self.mark();
        self.line(&format!("author A U Thor <author@example.com> {seconds} +0200"));
        self.line(&format!("committer C O Mitter <committer@example.com> {skewed} -0330"));
        self.data(message.as_bytes());
        for (index, parent) in parents.iter().enumerate() {
            self.line(&format!("{} :{parent}", if index == 0 { "from" } else { "merge" }));
        }
        mark
    }

    fn modify(&mut self, mode: &str, content: &str, path: &str) {
        self.line(&format!("M {mode} {content} {}", quoted(path)));
    }

    fn first_commit(&mut self, amount: Amount, hash: HashKind) {
        let mut entries = Vec::new();
        for number in 0..amount.files {
            let path = format!("src/{:02}/part{}/file{number}.rs", number % 23, number % 3);
            let lines: Vec<String> = (0..amount.lines).map(|_| self.random.line()).collect();
            entries.push(("100644", self.blob(lines.concat().as_bytes()), path.clone()));
            self.files.push(File { path, lines });
        }
        for name in ODD_NAMES {
            entries.push(("100644", self.blob(format!("named {name}\n").as_bytes()), name.to_string()));
        }
        entries.push(("100755", self.blob(b"#!/bin/sh\nexit 0\n"), "bin/run".to_string()));
        entries.push(("120000", self.blob(b"../bin/run"), "links/run".to_string()));
        let modules = b"[submodule \"sub\"]\n\tpath = lib/sub\n\turl = https://example.com/sub.git\n";
        entries.push(("100644", self.blob(modules), ".gitmodules".to_string()));
        entries.push(("100644", self.blob(b""), "empty".to_string()));
        let commit = self.commit("refs/heads/main", "Begin\n", &[]);
        for (mode, blob, path) in entries {
            self.modify(mode, &format!(":{blob}"), &path);
        }
        self.modify("160000", &"5a".repeat(hash.len_in_bytes()), "lib/sub");
        self.main_line.push(commit);
    }

    fn main_commit(&mut self, number: usize, amount: Amount) {
        let tip = self.main_line[self.main_line.len() - 1];
        if number % 7 == 3 {
            self.side_branch(number, tip);
        }
        let commit = match number % 29 {
            11 => self.commit("refs/heads/main", "Nothing changes here\n", &[tip]),
            19 => self.rename(number, tip),
            23 if amount.big_blob_bytes > 0 && number < 58 => {
                self.big_blob(number, amount.big_blob_bytes, tip)
            }
            _ if number % 7 == 6 && !self.sides.is_empty() => self.merge(number, tip),
            _ => self.edit(number, tip),
        };
        self.main_line.push(commit);
        if number % 10 == 9 {
            self.tag(&format!("v0.{number}"), commit);
        }
    }

    fn edit(&mut self, number: usize, tip: u64) -> u64 {
        let mut changes = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let index = self.random.below(self.files.len());
            let line = self.random.line();
            let file = &mut self.files[index];
            let at = self.random.below(file.lines.len());
            match self.random.below(4) {
                0 => file.lines.insert(at, line),
                1 if file.lines.len() > 5 => drop(file.lines.remove(at)),
                _ => file.lines[at] = line,
            }
            let (path, content) = (file.path.clone(), file.lines.concat());
            changes.push((self.blob(content.as_bytes()), path));
        }
        let commit = self.commit("refs/heads/main", &format!("Change {number}\n\nAnd say why.\n"), &[tip]);
        for (blob, path) in changes {
            self.modify("100644", &format!(":{blob}"), &path);
        }
        commit
    }

    fn rename(&mut self, number: usize, tip: u64) -> u64 {
        let commit = self.commit("refs/heads/main", &format!("Move a file in {number}\n"), &[tip]);
        let index = self.random.below(self.files.len());
        let to = format!("moved/{number}/file.rs");
        let from = std::mem::replace(&mut self.files[index].path, to.clone());
        self.line(&format!("R {} {}", quoted(&from), quoted(&to)));
        commit
    }

    fn big_blob(&mut self, number: usize, bytes: usize, tip: u64) -> u64 {
        let noise = self.random.bytes(bytes);
        let noise = self.blob(&noise);
        let text = self.random.line().repeat(2 * bytes / 40);
        let text = self.blob(text.as_bytes());
        let commit = self.commit("refs/heads/main", &format!("Add big files in {number}\n"), &[tip]);
        self.modify("100644", &format!(":{noise}"), &format!("big/noise{number}.bin"));
        self.modify("100644", &format!(":{text}"), &format!("big/text{number}.txt"));
        commit
    }

    /// Two commits beside the main line; every fifth branch is unrelated to it.
    fn side_branch(&mut self, number: usize, tip: u64) {
        let branch = format!("refs/heads/side/{number}");
        let path = format!("side/{number}.txt");
        let parents: &[u64] = if number.is_multiple_of(5) { &[] } else { &[tip] };
        let first = self.random.line();
        let blob = self.blob(first.as_bytes());
        let commit = self.commit(&branch, &format!("Start {number} aside\n"), parents);
        self.modify("100644", &format!(":{blob}"), &path);
        let second = first + &self.random.line();
        let blob = self.blob(second.as_bytes());
        let tip = self.commit(&branch, &format!("Go on with {number} aside\n"), &[commit]);
        self.modify("100644", &format!(":{blob}"), &path);
        self.sides.push(Side { tip, path, blob });
    }

    /// Merges the unmerged branches; with three of them it is an octopus.
    fn merge(&mut self, number: usize, tip: u64) -> u64 {
        if number % 3 == 1 && self.sides.len() < 3 {
            return self.edit(number, tip);
        }
        let merged = std::mem::take(&mut self.sides);
        let parents: Vec<u64> = std::iter::once(tip).chain(merged.iter().map(|side| side.tip)).collect();
        let commit = self.commit("refs/heads/main", &format!("Merge {} sides\n", merged.len()), &parents);
        for side in merged {
            self.modify("100644", &format!(":{}", side.blob), &side.path);
        }
        commit
    }

    fn tag(&mut self, name: &str, target: u64) -> u64 {
        self.line(&format!("tag {name}"));
        let mark = self.mark();
        self.line(&format!("from :{target}"));
        self.line(&format!(
            "tagger T Agger <tagger@example.com> {} +0000",
            EPOCH_SECONDS + self.clock * 3600
        ));
        self.data(format!("Version {name}\n").as_bytes());
        mark
    }

    fn reset(&mut self, name: &str, target: u64) {
        self.line(&format!("reset {name}"));
        self.line(&format!("from :{target}"));
        self.line("");
    }

    /// Tags of every kind of object except trees, lightweight tags, and many refs.
    fn more_refs(&mut self, amount: Amount) {
        let middle = self.main_line[self.main_line.len() / 2];
        let inner = self.tag("nested-inner", middle);
        let outer = self.tag("nested-outer", inner);
        self.tag("nested-outermost", outer);
        let blob = self.blob(b"a blob that only a tag holds\n");
        self.tag("of-a-blob", blob);
        self.reset("refs/tags/light", middle);
        self.reset("refs/heads/old", middle);
        for number in 0..amount.pull_refs {
            let target = self.main_line[self.random.below(self.main_line.len())];
            self.reset(&format!("refs/pull/{number}/head"), target);
        }
    }
}

/// A path for fast-import: in C quotes if it has a character that needs them.
fn quoted(path: &str) -> String {
    if !path.bytes().any(|byte| matches!(byte, b' ' | b'"' | b'\n' | b'\t' | b'\\')) {
        return path.to_string();
    }
    let escaped = path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_only_when_needed() {
        assert_eq!(quoted("src/a.rs"), "src/a.rs");
        assert_eq!(quoted("a \"b\"\n"), "\"a \\\"b\\\"\\n\"");
    }

    #[test]
    fn a_seed_gives_one_stream() {
        let amount = Amount { commits: 30, files: 4, lines: 9, big_blob_bytes: 100, pull_refs: 3 };
        let first = write(amount, HashKind::Sha1, 1);
        assert_eq!(first.main_line.len(), 30);
        assert_eq!(first.stream, write(amount, HashKind::Sha1, 1).stream);
        assert_ne!(first.stream, write(amount, HashKind::Sha1, 2).stream);
    }
}
