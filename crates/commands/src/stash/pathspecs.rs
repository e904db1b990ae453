//! The pathspecs of `stash push`.

use packrace_worktree::index::Index;
use packrace_worktree::paths::{Pathspecs, Spec};

use super::Context;
use crate::call::fatal::Fatal;
use crate::options::StashPushOptions;
use crate::work_tree::pathspec_file::PathspecSource;

/// The pathspecs from arguments or from a file.
pub(super) fn of(context: &Context<'_>, args: &StashPushOptions) -> Result<Pathspecs, Fatal> {
    if args.options.staged && args.pathspec_from_file.as_ref().is_some_and(|file| !file.is_empty()) {
        return Err(Fatal::new("options '--pathspec-from-file' and '--staged' cannot be used together"));
    }
    let source = PathspecSource {
        typed: &args.pathspecs,
        file: args.pathspec_from_file.as_ref(),
        ends_in_nul: args.pathspec_file_nul,
        top: &context.top,
        prefix: &context.prefix,
    };
    source.read(context.call)
}

/// Reports pathspecs that match no index entry, in git's format. As in git, that includes excluding ones if
/// there was nothing to exclude from.
pub(super) fn check(context: &Context<'_>, index: &Index, specs: &mut Pathspecs) -> Result<(), Fatal> {
    for (key, _) in index.entries() {
        specs.meet_entry(key.path(), false);
    }
    if specs.without_entry().next().is_none() {
        return Ok(());
    }
    let has_matches = specs.iter().any(|(_, is_met)| is_met);
    for (spec, is_met) in specs.iter() {
        let is_reported = if spec.is_excluding() { !has_matches } else { !is_met };
        if is_reported {
            let shown = shown(context, spec);
            error_line!(context.call, "error: pathspec '{shown}' did not match any file(s) known to git");
        }
    }
    error_line!(context.call, "Did you forget to 'git add'?");
    Err(Fatal::silent(1))
}

/// A pathspec as git hands it to itself: with the path from the top, and how much of that is the current directory.
fn shown(context: &Context<'_>, spec: &Spec) -> String {
    if context.call.environment.pathspecs.literal {
        return String::from_utf8_lossy(&spec.original).into_owned();
    }
    let (magic, path) = (String::from_utf8_lossy(spec.long_magic()), String::from_utf8_lossy(spec.path()));
    let prefix_bytes = if spec.is_from_top() { 0 } else { prefix_left(&context.prefix, typed_path(spec)) };
    let comma = if magic.is_empty() { "" } else { "," };
    format!(":({magic}{comma}prefix:{prefix_bytes}){path}")
}

/// The path of a pathspec as typed.
fn typed_path(spec: &Spec) -> &[u8] {
    let typed = &spec.original[..];
    match typed.strip_prefix(b":(") {
        Some(long) => long.get(spec.long_magic().len() + 1..).unwrap_or_default(),
        None => &typed[typed.iter().take_while(|byte| b":!^/".contains(byte) && typed[0] == b':').count()..],
    }
}

/// How many bytes of the current directory a path keeps that may lead out of it.
fn prefix_left(prefix: &[u8], path: &[u8]) -> usize {
    if path.starts_with(b"/") {
        return 0;
    }
    let (mut depth, mut lowest) = (0isize, 0isize);
    for name in path.split(|byte| *byte == b'/') {
        depth += match name {
            b"" | b"." => 0,
            b".." => -1,
            _ => 1,
        };
        lowest = lowest.min(depth);
    }
    let ends = prefix.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
    ends.rev().nth(lowest.unsigned_abs()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::prefix_left;

    #[test]
    fn what_is_left_of_the_current_directory() {
        let check = |prefix: &str, path: &str, expect: usize| {
            assert_eq!(prefix_left(prefix.as_bytes(), path.as_bytes()), expect, "{path} in {prefix}");
        };
        check("", "a", 0);
        check("a/b/", "c", 4);
        check("a/b/", "./c/../d", 4);
        check("a/b/", ".", 4);
        check("a/b/", "../c", 2);
        check("a/b/", "../b/c", 2);
        check("a/b/", "c/../../d", 2);
        check("a/b/", "../../c", 0);
        check("a/b/", "/top/a/b/c", 0);
    }
}
