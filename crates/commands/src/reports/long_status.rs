//! The long format of `git status`.
//!
//! Of operations in progress only a merge is reported; a rebase, a bisection and so on by git (`stash::with_git`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use packrace_object::ObjectId;
use packrace_os::count::Role;
use packrace_store::refs::Value;
use packrace_store::{Config, Repository};
use packrace_worktree::difference::Difference;
use packrace_worktree::status::{FileState, Presence, Status, UntrackedMode};

use crate::call::fatal::Fatal;
use crate::call::{Call, has_colors};
use crate::history::LoadedHistory;
use crate::ref_filter::shorten;
use crate::text::quoting::PathStyle;
use crate::tracking::Tracking;

/// Maximum number of files for rename detection (git-config, "diff.renameLimit").
const RENAME_LIMIT: usize = 1000;

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[m";

/// Which untracked files to report, by the configuration.
pub fn untracked_mode(config: &Config) -> Result<UntrackedMode, Fatal> {
    Ok(match config.string("status.showUntrackedFiles").as_deref() {
        Some(b"no") => UntrackedMode::No,
        Some(b"all") => UntrackedMode::All,
        None | Some(b"normal") => UntrackedMode::Normal,
        Some(_) => match config.boolean("status.showUntrackedFiles")? {
            Some(false) => UntrackedMode::No,
            _ => UntrackedMode::Normal,
        },
    })
}

/// Maximum number of files for rename detection in a status; `None` if renames are not detected.
pub fn rename_limit(config: &Config) -> Result<Option<usize>, Fatal> {
    configured_renames(config, &["status", "diff"])
}

/// The same for a diff.
pub fn diff_rename_limit(config: &Config) -> Result<Option<usize>, Fatal> {
    configured_renames(config, &["diff"])
}

fn configured_renames(config: &Config, sections: &[&str]) -> Result<Option<usize>, Fatal> {
    let mut keys = sections.iter().map(|section| format!("{section}.renames"));
    let has_renames = match keys.find(|key| config.string(key).is_some()) {
        None => true,
        Some(key) => match config.string(&key).as_deref() {
            Some(b"copies" | b"copy") => true,
            _ => config.boolean(&key)?.unwrap_or(true),
        },
    };
    let mut limit = RENAME_LIMIT;
    for section in sections.iter().rev() {
        if let Some(number) = config.integer(&format!("{section}.renameLimit"))? {
            limit = usize::try_from(number).unwrap_or(0);
        }
    }
    Ok(has_renames.then_some(limit))
}

/// Writes the long format.
pub struct LongStatus<'a> {
    repository: &'a Repository,
    style: PathStyle,
    gives_hints: bool,
    is_colored: bool,
    is_merging: bool,
    shows_untracked: bool,
    text: String,
}

/// The two status letters of a path in the short format, and its old name.
type ShortLine<'a> = ([u8; 2], Option<&'a [u8]>);

impl<'a> LongStatus<'a> {
    /// Shows paths relative to the directory `prefix` of the work tree.
    pub fn new(call: &Call, repository: &'a Repository, prefix: &[u8]) -> Result<Self, Fatal> {
        let config = repository.config();
        let is_relative = config.boolean("status.relativePaths")?.unwrap_or(true);
        let is_colored = has_colors(config, "color.status", || call.streams.output().is_terminal())?;
        let merge_head = repository.git_dir().join("MERGE_HEAD");
        Ok(LongStatus {
            repository,
            style: PathStyle::of(config, if is_relative { prefix } else { b"" })?,
            gives_hints: call.advice(config, "statusHints")?.unwrap_or(true),
            is_colored,
            is_merging: packrace_os::identity(&merge_head, Role::Refs).is_ok_and(|found| found.is_some()),
            shows_untracked: untracked_mode(config)? != UntrackedMode::No,
            text: String::new(),
        })
    }

