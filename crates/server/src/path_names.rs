//! Replaces paths in errors for clients: errors name files by absolute paths, for the log; a client that is
//! not on this machine sees its own name for the repository.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use packrace_store::Repository;

/// The path of a repository below a folder, from its directory without links: `.git` of a work tree is left
/// out. `None` if the repository is elsewhere.
pub(crate) fn path_below(folder: &Path, real: &Path) -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = real.strip_prefix(folder).ok()?.as_os_str().as_bytes();
    let path = path.strip_suffix(b"/.git").unwrap_or(path);
    Some(if path == b".git" { Vec::new() } else { path.to_vec() })
}

/// Marks a directory while a text is rewritten. Error texts do not contain it.
const MARK: char = '\u{1}';

/// The names of directories in texts for clients. The default leaves texts unchanged, like git.
#[derive(Debug, Clone, Default)]
pub struct PathNames {
    /// The repository, and the client's name for it. Its directories are looked up only for an error.
    called: Option<(Arc<Repository>, String)>,
}

impl PathNames {
    /// For a client that requested a repository by this name.
    pub fn of(repository: &Arc<Repository>, requested: &[u8]) -> Self {
        let requested = String::from_utf8_lossy(requested).trim_end_matches('/').to_owned();
        PathNames { called: Some((repository.clone(), requested)) }
    }

    /// Whether clients see other names than this machine's.
    pub(crate) fn are_others(&self) -> bool {
        self.called.is_some()
    }

    /// A text without directories of this machine. Of other paths, only the last part is kept.
    pub fn for_client<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.called {
            Some((repository, requested)) => masked(text, &directories(repository, requested)).into(),
            None => Cow::Borrowed(text),
        }
    }
}

/// The directories of a repository, inner ones first, and the name of each.
fn directories(repository: &Repository, requested: &str) -> Vec<(String, String)> {
    let mut names = Vec::new();
    let mut add = |dir: &Path, name: &str| {
        let real = packrace_os::real_path(dir).ok();
        for dir in [Some(dir), real.as_deref()].into_iter().flatten() {
            names.push((dir.to_string_lossy().into_owned(), name.to_owned()));
        }
    };
    add(repository.git_dir(), requested);
    add(repository.common_dir(), requested);
    if let Ok(Some(work_tree)) = repository.work_tree() {
        add(&work_tree, requested);
    }
    for dir in repository.borrowed_object_dirs() {
        add(&dir, "(alternate)");
    }
    // The object directory may be elsewhere.
    if !repository.object_dir().starts_with(repository.common_dir()) {
        add(repository.object_dir(), &format!("{requested}/objects"));
    }
    names.sort_by_key(|(dir, _)| std::cmp::Reverse(dir.len()));
    names.retain(|(dir, _)| dir.len() > 1);
    names.dedup();
    names
}

/// The text with each of these directories replaced by its name.
fn masked(text: &str, names: &[(String, String)]) -> String {
    let mut text = text.replace(MARK, "?");
    for (at, (dir, _)) in names.iter().enumerate() {
        text = text.replace(dir.as_str(), &format!("{MARK}{at}{MARK}"));
    }
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.as_str();
    while let Some(letter) = rest.chars().next() {
        let begins = !before.is_alphanumeric() && !matches!(before, '/' | ':' | '.' | '-' | '_' | MARK);
        if letter == '/' && begins {
            let end = rest.find(|letter: char| letter.is_whitespace() || "'\"():,".contains(letter));
            let (path, after) = rest.split_at(end.unwrap_or(rest.len()));
            out.push_str(path.trim_end_matches('/').rsplit('/').next().unwrap_or_default());
            (before, rest) = ('/', after);
            continue;
        }
        out.push(letter);
        (before, rest) = (letter, &rest[letter.len_utf8()..]);
    }
    for (at, (_, name)) in names.iter().enumerate() {
        out = out.replace(&format!("{MARK}{at}{MARK}"), name);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_see_no_directories_of_this_machine() {
        let names = [("/srv/git/a.git", "/a.git"), ("/srv/pool/objects", "(alternate)")];
        let names = names.map(|(dir, name)| (dir.to_owned(), name.to_owned())).to_vec();
        let check = |text: &str, expect: &str| {
            assert_eq!(masked(text, &names), expect);
            assert_eq!(PathNames::default().for_client(text), text);
        };
        check("unable to open /srv/git/a.git/objects/pack: gone", "unable to open /a.git/objects/pack: gone");
        check("'/srv/git/a.git'", "'/a.git'");
        check("/srv/pool/objects/12/34: bad", "(alternate)/12/34: bad");
        check("cannot run /etc/hooks/update: no", "cannot run update: no");
        check("in \"/var/tmp/x y\" (/root)", "in \"x y\" (root)");
        // Ref names and addresses are no paths.
        check("refs/heads/a/b: http://x/y, a/../b", "refs/heads/a/b: http://x/y, a/../b");
        check("\u{1}0\u{1}", "?0?");
        check("/", "");
    }
}
