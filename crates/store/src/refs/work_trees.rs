//! Which directory holds a ref (gitglossary, "per-worktree ref"; git-worktree, "REFS").
//!
//! | name | directory | name there |
//! |---|---|---|
//! | `HEAD`, `refs/bisect/x`: a work tree's own | that of this work tree | the same |
//! | `refs/heads/x` | the common one | the same |
//! | `main-worktree/HEAD`, `main-worktree/refs/bisect/x` | the common one | without `main-worktree/` |
//! | `worktrees/<id>/HEAD`, `worktrees/<id>/refs/bisect/x` | `worktrees/<id>` in the common one | without `worktrees/<id>/` |
//!
//! The last two forms exist only for refs that belong to a work tree. Symbolic refs found there lead on from
//! the work tree that asks, as in git.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{RefStore, is_good_name, is_safe_name};

/// Refs below these directories belong to a work tree.
pub(super) const PER_WORKTREE: [&[u8]; 3] = [b"refs/bisect/", b"refs/rewritten/", b"refs/worktree/"];

pub(crate) fn is_per_worktree(name: &[u8]) -> bool {
    !name.starts_with(b"refs/") || PER_WORKTREE.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether the name is that of a ref of a work tree that the name itself tells.
pub fn names_work_tree(name: &[u8]) -> bool {
    told_work_tree(name).is_some()
}

/// The name of a ref in the work tree that it belongs to.
pub fn name_in_work_tree(name: &[u8]) -> &[u8] {
    told_work_tree(name).map_or(name, |(_, rest)| rest)
}

/// The id of the linked work tree that a name tells, or `None` for the main one, and the name there.
fn told_work_tree(name: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (id, rest) = match name.strip_prefix(b"main-worktree/") {
        Some(rest) => (None, rest),
        None => {
            let rest = name.strip_prefix(b"worktrees/")?;
            let end = rest.iter().position(|byte| *byte == b'/')?;
            (Some(&rest[..end]), &rest[end + 1..])
        }
    };
    // Neither `.` nor `..` is in a good name.
    (is_per_worktree(rest) && is_safe_name(rest) && is_good_name(name)).then_some((id, rest))
}

/// The holder of a ref: a directory, and with reftables a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder<'a> {
    /// The repository.
    Common,
    /// This work tree; the same as [`Holder::Common`] if it is the main one.
    Own,
    /// Another linked work tree, by its id.
    Linked(&'a [u8]),
}

/// Where a ref is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) holder: Holder<'a>,
    /// Its name there.
    pub(super) name: &'a [u8],
}

/// The directories of refs.
#[derive(Debug, Clone)]
pub(super) struct RefDirs {
    /// Of this work tree.
    pub(super) git_dir: PathBuf,
    /// Shared by all work trees.
    pub(super) common_dir: PathBuf,
    /// What messages call `common_dir`.
    pub(super) shown: PathBuf,
}

impl RefStore {
    /// Calls the repository's directory so in messages.
    pub(crate) fn show_as(&mut self, shown: PathBuf) {
        self.dirs.shown = shown;
    }
}

impl RefDirs {
    pub(super) fn of(git_dir: PathBuf, common_dir: PathBuf) -> Self {
        RefDirs { git_dir, shown: common_dir.clone(), common_dir }
    }

