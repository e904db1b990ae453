//! The measured repositories, created once and kept in the scratch directory.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use packrace_testkit::{Git, RefFormat, RepoBuilder, Size};

/// Creates repositories below one directory; existing ones are reused.
pub struct Scratch {
    dir: PathBuf,
    git: Git,
    /// Removes the directory at the end, unless it should stay.
    _temporary: Option<tempfile::TempDir>,
}

impl Scratch {
    /// A permanent scratch directory, or a temporary one.
    pub fn new(dir: Option<&Path>, git: Git) -> std::io::Result<Self> {
        let (dir, temporary) = match dir {
            Some(dir) => {
                std::fs::create_dir_all(dir)?;
                (std::fs::canonicalize(dir)?, None)
            }
            None => {
                let temporary = tempfile::tempdir()?;
                (temporary.path().to_path_buf(), Some(temporary))
            }
        };
        Ok(Scratch { dir, git, _temporary: temporary })
    }

    /// Builds a history of this size.
    pub fn built(&self, size: Size) -> std::io::Result<PathBuf> {
        self.made_once(&format!("built-{size:?}.git"), |path| {
            RepoBuilder::new(size).build_at(path, &self.git);
            Ok(())
        })
    }

    /// A copy in one pack without bitmap, commit-graph and multi-pack-index.
    pub fn plain(&self, repo: &Path) -> std::io::Result<PathBuf> {
        self.copy(repo, "plain", &["-c", "repack.writeBitmaps=false", "repack", "-adq"])
    }

    /// A copy in one pack with a bitmap and without commit-graph.
    pub fn with_bitmap(&self, repo: &Path) -> std::io::Result<PathBuf> {
        self.copy(repo, "bitmap", &["repack", "-adbq"])
    }

