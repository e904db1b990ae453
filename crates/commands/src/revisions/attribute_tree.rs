//! The tree of attribute files, by any name that is one for git (gitrevisions).

use packrace_store::Repository;

use super::Revisions;
use crate::call::Call;
use crate::call::fatal::Fatal;

/// The repository, which knows the tree that `attr.tree` or `GIT_ATTR_SOURCE` names. A name that leads nowhere names none.
pub fn with_attribute_tree(call: &Call, mut repository: Repository) -> Result<Repository, Fatal> {
    if let Some(name) = repository.unknown_attribute_tree()
        && let Ok(Some(id)) = Revisions::new(call, &repository, &repository.snapshot()?).resolve(&name)
    {
        repository.set_attribute_tree(id);
    }
    Ok(repository)
}
