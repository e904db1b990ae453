//! What is known of the words of a command line before its options are read.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use super::left_to_git::is_log;

/// Those that stand in for git's own of the same name.
pub const COMMANDS_OF_GIT: [&str; 25] = [
    "upload-pack",
    "receive-pack",
    "add",
    "commit-graph",
    "for-each-ref",
    "index-pack",
    "unpack-objects",
    "init",
    "verify-pack",
    "repack",
    "maintenance",
    "multi-pack-index",
    "pack-objects",
    "hash-object",
    "http-backend",
    "write-tree",
    "commit-tree",
    "update-index",
    "update-ref",
    "symbolic-ref",
    "show-ref",
    "pack-refs",
    "refs",
    "reflog",
    "stash",
];

/// Commands of git that begin without a repository.
const ANYWHERE: [&str; 7] =
    ["upload-pack", "receive-pack", "index-pack", "init", "verify-pack", "hash-object", "http-backend"];

/// Options that have a value in the next argument.
const WITH_VALUE: [&str; 8] = [
    "-C",
    "-c",
    "--config-env",
    "--git-dir",
    "--work-tree",
    "--shallow-file",
    "--attr-source",
    "--namespace",
];

/// The order in which git's usage texts show the long options of a command, where ours groups them in another way. Of an
/// abbreviation with several meanings, git names the last two.
const OPTIONS_IN_ORDER: [(&str, &str); 16] = [
    ("init", "template bare shared quiet separate-git-dir initial-branch object-format ref-format"),
    (
        "pack-objects",
        "quiet progress all-progress all-progress-implied index-version max-pack-size local incremental window \
         window-memory depth reuse-delta reuse-object delta-base-offset threads non-empty revs unpacked all reflog \
         indexed-objects stdin-packs stdout include-tag keep-unreachable pack-loose-unreachable unpack-unreachable cruft \
         cruft-expiration sparse thin path-walk shallow honor-pack-keep keep-pack compression keep-true-parents \
         use-bitmap-index write-bitmap-index write-bitmap-index-quiet filter missing exclude-promisor-objects \
         exclude-promisor-objects-best-effort \
         delta-islands uri-protocol name-hash-version",
    ),
    (
        "repack",
        "cruft cruft-expiration combine-cruft-below-size max-cruft-size name-hash-version path-walk quiet local \
         write-bitmap-index delta-islands unpack-unreachable keep-unreachable window window-memory depth threads \
         max-pack-size filter pack-kept-objects keep-pack geometric write-midx expire-to filter-to",
    ),
    (
        "update-index",
        "ignore-submodules add replace remove unmerged refresh really-refresh cacheinfo chmod assume-unchanged \
         skip-worktree ignore-skip-worktree-entries info-only force-remove stdin index-info unresolve again \
         ignore-missing verbose clear-resolve-undo index-version show-index-version split-index untracked-cache \
         test-untracked-cache force-untracked-cache force-write-index fsmonitor fsmonitor-valid",
    ),
    ("upload-pack", "stateless-rpc http-backend-info-refs advertise-refs strict timeout"),
    ("update-ref", "deref stdin create-reflog batch-updates"),
    ("stash push", STASH_PUSH),
    ("stash save", STASH_PUSH),
    ("stash pop", "quiet index"),
    ("stash apply", "quiet index label-ours label-theirs label-base"),
    ("refs verify", "verbose strict"),
    ("maintenance run", "auto dry-run detach schedule quiet task"),
    ("commit-graph verify", "object-dir shallow progress"),
    (
        "multi-pack-index write",
        "object-dir progress preferred-pack bitmap base incremental write-chain-file stdin-packs refs-snapshot",
    ),
    ("multi-pack-index compact", "object-dir progress base bitmap incremental write-chain-file"),
    (
        "commit-graph write",
        "object-dir reachable stdin-packs stdin-commits append changed-paths split max-commits size-multiple expire-time \
         max-new-filters progress",
    ),
];

/// Options of two of its subcommands, of which one has not all.
const STASH_PUSH: &str = "keep-index staged patch auto-advance unified inter-hunk-context quiet include-untracked all message \
                          pathspec-from-file pathspec-file-nul";