    /// The same with one commit more, outside of the pack.
    pub fn with_bitmap_and_more(&self, repo: &Path) -> std::io::Result<PathBuf> {
        let bitmap = self.with_bitmap(repo)?;
        self.made_once(&format!("more-{}", name_of(&bitmap)), |path| {
            self.git
                .run(&self.dir, &["clone", "-q", "--mirror", "--local", &name_of(&bitmap), &name_of(path)]);
            let commit =
                self.git.run(path, &["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "one commit more"]);
            self.git.run(path, &["update-ref", "refs/heads/one-commit-more", commit.trim()]);
            Ok(())
        })
    }

    /// A copy in one pack with a bitmap, whose deltas are searched anew.
    pub fn well_packed(&self, repo: &Path) -> std::io::Result<PathBuf> {
        self.copy(repo, "well-packed", &["repack", "-adbfq", "--window=10", "--depth=50"])
    }

    /// The original is only read: packs are linked or copied, and rewritten files are new.
    fn copy(&self, repo: &Path, kind: &str, repack: &[&str]) -> std::io::Result<PathBuf> {
        let repo = std::fs::canonicalize(repo)?;
        let name = repo.to_string_lossy().replace('/', "_");
        self.made_once(&format!("{kind}{name}"), |path| {
            let text = |path: &Path| path.to_string_lossy().into_owned();
            self.git.run(&self.dir, &["clone", "-q", "--mirror", "--local", &text(&repo), &text(path)]);
            for index in ["objects/info/commit-graph", "objects/pack/multi-pack-index"] {
                remove_if_there(&path.join(index))?;
            }
            for entry in std::fs::read_dir(path.join("objects/pack"))? {
                let file = entry?.path();
                if file.extension().is_some_and(|extension| extension == "bitmap") {
                    remove_if_there(&file)?;
                }
            }
            self.git.run(path, repack);
            Ok(())
        })
    }

    /// A small repository with `count` tags `refs/tags/tag-N`.
    pub fn with_tags(&self, count: usize, format: RefFormat) -> std::io::Result<PathBuf> {
        self.made_once(&format!("tags-{count}-{format:?}.git"), |path| {
            RepoBuilder::new(Size::Tiny).ref_format(format).build_at(path, &self.git);
            let commits = self.git.run(path, &["rev-list", "main"]);
            let commits: Vec<&str> = commits.lines().collect();
            let target = |number: usize| commits[number % commits.len()];
            match format {
                RefFormat::Files => {
                    let mut refs: Vec<(String, &str)> = (0..count)
                        .map(|number| (format!("refs/tags/tag-{number}"), target(number)))
                        .collect();
                    refs.push(("refs/heads/main".to_string(), commits[0]));
                    refs.sort_unstable();
                    write_packed_refs(path, &refs)
                }
                RefFormat::Reftable => {
                    let mut commands = Vec::new();
                    for number in 0..count {
                        writeln!(commands, "create refs/tags/tag-{number} {}", target(number))?;
                    }
                    self.git.run_with_input(path, &["update-ref", "--stdin"], &commands);
                    self.git.run(path, &["pack-refs"]);
                    Ok(())
                }
            }
        })
    }

    /// A small repository whose refs are changed, and their new target commit.
    pub fn for_refs(&self, format: RefFormat, logs: Option<&str>) -> std::io::Result<(PathBuf, String)> {
        let name = format!("refs-{format:?}-{}.git", logs.unwrap_or("default"));
        let repo = self.made_once(&name, |path| {
            RepoBuilder::new(Size::Tiny).ref_format(format).build_at(path, &self.git);
            if let Some(logs) = logs {
                self.git.run(path, &["config", "core.logAllRefUpdates", logs]);
            }
            Ok(())
        })?;
        let target = self.git.run(&repo, &["rev-parse", "HEAD"]).trim().to_string();
        Ok((repo, target))
    }

    /// An empty bare repository.
    pub fn empty(&self) -> std::io::Result<PathBuf> {
        self.made_once("empty.git", |path| self.init(path))
    }

    /// A work tree with `count` files, which `fill` creates, and an empty index.
    pub fn work_tree(
        &self,
        count: usize,
        fill: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> std::io::Result<PathBuf> {
        self.made_once(&format!("work-tree-{count}"), |path| {
            self.git.run(&self.dir, &["init", "-q", &name_of(path)]);
            fill(path)
        })
    }

    /// A repository that contains its work tree under this name; `fill` creates its files.
    pub fn tree_within(
        &self,
        name: &str,
        fill: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> std::io::Result<PathBuf> {
        self.made_once(&format!("{name}.git"), |path| {
            self.init(path)?;
            self.git.run(path, &["config", "core.bare", "false"]);
            self.git.run(path, &["config", "core.worktree", name]);
            let tree = path.join(name);
            std::fs::create_dir(&tree)?;
            fill(&tree)
        })
    }

    /// A bare repository with one pack, which `fill` creates.
    pub fn small_objects(&self, count: usize, fill: impl FnOnce(&Path)) -> std::io::Result<PathBuf> {
        self.made_once(&format!("small-{count}.git"), |path| {
            self.init(path)?;
            fill(path);
            Ok(())
        })
    }

    /// A copy with `count` commits to push.
    pub fn push_source(
        &self,
        repo: &Path,
        count: usize,
        fill: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> std::io::Result<PathBuf> {
        let plain = self.plain(repo)?;
        self.made_once(&format!("push-{count}-{}", name_of(&plain)), |path| {
            self.git
                .run(&self.dir, &["clone", "-q", "--mirror", "--local", &name_of(&plain), &name_of(path)]);
            fill(path)
        })
    }

    /// A copy that accepts pushes from everybody, and syncs to disk.
    pub fn push_target(&self, repo: &Path) -> std::io::Result<PathBuf> {
        let plain = self.plain(repo)?;
        self.made_once(&format!("pushed-{}", name_of(&plain)), |path| {
            self.git
                .run(&self.dir, &["clone", "-q", "--mirror", "--local", &name_of(&plain), &name_of(path)]);
            let settings = [
                ("core.fsync", "committed"),
                ("receive.autogc", "false"),
                ("http.receivepack", "true"),
                ("daemon.receivepack", "true"),
            ];
            for (name, value) in settings {
                self.git.run(path, &["config", name, value]);
            }
            Ok(())
        })
    }

    /// A repository with the refs of another, whose objects `fill` puts into `count` packs.
    pub fn cut(
        &self,
        repo: &Path,
        count: usize,
        fill: impl FnOnce(&Path, &Path) -> std::io::Result<()>,
    ) -> std::io::Result<PathBuf> {
        let plain = self.plain(repo)?;
        self.made_once(&format!("packs-{count}-{}", name_of(&plain)), |path| {
            self.init(path)?;
            fill(path, &plain)
        })
    }

    /// A copy with a multi-pack-index.
    pub fn indexed(&self, repo: &Path) -> std::io::Result<PathBuf> {
        self.made_once(&format!("indexed-{}", name_of(repo)), |path| {
            self.git.run(&self.dir, &["clone", "-q", "--mirror", "--local", &name_of(repo), &name_of(path)]);
            std::fs::copy(repo.join("config"), path.join("config"))?;
            self.git.run(path, &["multi-pack-index", "write"]);
            Ok(())
        })
    }

    fn init(&self, path: &Path) -> std::io::Result<()> {
        self.git.run(&self.dir, &["init", "-q", "--bare", "--template=", &name_of(path)]);
        Ok(())
    }

    /// Creates a repository under a temporary name and renames it when it is complete.
    fn made_once(
        &self,
        name: &str,
        make: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> std::io::Result<PathBuf> {
        let path = self.dir.join(name);
        if !path.exists() {
            eprintln!("preparing {name}");
            let unfinished = self.dir.join(format!("unfinished-{name}"));
            if unfinished.exists() {
                std::fs::remove_dir_all(&unfinished)?;
            }
            make(&unfinished)?;
            std::fs::rename(&unfinished, &path)?;
        }
        Ok(path)
    }
}

/// The name of a repository in the scratch directory.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Replaces all refs by the sorted `refs` (gitformat: the comment of `git pack-refs` says that all are
/// peeled).
fn write_packed_refs(path: &Path, refs: &[(String, &str)]) -> std::io::Result<()> {
    std::fs::remove_dir_all(path.join("refs"))?;
    std::fs::create_dir_all(path.join("refs/heads"))?;
    let mut file = BufWriter::new(std::fs::File::create(path.join("packed-refs"))?);
    writeln!(file, "# pack-refs with: peeled fully-peeled sorted ")?;
    for (name, id) in refs {
        writeln!(file, "{id} {name}")?;
    }
    file.flush()
}

fn remove_if_there(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_made_once_and_whole() {
        let scratch = Scratch::new(None, Git::stock().clone()).unwrap();
        let built = scratch.built(Size::Tiny).unwrap();
        let bitmap = scratch.with_bitmap(&built).unwrap();
        let plain = scratch.plain(&built).unwrap();
        let has_bitmap = |path: &Path| {
            let names = std::fs::read_dir(path.join("objects/pack")).unwrap();
            names
                .filter(|name| name.as_ref().unwrap().path().extension().is_some_and(|e| e == "bitmap"))
                .count()
        };
        assert_eq!((has_bitmap(&bitmap), has_bitmap(&plain)), (1, 0));
        let refs = |path: &Path| Git::stock().run(path, &["for-each-ref"]);
        assert_eq!(refs(&built), refs(&bitmap));
        assert_eq!(scratch.plain(&built).unwrap(), plain);
        for format in [RefFormat::Files, RefFormat::Reftable] {
            let tags = scratch.with_tags(1000, format).unwrap();
            let listing = Git::stock().run(&tags, &["for-each-ref", "refs/tags/tag-*"]);
            assert_eq!(listing.lines().count(), 1000);
        }
    }
}