    /// The complete text.
    pub fn render(mut self, status: &Status, head: Option<ObjectId>) -> Result<String, Fatal> {
        if self.repository.config().boolean("status.short")?.unwrap_or(false) {
            return Ok(self.short(status));
        }
        self.branch(head)?;
        if self.is_merging {
            self.merge(status);
        }
        match status.presence {
            None => {}
            Some(Presence::Unknown) => self.text += "You are in a sparse checkout.\n\n",
            Some(Presence::Percent(percent)) => {
                let _ = writeln!(
                    self.text,
                    "You are in a sparse checkout with {percent}% of tracked files present.\n"
                );
            }
        }
        if head.is_none() {
            self.text += "\nNo commits yet\n\n";
        }
        self.staged(status, head.is_some());
        self.unmerged(status, head.is_some());
        self.changed(status);
        self.untracked(status);
        self.summary(status, head.is_some());
        Ok(self.text)
    }

    fn branch(&mut self, head: Option<ObjectId>) -> Result<(), Fatal> {
        let refs = self.repository.refs();
        match refs.read(b"HEAD").map_err(Fatal::new)? {
            Some(Value::Symbolic(name)) => {
                let branch = name.strip_prefix(b"refs/heads/").unwrap_or(&name);
                let _ = writeln!(self.text, "On branch {}", String::from_utf8_lossy(branch));
                if let Some(head) = head {
                    self.upstream(branch, head)?;
                }
            }
            _ => {
                let (word, at) = self.detached(head)?;
                let (on, off) = self.color(RED);
                let _ = writeln!(self.text, "{on}HEAD detached {word} {off}{at}");
            }
        }
        Ok(())
    }

    /// The target of the last checkout, and whether `HEAD` still points there.
    fn detached(&self, head: Option<ObjectId>) -> Result<(&'static str, String), Fatal> {
        let log = self.repository.refs().log(b"HEAD").map_err(Fatal::new)?.unwrap_or_default();
        for change in log.iter().rev() {
            let Some(moved) = change.message.strip_prefix(b"checkout: moving from ") else { continue };
            let Some(at) = moved.windows(4).rposition(|word| word == b" to ") else { continue };
            let target = String::from_utf8_lossy(&moved[at + 4..]).into_owned();
            let word = if head == Some(change.new) { "at" } else { "from" };
            let is_name = ObjectId::from_hex(target.as_bytes()).is_err()
                && target != "HEAD"
                && !target.contains(['~', '^', '@']);
            return Ok((word, if is_name { target } else { self.digits(change.new)? }));
        }
        match head {
            Some(head) => Ok(("at", self.digits(head)?)),
            None => Ok(("at", String::new())),
        }
    }

    fn digits(&self, id: ObjectId) -> Result<String, Fatal> {
        let snapshot = self.repository.snapshot()?;
        let digits = snapshot.usual_digits(self.repository.config())?;
        let mut hex = id.to_hex().to_string();
        hex.truncate(snapshot.unique_digits(&id, digits)?);
        Ok(hex)
    }

    /// The upstream of the branch, and the ahead and behind counts.
    fn upstream(&mut self, branch: &[u8], head: ObjectId) -> Result<(), Fatal> {
        let tracking = Tracking::new(self.repository)?;
        let Ok(upstream) = tracking.target(branch, false)? else { return Ok(()) };
        let refs = self.repository.refs().snapshot(&[]).map_err(Fatal::new)?;
        let mut exists = |name: &[u8]| Ok(refs.resolve(name).map_err(Fatal::new)?.is_some());
        let name = String::from_utf8_lossy(shorten(&upstream, true, &mut exists)?).into_owned();
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let found = refs.resolve(&upstream).map_err(Fatal::new)?;
        let counts = match found {
            Some(found) => LoadedHistory::new(self.repository.snapshot()?).ahead_behind(&head, &found.id)?,
            None => None,
        };
        let (text, hint) = match counts {
            None => (
                format!("Your branch is based on '{name}', but the upstream is gone."),
                "use \"git branch --unset-upstream\" to fixup",
            ),
            Some((0, 0)) => (format!("Your branch is up to date with '{name}'."), ""),
            Some((ahead, 0)) => (
                format!("Your branch is ahead of '{name}' by {ahead} commit{}.", plural(ahead)),
                "use \"git push\" to publish your local commits",
            ),
            Some((0, behind)) => (
                format!(
                    "Your branch is behind '{name}' by {behind} commit{}, and can be fast-forwarded.",
                    plural(behind)
                ),
                "use \"git pull\" to update your local branch",
            ),
            Some((ahead, behind)) => (
                format!(
                    "Your branch and '{name}' have diverged,\nand have {ahead} and {behind} different commits each, \
                     respectively."
                ),
                "use \"git pull\" if you want to integrate the remote branch with yours",
            ),
        };
        self.text += &text;
        self.text.push('\n');
        if !hint.is_empty() {
            self.hint(hint);
        }
        self.text.push('\n');
        Ok(())
    }