/// Where the command stands, or what is asked in its place: behind the options before it.
pub fn command_position(argv: &[OsString]) -> usize {
    let mut at = 1;
    while let Some(argument) = argv.get(at) {
        if WITH_VALUE.iter().any(|option| argument == option) {
            at += 1;
        } else if argument == "--exec-path" || !argument.as_encoded_bytes().starts_with(b"-") {
            break;
        }
        at += 1;
    }
    at
}

/// Whether a command is not git's, or begins without a repository there.
pub fn begins_anywhere(name: &str) -> bool {
    !COMMANDS_OF_GIT.contains(&name) || ANYWHERE.contains(&name)
}

/// Whether the command needs files, too.
pub fn needs_work_tree(argv: &[OsString]) -> bool {
    argv.get(command_position(argv)).is_some_and(|name| name == "add" || name == "stash")
}

/// Where an option stands among those of `packrace COMMAND`, if that is not its place here.
pub fn place_of_option(command: &str, option: &str) -> Option<usize> {
    let (_, options) =
        OPTIONS_IN_ORDER.iter().find(|(name, _)| command.strip_prefix("packrace ") == Some(name))?;
    options.split(' ').position(|one| one == option)
}

/// For git, `--end-of-options` is another `--`, except where revisions come before paths. Of `update-index`, what follows
/// `--again` or `--unresolve` is paths, too.
pub fn end_options(argv: &mut Vec<OsString>) {
    let at = command_position(argv);
    if argv.get(at).is_some_and(|name| name == "update-index")
        && let Some(last) = argv.iter().take_while(|word| *word != "--").position(takes_the_rest)
        && argv.get(last + 1).is_some_and(|next| next != "--")
    {
        argv.insert(last + 1, "--".into());
    }
    let words = argv.get_mut(at..).unwrap_or_default();
    let is_end = |word: &&mut OsString| *word == "--" || *word == "--end-of-options";
    if !is_log(words)
        && let Some(word) = words.iter_mut().find(is_end)
    {
        *word = "--".into();
    }
}

fn takes_the_rest(word: &OsString) -> bool {
    let word = word.as_bytes();
    let begins =
        |name: &str, shortest: &str| word.len() >= shortest.len() && name.as_bytes().starts_with(word);
    match word {
        [b'-', b'-', ..] => begins("--again", "--ag") || begins("--unresolve", "--unr"),
        [b'-', letters @ ..] => letters.contains(&b'g'),
        _ => false,
    }
}

/// `reflog -3` and `stash list -3` are `-n3`, as in git-log. In `show-ref`, what follows the letter `s` is its value.
pub fn expand_counts(argv: &mut [OsString]) {
    let at = command_position(argv);
    let word = |number: usize| argv.get(at + number).and_then(|word| word.to_str());
    let is_show_ref = word(0) == Some("show-ref");
    if !is_show_ref && !matches!((word(0), word(1)), (Some("reflog"), _) | (Some("stash"), Some("list"))) {
        return;
    }
    for arg in argv.iter_mut().skip(at).take_while(|arg| *arg != "--") {
        let letters = arg.to_str().and_then(|text| text.strip_prefix('-')).unwrap_or_default();
        if !is_show_ref && !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_digit()) {
            *arg = format!("-n{letters}").into();
        } else if let Some((before, value)) = letters.split_once('s').filter(|_| is_show_ref)
            && !(before.starts_with('-') || value.is_empty())
        {
            *arg = format!("-{before}s={value}").into();
        }
    }
}

