//! `stash show`.

use std::sync::Arc;

use packrace_store::Snapshot;
use packrace_worktree::difference::{Difference, between};
use packrace_worktree::index::Index;
use packrace_worktree::listing::{Listing, list, make_trees};
use packrace_worktree::objects::Objects;
use packrace_worktree::path_attributes::attach_attributes;
use packrace_worktree::paths::{Pathspecs, SpecDefaults};

use super::{Context, complain, entries};
use crate::call::fatal::Fatal;
use crate::call::left_to_git::leave_diff;
use crate::options::StashShowOptions;
use crate::reports::diff_stat;
use crate::reports::long_status::diff_rename_limit;
use crate::reports::patch_text::PatchWriter;
use crate::text::quoting::PathStyle;

pub(super) fn run(context: &Context<'_>, args: &StashShowOptions) -> Result<(), Fatal> {
    let config = context.repository.config();
    let entry = entries::find(context, &args.entries)?;
    let lists_names = args.name_only || args.name_status;
    if args.name_only && args.name_status {
        let names = "'--name-only', '--name-status', '--check', and '-s'";
        return Err(Fatal::new(format!("options {names} cannot be used together")));
    }
    let is_default = !(args.patch || args.stat || args.numstat || args.shortstat || lists_names);
    let configured = |key: &str, default: bool| config.boolean(key).map(|value| value.unwrap_or(default));
    let shows_patch = args.patch && !lists_names || (is_default && configured("stash.showPatch", false)?);
    let shows_stat = args.stat || (is_default && configured("stash.showStat", true)?);
    if is_default && !shows_patch && !shows_stat {
        return Ok(());
    }
    let includes_untracked = match args.include_untracked {
        Some(typed) => typed,
        None => configured("stash.showIncludeUntracked", false)?,
    };
    leave_diff(context.call, config, false)?;
    let snapshot = context.repository.snapshot()?;
    let objects = Objects::new(&snapshot);
    let stash = &entry.stash;
    let empty = objects.hash_kind().empty_tree();
    let trees = match (args.only_untracked, &stash.untracked_tree) {
        (true, untracked) => [empty, untracked.unwrap_or(empty)],
        (false, Some(untracked)) if includes_untracked => {
            let mut files = list(&objects, &stash.tree)?;
            let untracked = list(&objects, untracked)?;
            if let Some(path) = duplicate(&files, &untracked).or_else(|| duplicate(&untracked, &files)) {
                let path = String::from_utf8_lossy(path);
                let line = format!("error: worktree and untracked commit have duplicate entries: {path}");
                complain(context.call, &[line]);
                return Err(Fatal::new("failed to unpack trees"));
            }
            files.extend(untracked);
            let tree = make_trees(&objects, files.iter().map(|(path, item)| (path.as_slice(), *item)))?;
            [stash.base_tree, tree]
        }
        (false, _) => [stash.base_tree, stash.tree],
    };
    let found = between(context.repository, &objects, trees.each_ref(), diff_rename_limit(config)?)?;
    if !lists_names && has_attributes(context, &snapshot, &found)? {
        leave_diff(context.call, config, true)?;
    }
    // Paths are relative to the top, not to the current directory.
    let style = PathStyle::of(config, b"")?;
    let mut text = Vec::new();
    if lists_names {
        text.extend(names(&found, &style, args.name_status));
    } else {
        let stats = diff_stat::count(&objects, &found, &style)?;
        if args.numstat {
            text.extend(diff_stat::numstat(&stats));
        }
        if shows_stat {
            text.extend(diff_stat::stat(&stats));
        }
        if args.shortstat {
            text.extend(diff_stat::shortstat(&stats).bytes());
        }
    }
    if shows_patch {
        if !text.is_empty() {
            text.push(b'\n');
        }
        text.extend(PatchWriter::new(&objects, &snapshot, &style, config)?.write(&found)?);
    }
    context.call.write(&text)
}

/// The first path of `others`, or directory above one, that is a file of `files`, too.
fn duplicate<'a>(files: &Listing, others: &'a Listing) -> Option<&'a [u8]> {
    let ends = |path: &[u8]| {
        (1..=path.len()).filter(|end| path.get(*end).is_none_or(|byte| *byte == b'/')).collect::<Vec<_>>()
    };
    others
        .keys()
        .flat_map(|path| ends(path).into_iter().map(|end| &path[..end]))
        .find(|path| files.contains_key(*path))
}

/// Whether the attribute `diff` says of any of the files how it is compared.
fn has_attributes(
    context: &Context<'_>,
    snapshot: &Arc<Snapshot>,
    found: &[Difference],
) -> Result<bool, Fatal> {
    let plain = [b":(top,attr:!diff)".to_vec()];
    let mut plain = Pathspecs::parse(&plain, b"", b"", SpecDefaults::default()).map_err(Fatal::new)?;
    // It may have attributes that are not in the work tree; what is shown needs none.
    let index =
        Index::read(context.repository).unwrap_or_else(|_| Index::empty(context.repository.hash_kind()));
    attach_attributes(&mut plain, context.repository, snapshot, &context.top, &index)?;
    Ok(found.iter().any(|difference| !plain.is_meant(&difference.path, false)))
}

/// `--name-only` and `--name-status`.
fn names(found: &[Difference], style: &PathStyle, with_status: bool) -> Vec<u8> {
    let mut text = Vec::new();
    for difference in found {
        let status = match (&difference.renamed_from, &difference.old, &difference.new) {
            _ if !with_status => String::new(),
            (Some(_), _, _) => format!("R{:03}\t", difference.similarity),
            (None, None, _) => "A\t".to_owned(),
            (None, Some(_), None) => "D\t".to_owned(),
            _ if difference.is_of_type() => "T\t".to_owned(),
            _ => "M\t".to_owned(),
        };
        text.extend_from_slice(status.as_bytes());
        if let Some(from) = difference.renamed_from.as_ref().filter(|_| with_status) {
            text.extend_from_slice(&[&style.show(from), &b"\t"[..]].concat());
        }
        text.extend_from_slice(&[&style.show(&difference.path), &b"\n"[..]].concat());
    }
    text
}