    fn merge(&mut self, status: &Status) {
        if status.unmerged.is_empty() {
            self.text += "All conflicts fixed but you are still merging.\n";
            self.hint("use \"git commit\" to conclude merge");
        } else {
            self.text += "You have unmerged paths.\n";
            self.hint("fix conflicts and run \"git commit\"");
            self.hint("use \"git merge --abort\" to abort the merge");
        }
        self.text.push('\n');
    }

    fn staged(&mut self, status: &Status, has_head: bool) {
        if status.staged.is_empty() {
            return;
        }
        self.text += "Changes to be committed:\n";
        self.unstage_hint(has_head);
        for difference in &status.staged {
            let path = match &difference.renamed_from {
                Some(from) => {
                    [&self.style.show(from), &b" -> "[..], &self.style.show(&difference.path)].concat()
                }
                None => self.style.show(&difference.path),
            };
            self.line(GREEN, &format!("{:<12}{}", kind(difference), String::from_utf8_lossy(&path)));
        }
        self.text.push('\n');
    }

    fn unmerged(&mut self, status: &Status, has_head: bool) {
        if status.unmerged.is_empty() {
            return;
        }
        self.text += "Unmerged paths:\n";
        self.unstage_hint(has_head);
        let is_gone = |sides: &[bool; 3]| matches!(sides, [true, false, false]);
        let all_gone = status.unmerged.iter().all(|(_, sides)| is_gone(sides));
        let any_gone = status
            .unmerged
            .iter()
            .any(|(_, sides)| is_gone(sides) || matches!(sides, [true, true, false] | [true, false, true]));
        self.hint(match (all_gone, any_gone) {
            (true, _) => "use \"git rm <file>...\" to mark resolution",
            (false, true) => "use \"git add/rm <file>...\" as appropriate to mark resolution",
            (false, false) => "use \"git add <file>...\" to mark resolution",
        });
        for (path, sides) in &status.unmerged {
            let word = match sides {
                [_, false, false] => "both deleted:",
                [false, true, false] => "added by us:",
                [true, true, false] => "deleted by them:",
                [false, false, true] => "added by them:",
                [true, false, true] => "deleted by us:",
                [false, true, true] => "both added:",
                [true, true, true] => "both modified:",
            };
            let path = self.style.show(path);
            self.line(RED, &format!("{word:<17}{}", String::from_utf8_lossy(&path)));
        }
        self.text.push('\n');
    }

    fn changed(&mut self, status: &Status) {
        if status.changed.is_empty() {
            return;
        }
        self.text += "Changes not staged for commit:\n";
        self.hint(match status.changed.iter().any(|(_, state)| *state == FileState::Deleted) {
            true => "use \"git add/rm <file>...\" to update what will be committed",
            false => "use \"git add <file>...\" to update what will be committed",
        });
        self.hint("use \"git restore <file>...\" to discard changes in working directory");
        for (path, state) in &status.changed {
            let word = match state {
                FileState::Modified | FileState::NewCommits => "modified:",
                FileState::Deleted => "deleted:",
                FileState::TypeChanged => "typechange:",
                FileState::New => "new file:",
            };
            let path = self.style.show(path);
            let after = if *state == FileState::NewCommits { " (new commits)" } else { "" };
            self.line(RED, &format!("{word:<12}{}{after}", String::from_utf8_lossy(&path)));
        }
        self.text.push('\n');
    }