    /// What messages call a file below `common_dir`.
    pub(super) fn shown(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.common_dir).map_or_else(|_| path.to_owned(), |below| self.shown.join(below))
    }

    pub(super) fn place<'a>(&self, name: &'a [u8]) -> Place<'a> {
        if !is_per_worktree(name) {
            return Place { holder: Holder::Common, name };
        }
        match told_work_tree(name) {
            None => Place { holder: Holder::Own, name },
            Some((None, name)) => Place { holder: Holder::Common, name },
            Some((Some(id), name)) if self.is_own(id) => Place { holder: Holder::Own, name },
            Some((Some(id), name)) => Place { holder: Holder::Linked(id), name },
        }
    }

    /// The name without the work tree that it tells, if that is this one.
    pub(super) fn plain<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        match told_work_tree(name) {
            Some((None, rest)) if self.is_main() => rest,
            Some((Some(id), rest)) if self.is_own(id) => rest,
            _ => name,
        }
    }

    fn is_main(&self) -> bool {
        self.git_dir == self.common_dir
    }

    /// Whether this is the linked work tree of this id.
    fn is_own(&self, id: &[u8]) -> bool {
        let dir = self.dir(Holder::Linked(id));
        let real = |path: &Path| packrace_os::real_path(path).ok();
        // Paths differ if one of them goes through a link.
        !self.is_main()
            && (*dir == *self.git_dir || real(&dir).is_some_and(|dir| Some(dir) == real(&self.git_dir)))
    }

    pub(super) fn dir(&self, holder: Holder<'_>) -> Cow<'_, Path> {
        match holder {
            Holder::Common => Cow::Borrowed(&self.common_dir),
            Holder::Own => Cow::Borrowed(&self.git_dir),
            Holder::Linked(id) => Cow::Owned(self.common_dir.join("worktrees").join(OsStr::from_bytes(id))),
        }
    }

    /// A directory above a ref that exists.
    pub(super) fn top_of(&self, name: &[u8]) -> &Path {
        match self.place(name).holder {
            Holder::Own => &self.git_dir,
            // Git creates refs of work trees that do not exist.
            Holder::Common | Holder::Linked(_) => &self.common_dir,
        }
    }

    /// The path of a ref's own file, if it has one.
    pub(super) fn path_of(&self, name: &[u8]) -> PathBuf {
        let place = self.place(name);
        self.dir(place.holder).join(OsStr::from_bytes(place.name))
    }

    /// The directory of reflogs that a ref's is in.
    pub(super) fn logs_of(&self, name: &[u8]) -> PathBuf {
        self.dir(self.place(name).holder).join("logs")
    }

    /// The path of its reflog.
    pub(super) fn log_of(&self, name: &[u8]) -> PathBuf {
        let place = self.place(name);
        self.dir(place.holder).join("logs").join(OsStr::from_bytes(place.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let common = packrace_testkit::scratch_dir();
        let common = common.path();
        std::fs::create_dir_all(common.join("worktrees/a")).unwrap();
        std::os::unix::fs::symlink(common, common.join("link")).unwrap();
        let dirs = |git_dir: &str| RefDirs::of(common.join(git_dir), common.to_owned());
        let main = dirs("");
        let check = |dirs: &RefDirs, name: &str, path: &str, plain: &str| {
            let name = name.as_bytes();
            assert_eq!(dirs.path_of(name), common.join(path));
            assert_eq!(dirs.plain(name), plain.as_bytes());
            assert_eq!(dirs.log_of(name).strip_prefix(dirs.logs_of(name)).unwrap(), {
                let place = dirs.place(name);
                Path::new(OsStr::from_bytes(place.name))
            });
        };
        let [a, b] = ["worktrees/a/refs/bisect/x", "worktrees/b/refs/bisect/x"];
        check(&main, a, a, a);
        check(&main, "main-worktree/HEAD", "HEAD", "HEAD");
        check(&main, "refs/bisect/x", "refs/bisect/x", "refs/bisect/x");
        for linked in [dirs("worktrees/a"), dirs("link/worktrees/a")] {
            assert_eq!(linked.plain(a.as_bytes()), b"refs/bisect/x");
            assert_eq!(linked.place(a.as_bytes()).holder, Holder::Own);
            assert_eq!(linked.place(b.as_bytes()).holder, Holder::Linked(b"b"));
            check(&linked, b, b, b);
            check(&linked, "refs/heads/x", "refs/heads/x", "refs/heads/x");
            check(&linked, "main-worktree/ORIG_HEAD", "ORIG_HEAD", "main-worktree/ORIG_HEAD");
        }
        check(&dirs("worktrees/a"), a, a, "refs/bisect/x");
        check(&dirs("worktrees/a"), "HEAD", "worktrees/a/HEAD", "HEAD");
    }

    #[test]
    fn names() {
        let check = |name: &str, expect: Option<(Option<&str>, &str)>| {
            let expect = expect.map(|(id, rest)| (id.map(str::as_bytes), rest.as_bytes()));
            assert_eq!(told_work_tree(name.as_bytes()), expect, "{name}");
            assert_eq!(super::super::is_ref_name(name.as_bytes()), expect.is_some(), "{name}");
        };
        check("worktrees/a/HEAD", Some((Some("a"), "HEAD")));
        check("worktrees/a-b.c/refs/worktree/x/y", Some((Some("a-b.c"), "refs/worktree/x/y")));
        check("worktrees/a/ORIG_HEAD", Some((Some("a"), "ORIG_HEAD")));
        check("main-worktree/refs/bisect/x", Some((None, "refs/bisect/x")));
        for name in [
            "worktrees/../HEAD",
            "worktrees/./HEAD",
            "worktrees//HEAD",
            "worktrees/a/../../HEAD",
            "worktrees/a/refs/bisect/../x",
            "worktrees/.a/HEAD",
            "worktrees/a.lock/HEAD",
            "worktrees/a\0/HEAD",
            "worktrees/a/",
            "worktrees/a",
            "worktrees/HEAD",
            "worktrees/a/gitdir",
            "worktrees/a/refs/heads/x",
            "worktrees/a/refs/bisect",
            "worktrees/a/worktrees/b/HEAD",
            "main-worktree/",
            "main-worktree//HEAD",
            "main-worktree/../HEAD",
            "main-worktree/refs/heads/x",
            "main-worktree/worktrees/a/HEAD",
        ] {
            check(name, None);
        }
    }
}
