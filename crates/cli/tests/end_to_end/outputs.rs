//! Standard output and standard error that are full, or whose readers have left.

use crate::running::PACKRACE;
use crate::stash::{Twins, Who};

/// Lines of shell that write to standard output or standard error.
const LINES: [&str; 18] = [
    "symbolic-ref HEAD",
    "symbolic-ref refs/heads/main",
    "init new",
    "init -b other",
    "reflog show",
    "reflog expire --verbose --dry-run --expire=now HEAD",
    "show-ref",
    "show-ref --verify nowhere",
    "for-each-ref",
    "for-each-ref --format='%(nothing)'",
    "hash-object a",
    "write-tree",
    "commit-tree HEAD^{tree} -m x",
    "stash show",
    "stash show 9",
    "repack -d",
    "add --verbose --dry-run n",
    "add nowhere",
];

fn twins() -> Twins {
    let twins = Twins::new();
    twins.both("echo changed >> a; git stash push -q; git repack -adq; echo n > n");
    twins
}

/// Runs each line in place of `@` in `how`, which redirects its outputs, and compares the exit codes.
fn check(how: &str) {
    let (twins, mut wrong) = (twins(), Vec::new());
    for line in LINES {
        let run = |who, program: &str| twins.says(who, &how.replace('@', &format!("{program} {line}")));
        let (ours, theirs) = (run(Who::Packrace, PACKRACE), run(Who::Git, "git"));
        let code = |said: &str| said.lines().last().map(str::to_owned);
        assert!(!ours.contains("panicked"), "{line}: {ours}");
        if code(&ours) != code(&theirs) {
            wrong.push(format!("{line}: {ours}git: {theirs}"));
        }
    }
    assert!(wrong.is_empty(), "git has the right:\n{}", wrong.join("\n"));
}

#[test]
fn standard_output_is_full() {
    check("@ 2>&1 >/dev/full; echo $?");
}

#[test]
fn standard_error_is_full() {
    check("@ 2>/dev/full >/dev/null; echo $?");
}

#[test]
fn the_reader_of_standard_output_has_gone() {
    // The pipe has a reader when it is opened, which closes it before anything is written.
    check(
        "mkfifo pipe; exec 3<>pipe 4>pipe 3<&-; @ 2>err >&4; echo $? >code; cat err code; rm pipe err code",
    );
}

#[test]
fn names_come_out_byte_by_byte() {
    let twins = Twins::new();
    twins.both("git update-ref \"$(printf 'refs/heads/caf\\351')\" HEAD; git symbolic-ref HEAD \"$(printf 'refs/heads/caf\\351')\"");
    for line in ["symbolic-ref HEAD", "symbolic-ref --short HEAD", "for-each-ref", "show-ref --head"] {
        let dump = |who, program| twins.says(who, &format!("{program} {line} | od -c"));
        assert_eq!(dump(Who::Packrace, PACKRACE), dump(Who::Git, "git"), "{line}");
    }
}