    fn untracked(&mut self, status: &Status) {
        if !self.shows_untracked {
            if !status.staged.is_empty() {
                self.text += "Untracked files not listed";
                self.text +=
                    if self.gives_hints { " (use -u option to show untracked files)\n" } else { "\n" };
            }
            return;
        }
        if status.untracked.is_empty() {
            return;
        }
        self.text += "Untracked files:\n";
        self.hint("use \"git add <file>...\" to include in what will be committed");
        for path in &status.untracked {
            let path = self.style.show(path);
            self.line(RED, &String::from_utf8_lossy(&path));
        }
        self.text.push('\n');
    }

    fn summary(&mut self, status: &Status, has_head: bool) {
        // A merge without conflicts can be committed.
        if !status.staged.is_empty() || self.is_merging && status.unmerged.is_empty() {
            return;
        }
        let (text, hint) = if !status.changed.is_empty() || !status.unmerged.is_empty() {
            ("no changes added to commit", " (use \"git add\" and/or \"git commit -a\")")
        } else if !status.untracked.is_empty() {
            ("nothing added to commit but untracked files present", " (use \"git add\" to track)")
        } else if !has_head {
            ("nothing to commit", " (create/copy files and use \"git add\" to track)")
        } else if !self.shows_untracked {
            ("nothing to commit", " (use -u to show untracked files)")
        } else {
            ("nothing to commit, working tree clean", "")
        };
        self.text += text;
        if self.gives_hints {
            self.text += hint;
        }
        self.text.push('\n');
    }

    fn unstage_hint(&mut self, has_head: bool) {
        if self.is_merging {
            return;
        }
        self.hint(match has_head {
            true => "use \"git restore --staged <file>...\" to unstage",
            false => "use \"git rm --cached <file>...\" to unstage",
        });
    }

    fn hint(&mut self, hint: &str) {
        if self.gives_hints {
            let _ = writeln!(self.text, "  ({hint})");
        }
    }

    fn line(&mut self, color: &'static str, text: &str) {
        let (on, off) = self.color(color);
        let _ = writeln!(self.text, "\t{on}{text}{off}");
    }

    fn color(&self, color: &'static str) -> (&'static str, &'static str) {
        if self.is_colored { (color, RESET) } else { ("", "") }
    }

    /// The output of `git status --short` (git-status, "Short Format").
    fn short(&self, status: &Status) -> String {
        let mut lines = BTreeMap::<&[u8], ShortLine<'_>>::new();
        for difference in &status.staged {
            let letter = kind(difference).as_bytes()[0].to_ascii_uppercase();
            let letter = if letter == b'N' { b'A' } else { letter };
            lines.insert(&difference.path, ([letter, b' '], difference.renamed_from.as_deref()));
        }
        for (path, state) in &status.changed {
            let letter = match state {
                FileState::Modified | FileState::NewCommits => b'M',
                FileState::Deleted => b'D',
                FileState::TypeChanged => b'T',
                FileState::New => b'A',
            };
            lines.entry(path).or_insert(([b' ', b' '], None)).0[1] = letter;
        }
        for (path, sides) in &status.unmerged {
            let letters = match sides {
                [_, false, false] => b"DD",
                [false, true, false] => b"AU",
                [true, true, false] => b"UD",
                [false, false, true] => b"UA",
                [true, false, true] => b"DU",
                [false, true, true] => b"AA",
                [true, true, true] => b"UU",
            };
            lines.insert(path, (*letters, None));
        }
        let mut text = String::new();
        let word = |path: &[u8]| String::from_utf8_lossy(&self.style.show_as_word(path)).into_owned();
        for (path, (letters, from)) in lines {
            let from = from.map(|from| format!("{} -> ", word(from))).unwrap_or_default();
            let [one, two] = letters.map(char::from);
            let _ = writeln!(text, "{one}{two} {from}{}", word(path));
        }
        for path in &status.untracked {
            let _ = writeln!(text, "?? {}", word(path));
        }
        text
    }
}

/// The kind of change of an index path.
fn kind(difference: &Difference) -> &'static str {
    match (&difference.renamed_from, &difference.old, &difference.new) {
        (Some(_), _, _) => "renamed:",
        (None, None, _) => "new file:",
        (None, Some(_), None) => "deleted:",
        _ if difference.is_of_type() => "typechange:",
        _ => "modified:",
    }
}
