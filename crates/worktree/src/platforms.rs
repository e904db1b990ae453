//! The blob platforms of `gix-merge` and `gix-diff`: with the attributes of the work tree, but without
//! filters, because stored content is merged; with `merge.renormalize`, line endings are made alike before.

use gix_attributes::search::MetadataCollection;
use gix_filter::attributes::Search;
use gix_merge::blob::Driver;
use gix_merge::blob::pipeline::Mode;
use gix_worktree::Stack;
use gix_worktree::stack::State;
use gix_worktree::stack::state::Attributes;
use gix_worktree::stack::state::attributes::Source;
use packrace_store::Repository;

use crate::error::WorkError;
use crate::paths::levels;

/// Platforms for rename detection and for content merges with these programs.
pub(crate) fn open(
    repository: &Repository,
    drivers: Vec<Driver>,
) -> Result<(gix_diff::blob::Platform, gix_merge::blob::Platform), WorkError> {
    let config = repository.config();
    let large_file_threshold_bytes = config.big_file_bytes()?;
    let hash = repository.hash_kind();
    let filters = || gix_filter::Pipeline::new(Default::default(), hash, Default::default());
    let for_renames = gix_diff::blob::Platform::new(
        gix_diff::blob::platform::Options::default(),
        gix_diff::blob::Pipeline::new(
            Default::default(),
            filters(),
            Vec::new(),
            gix_diff::blob::pipeline::Options { large_file_threshold_bytes, ..Default::default() },
        ),
        gix_diff::blob::pipeline::Mode::ToGit,
        stack(repository)?,
    );
    let for_content = gix_merge::blob::Platform::new(
        gix_merge::blob::Pipeline::new(
            Default::default(),
            filters(),
            gix_merge::blob::pipeline::Options { large_file_threshold_bytes },
        ),
        if config.boolean("merge.renormalize")? == Some(true) { Mode::Renormalize } else { Mode::ToGit },
        stack(repository)?,
        drivers,
        gix_merge::blob::platform::Options { default_driver: config.string("merge.default").map(Into::into) },
    );
    Ok((for_renames, for_content))
}

fn stack(repository: &Repository) -> Result<Stack, WorkError> {
    let mut names = MetadataCollection::default();
    let mut buffer = Vec::new();
    let files = repository.attribute_files();
    let outside = Search::new_globals(files.outside, &mut buffer, &mut names)
        .map_err(|error| WorkError::io("gitattributes", error))?;
    let attributes = Attributes::new(outside, Some(files.info), Source::WorktreeThenIdMapping, names);
    let case = levels::case(repository.config())?;
    let top = repository.work_tree()?.unwrap_or_default();
    Ok(Stack::new(top, State::AttributesStack(attributes), case, buffer, Vec::new()))
}
