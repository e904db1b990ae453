//! Calls that git does, if there is one: clones that packrace cannot make, commits that are to be signed, and lists and
//! differences whose form packrace does not follow.

use std::ffi::OsString;

use packrace_store::Config;

use super::Call;
use super::fatal::Fatal;

/// Settings for `git log` and the like.
const OF_LOGS: [&str; 3] = ["log.decorate", "log.showSignature", "log.abbrevCommit"];

/// Keys of `diff.` that packrace follows, and those of other commands.
const KNOWN_OF_DIFF: [&str; 9] = [
    "renames",
    "renamelimit",
    "autorefreshindex",
    "external",
    "guitool",
    "mnemonicprefix",
    "tool",
    "trustexitcode",
    "wserrorhighlight",
];

/// Whether git may have an option of this command line that packrace does not know.
pub fn has_more_options(words: &[OsString]) -> bool {
    is_log(words) || is_signed_commit(words) || words.first().is_some_and(|command| command == "clone")
}

/// Whether a command takes options of `git log` or `git diff`, of which git has more: `reflog show`, `stash list`, `stash show`.
pub(super) fn is_log(words: &[OsString]) -> bool {
    let word = |at: usize| words.get(at).and_then(|word| word.to_str()).unwrap_or_default();
    match (word(0), word(1)) {
        ("stash", command) => matches!(command, "list" | "show"),
        ("reflog", command) => !matches!(command, "list" | "exists" | "write" | "delete" | "drop" | "expire"),
        _ => false,
    }
}

/// Whether a commit is to be signed, which git does: only asked of options that packrace does not know.
fn is_signed_commit(words: &[OsString]) -> bool {
    let is_signing = |word: &OsString| {
        let word = word.as_encoded_bytes();
        word.starts_with(b"-S") || word.starts_with(b"--gpg")
    };
    words.first().is_some_and(|command| command == "commit-tree") && words.iter().any(is_signing)
}

/// Whether paths limit such a command, which stand behind `--`. For `stash show`, this alone is an option of `git diff`.
pub fn has_paths(words: &[OsString]) -> bool {
    let is_show = words.iter().take(2).eq(["stash", "show"]);
    words.iter().rev().skip(usize::from(!is_show)).any(|word| word == "--") && is_log(words)
}

/// Leaves a list of commits to git, if its environment or configuration say more of its form than packrace knows.
pub(crate) fn leave_log(call: &Call, config: &Config) -> Result<(), Fatal> {
    let is_formed = OF_LOGS.iter().any(|key| config.string(key).is_some());
    if is_formed || is_for_people(call, config) { leave(call) } else { Ok(()) }
}

/// The same for a difference; `has_attributes` is whether attributes say how its files are compared.
pub(crate) fn leave_diff(call: &Call, config: &Config, has_attributes: bool) -> Result<(), Fatal> {
    let is_unknown = |name: &[u8]| !KNOWN_OF_DIFF.iter().any(|known| name == known.as_bytes());
    let mut keys = config.section("diff").filter_map(|(name, _)| name.strip_prefix(b"diff."));
    // With a dot, it belongs to a driver, which attributes name.
    let is_formed = keys.any(|key| !key.contains(&b'.') && is_unknown(key));
    let is_formed = is_formed || has_attributes || call.environment.forms_diffs;
    if is_formed || is_for_people(call, config) { leave(call) } else { Ok(()) }
}

/// Whether a pager or colours are wanted.
fn is_for_people(call: &Call, config: &Config) -> bool {
    let has_color = |key: &str| config.string(key).is_some_and(|value| value == b"always");
    let has_color = ["color.ui", "color.diff"].into_iter().any(has_color);
    has_color || call.environment.is_paged || call.streams.output().is_terminal()
}

fn leave(call: &Call) -> Result<(), Fatal> {
    if (call.git)().is_some() { Err(Fatal::silent(128).unless_git()) } else { Ok(()) }
}