/// `stash` alone means `stash push`, but then paths stand behind `--`, so that no command that is spelled wrongly is taken for a
/// path. Gives what stands elsewhere, or whether `push` was added. A `--` that is a word of a message gets another before it.
pub fn with_push(argv: &mut Vec<OsString>, is_subcommand: &dyn Fn(&str) -> bool) -> Result<bool, OsString> {
    let at = command_position(argv);
    if argv.get(at).is_none_or(|command| command != "stash") {
        return Ok(false);
    }
    let at = at + 1;
    match argv.get(at) {
        Some(next) if next.to_str().is_some_and(is_subcommand) => {
            let is_end = |word: &OsString| word == "--" || word == "--end-of-options";
            let end = argv[at + 1..].iter().position(is_end).map(|end| at + 1 + end);
            let is_word = |&n: &usize| next == "save" && argv[n] == "--" || next == "create" && n == at + 1;
            end.filter(is_word).into_iter().for_each(|end| argv.insert(end, "--".into()));
            return Ok(false);
        }
        Some(next) if next == "-h" || next == "--help" => return Ok(false),
        _ => {}
    }
    let mut rest = argv[at..].iter();
    while let Some(argument) = rest.next() {
        let text = argument.as_encoded_bytes();
        match text {
            // With -p, paths may follow without it.
            b"--" | b"--patch" => break,
            // Paths need the other mark all the same.
            b"--end-of-options" => match rest.next().filter(|next| *next != "--") {
                Some(next) => return Err(next.clone()),
                None => break,
            },
            b"-" => return Err(argument.clone()),
            b"--message" | b"--pathspec-from-file" => drop(rest.next()),
            [b'-', switches @ ..] if switches.iter().find(|at| b"-mp".contains(at)) == Some(&b'p') => break,
            // A message follows, in this argument or in the next.
            [b'-', switches @ .., b'm'] if !switches.starts_with(b"-") && !switches.contains(&b'm') => {
                rest.next();
            }
            [b'-', ..] => {}
            _ => return Err(argument.clone()),
        }
    }
    argv.insert(at, "push".into());
    Ok(true)
}

/// A command line in which the command stands even if it is the name of the program.
pub fn with_command(mut argv: Vec<OsString>) -> Vec<OsString> {
    if let Some(command) = argv.first().and_then(|name| command_of_name(Path::new(name))) {
        argv[0] = "packrace".into();
        argv.insert(1, command.into());
    }
    argv
}

/// Called by the name of a command: `git-upload-pack` is what ssh and `git clone --upload-pack` run.
fn command_of_name(name: &Path) -> Option<&'static str> {
    let name = name.file_name()?.to_str()?;
    let name = name.strip_prefix("git-").or_else(|| name.strip_prefix("packrace-"))?;
    COMMANDS_OF_GIT.into_iter().find(|command| *command == name)
}

/// `--http` and its like may stand without an address. One has a colon, or is a port; anything else that follows is the next
/// argument.
pub fn add_default_addresses(argv: &mut [OsString], defaults: &[(&str, &str)]) {
    for at in 1..argv.len() {
        if argv[at] == "--" {
            return;
        }
        let Some((_, default)) = defaults.iter().find(|(option, _)| argv[at] == *option) else { continue };
        let is_address = |next: &str| next.contains(':') || next.parse::<u16>().is_ok();
        if !argv.get(at + 1).is_some_and(|next| is_address(&next.to_string_lossy())) {
            argv[at].push("=");
            argv[at].push(default);
        }
    }
}

/// Makes one argument of `--cacheinfo <mode> <object> <path>`. A NUL tells it from a value that was typed behind `=`.
pub fn join_cache_info(argv: &mut Vec<OsString>) {
    if !argv.iter().any(|arg| arg == "update-index") {
        return;
    }
    let mut at = 1;
    while at < argv.len() && argv[at] != "--" {
        // `--c` begins other options, too.
        if argv[at].len() > "--c".len() && b"--cacheinfo".starts_with(argv[at].as_bytes()) {
            let mut value = b"--cacheinfo=\0".to_vec();
            let is_joined = argv.get(at + 1).is_some_and(|next| is_joined(next.as_bytes()));
            let parts = if is_joined { 1 } else { 3.min(argv.len() - at - 1) };
            value.extend(argv[at + 1..=at + parts].join(OsStr::from_bytes(b"\0")).as_bytes());
            argv.splice(at..=at + parts, [OsString::from_vec(value)]);
        }
        at += 1;
    }
}

/// Whether this begins as `<mode>,<object>,`.
fn is_joined(text: &[u8]) -> bool {
    let mut parts = text.splitn(3, |byte| *byte == b',');
    let is_mode =
        parts.next().is_some_and(|mode| !mode.is_empty() && mode.iter().all(|d| matches!(d, b'0'..=b'7')));
    let is_object =
        parts.next().is_some_and(|id| matches!(id.len(), 40 | 64) && id.iter().all(u8::is_ascii_hexdigit));
    is_mode && is_object && parts.next().is_some()
}
