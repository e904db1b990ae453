//! Git's longer messages and hints, which `advice.*` disables (git-config).

use packrace_store::Config;

use super::Fatal;
use crate::call::Call;

/// Reports that no pathspec was given.
pub fn nothing_specified(call: &Call, config: &Config) -> Result<(), Fatal> {
    error_line!(call, "Nothing specified, nothing added.");
    call.hint(config, "addEmptyPathspec", "Maybe you wanted to say 'git add .'?")
}

/// Reports named paths that are ignored.
pub fn ignored(call: &Call, paths: &[Vec<u8>], config: &Config) -> Result<(), Fatal> {
    error_line!(call, "The following paths are ignored by one of your .gitignore files:");
    for path in paths {
        error_line!(call, "{}", String::from_utf8_lossy(path));
    }
    call.hint(config, "addIgnoredFile", "Use -f if you really want to add them.")
}

/// Reports paths outside the sparse checkout.
pub fn outside_of_sparse(call: &Call, paths: &[Vec<u8>], config: &Config) -> Result<(), Fatal> {
    error_line!(call, "The following paths and/or pathspecs matched paths that exist");
    error_line!(call, "outside of your sparse-checkout definition, so will not be");
    error_line!(call, "updated in the index:");
    for path in paths {
        error_line!(call, "{}", String::from_utf8_lossy(path));
    }
    let text = "If you intend to update such entries, try one of the following:\n\
                * Use the --sparse option.\n\
                * Disable or modify the sparsity rules.";
    call.hint(config, "updateSparsePath", text)
}

/// Reports a submodule that is never staged.
pub fn ignored_submodule(call: &Call, path: &[u8], config: &Config) -> Result<(), Fatal> {
    let path = String::from_utf8_lossy(path);
    let text = format!(
        "Skipping submodule due to ignore=all: {path}\n\
         Use --force if you really want to add the submodule."
    );
    call.hint(config, "addIgnoredFile", &text)
}

/// Warns about an embedded repository; the hint comes only with the first.
pub fn embedded(call: &Call, path: &[u8], is_first: bool, config: &Config) -> Result<(), Fatal> {
    let path = String::from_utf8_lossy(path);
    error_line!(call, "warning: adding embedded git repository: {path}");
    if !is_first {
        return Ok(());
    }
    let text = format!(
        "You've added another git repository inside your current repository.\n\
         Clones of the outer repository will not contain the contents of\n\
         the embedded repository and will not know how to obtain it.\n\
         If you meant to add a submodule, use:\n\
         \n\
         \tgit submodule add <url> {path}\n\
         \n\
         If you added this path by mistake, you can remove it from the\n\
         index with:\n\
         \n\
         \tgit rm --cached {path}\n\
         \n\
         See \"git help submodule\" for more information."
    );
    call.hint(config, "addEmbeddedRepo", &text)
}
