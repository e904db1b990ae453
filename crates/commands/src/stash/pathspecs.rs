//! The pathspecs of `stash push`.

use packrace_worktree::index::Index;
use packrace_worktree::paths::Pathspecs;

use super::Context;
use crate::call::fatal::Fatal;
use crate::options::StashPushOptions;
use crate::work_tree::pathspec_file::PathspecSource;

/// The pathspecs from arguments or from a file.
pub(super) fn of(context: &Context<'_>, args: &StashPushOptions) -> Result<Pathspecs, Fatal> {
    let source = PathspecSource {
        typed: &args.pathspecs,
        file: args.pathspec_from_file.as_ref(),
        ends_in_nul: args.pathspec_file_nul,
        prefix: &context.prefix,
    };
    parse(context, &source.read(context.call)?)
}

/// Parses pathspecs as typed.
pub(super) fn parse(context: &Context<'_>, elements: &[Vec<u8>]) -> Result<Pathspecs, Fatal> {
    let top = context.top.as_os_str().as_encoded_bytes();
    Pathspecs::parse(elements, &context.prefix, top, context.call.environment.pathspecs).map_err(Fatal::new)
}

/// Reports pathspecs that match no index entry, in git's format.
pub(super) fn check(context: &Context<'_>, index: &Index, specs: &mut Pathspecs) -> Result<(), Fatal> {
    for (key, _) in index.entries() {
        specs.meet_entry(key.path(), false);
    }
    let mut is_missing = false;
    for spec in specs.without_entry() {
        let magic = String::from_utf8_lossy(spec.long_magic());
        let prefix_bytes = if spec.is_from_top() { 0 } else { context.prefix.len() };
        let comma = if magic.is_empty() { "" } else { "," };
        let shown = format!(":({magic}{comma}prefix:{prefix_bytes}){}", String::from_utf8_lossy(spec.path()));
        error_line!(context.call, "error: pathspec '{shown}' did not match any file(s) known to git");
        is_missing = true;
    }
    match is_missing {
        false => Ok(()),
        true => {
            error_line!(context.call, "Did you forget to 'git add'?");
            Err(Fatal::silent(1))
        }
    }
}
