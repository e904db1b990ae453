//! Decides whether a repository of another owner may be trusted (git-config, "safe.directory").

use std::path::Path;

use super::OpenOptions;
use super::discovery::{FoundGitDir, join};
use crate::config::Config;
use crate::error::{Error, Reason};
use crate::file_dependencies::FileDependencies;
use crate::shell_words::shell_word;

/// The superuser.
const ROOT: u32 = 0;

/// Checks that the repository belongs to `user`, or that protected configuration lists it in `safe.directory`: by its work
/// tree, if that was searched for, else by its git directory. Adds its dependencies to `seen`.
pub(super) fn check(
    found: &FoundGitDir,
    user: u32,
    config: &Config,
    options: &OpenOptions,
    seen: &mut FileDependencies,
) -> Result<(), Error> {
    let home = options.config.home.as_deref();
    // After sudo, root also counts as the user who called it (git-config, "safe.directory").
    let before_sudo = options.sudo_user.filter(|_| user == ROOT);
    let work_tree = options.search.as_ref().and_then(|search| search.work_tree.as_ref());
    let is_ours = |path: &Path| {
        packrace_os::owner(path)
            .map(|owner| !options.assume_other_owner && (owner == user || Some(owner) == before_sudo))
            .map_err(|error| Error::io(path, error))
    };
    let mut is_owned = true;
    for path in found.gitfile.iter().chain(work_tree).chain([&found.git_dir]) {
        seen.owner(path);
        is_owned = is_owned && is_ours(path)?;
    }
    if is_owned {
        return Ok(());
    }
    let named = work_tree.unwrap_or(&found.git_dir);
    let real = packrace_os::real_path(named).map_err(|error| Error::io(named, error))?;
    let here = options.search.as_ref().map_or(Path::new("."), |search| &search.start);
    let mut is_safe = false;
    for value in config.protected_strings("safe.directory") {
        // An empty value resets the list.
        is_safe = !value.is_empty() && (is_safe || covers(&value, &real, here, home, seen));
    }
    if is_safe {
        return Ok(());
    }
    // The path as given, as in git.
    let (path, word) = (named.display(), shell_word(&named.to_string_lossy()));
    Err(Reason::OtherOwner(format!(
        "detected dubious ownership in repository at '{path}'\n\
         To add an exception for this directory, call:\n\n\
         \tgit config --global --add safe.directory {word}"
    ))
    .into())
}

/// Whether one value of `safe.directory` covers `path`; `here` is the current directory.
fn covers(value: &[u8], path: &Path, here: &Path, home: Option<&Path>, seen: &mut FileDependencies) -> bool {
    if value == b"*" {
        return true;
    }
    let named = match (value.strip_prefix(b"~/"), home) {
        (Some(rest), Some(home)) => join(home, rest),
        _ => join(Path::new(""), value),
    };
    if value == b"." {
        seen.real(here);
        return packrace_os::real_path(here).is_ok_and(|here| here == path);
    }
    if !named.is_absolute() {
        tracing::warn!("safe.directory '{}' not absolute", String::from_utf8_lossy(value));
        return false;
    }
    if value.ends_with(b"/*") {
        let Some(parent) = named.parent() else { return false };
        let is_below = |parent: &Path| path.starts_with(parent) && path != parent;
        seen.real(parent);
        return is_below(parent) || packrace_os::real_path(parent).is_ok_and(|parent| is_below(&parent));
    }
    seen.real(&named);
    path == named || packrace_os::real_path(&named).is_ok_and(|named| path == named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfigSources;
    use crate::repository::including;

    /// Whether another owner's repository may be opened with these values of `safe.directory`.
    fn check_values(git_dir: &Path, values: &[&str], local: &str, expect: bool) {
        let override_of = |value: &&str| ("safe.directory".to_owned(), Some(value.to_string()));
        let overrides = values.iter().map(override_of).collect();
        let mut config = Config::outside(&ConfigSources { overrides, ..ConfigSources::default() }).unwrap();
        std::fs::write(git_dir.join("config"), local).unwrap();
        config.add_local(git_dir, including(git_dir)).unwrap();
        let found = FoundGitDir { git_dir: git_dir.to_owned(), gitfile: None };
        let stranger = packrace_os::process::effective_user() + 1;
        let home = git_dir.parent().map(Path::to_owned);
        let options = OpenOptions {
            config: ConfigSources { home, ..ConfigSources::default() },
            ..OpenOptions::default()
        };
        let result = check(&found, stranger, &config, &options, &mut FileDependencies::default());
        assert_eq!(result.is_ok(), expect, "{values:?}");
        if let Err(error) = result {
            let text = error.to_string();
            let words = format!("detected dubious ownership in repository at '{}'\n", git_dir.display());
            assert!(text.starts_with(&words), "{text}");
        }
    }

    #[test]
    fn safe_directories() {
        let dir = packrace_testkit::scratch_dir();
        let parent = packrace_os::real_path(dir.path()).unwrap();
        let git_dir = parent.join("r.git");
        std::fs::create_dir(&git_dir).unwrap();
        let (own, above) = (git_dir.to_str().unwrap(), parent.to_str().unwrap());
        let check = |values: &[&str], expect| check_values(&git_dir, values, "", expect);
        check(&[], false);
        check(&["*"], true);
        check(&["*", ""], false);
        check(&["", "*"], true);
        check(&[own], true);
        check(&[&format!("{own}/")], true);
        check(&[&format!("{above}/./r.git")], true);
        check(&[&format!("{above}/*")], true);
        check(&["/*"], true);
        check(&[&format!("{own}/*")], false);
        check(&[above], false);
        check(&[&format!("{above}/other")], false);
        check(&["r.git"], false);
        check(&["."], false);
        check(&["~/r.git"], true);
        check(&["~/*"], true);
        // A repository cannot vouch for itself.
        check_values(&git_dir, &[], "[safe]\n directory = *\n", false);
    }

    #[test]
    fn ours_and_the_gitfile_of_a_stranger() {
        let dir = packrace_testkit::scratch_dir();
        let config = Config::outside(&ConfigSources::default()).unwrap();
        let gitfile = dir.path().join(".git");
        std::fs::write(&gitfile, "gitdir: elsewhere").unwrap();
        let user = packrace_os::process::effective_user();
        let options = OpenOptions::default();
        let check = |found: &FoundGitDir, user| {
            check(found, user, &config, &options, &mut FileDependencies::default())
        };
        let found = |gitfile: Option<&Path>| FoundGitDir {
            git_dir: dir.path().to_owned(),
            gitfile: gitfile.map(Path::to_owned),
        };
        assert!(check(&found(Some(&gitfile)), user).is_ok());
        assert!(check(&found(None), user + 1).is_err());
        let with = |options: &OpenOptions, user| {
            super::check(&found(None), user, &config, options, &mut FileDependencies::default()).is_ok()
        };
        assert!(!with(&OpenOptions { assume_other_owner: true, ..OpenOptions::default() }, user));
        // Only root also counts as the user who called sudo.
        let sudo = OpenOptions { sudo_user: Some(user), ..OpenOptions::default() };
        assert!(with(&sudo, ROOT) && !with(&sudo, user + 1));
        // `/` belongs to another user unless we are root; then there is no other user's file to test.
        if user != 0 {
            assert!(check(&found(Some(Path::new("/"))), user).is_err());
        }
    }
}
