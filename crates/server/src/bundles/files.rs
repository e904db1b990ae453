//! The files of bundles in a repository, and their names.

use std::fmt;
use std::path::{Path, PathBuf};

use packrace_format::bundle::BundleHeader;
use packrace_object::HashKind;
use packrace_os::count::Role;
use packrace_os::{Mapped, durable, is_absent, list_dir};
use packrace_store::Repository;
use packrace_store::publish::BUNDLE_DIR;

use crate::error::Error;

/// What a bundle begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum BundleExtent {
    /// Everything that its refs reach.
    Full,
    /// What its refs reach and earlier bundles do not hold.
    Increment,
}

/// The greatest token of a bundle.
pub(super) const MAX_TOKEN: u64 = u64::MAX - 1;

/// The name of a bundle, which no other one of the repository ever has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BundleName {
    /// The `creationToken`: about the time in seconds since 1970, and greater for each newer bundle. A full
    /// bundle that others were merged into has the token of the last one.
    pub(crate) token: u64,
    pub(crate) extent: BundleExtent,
}

impl BundleName {
    /// The bundle whose file has this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (token, extent) = name.strip_suffix(".bundle")?.split_once('-')?;
        let extent = match extent {
            "full" => BundleExtent::Full,
            "increment" => BundleExtent::Increment,
            _ => return None,
        };
        let parsed = BundleName { token: token.parse().ok().filter(|token| *token <= MAX_TOKEN)?, extent };
        // One form a name.
        (parsed.to_string() == name).then_some(parsed)
    }

    /// Its name in a list of bundles.
    pub(crate) fn id(self) -> String {
        let extent = match self.extent {
            BundleExtent::Full => "full",
            BundleExtent::Increment => "increment",
        };
        format!("{}-{extent}", self.token)
    }
}

/// The name of its file.
impl fmt::Display for BundleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.bundle", self.id())
    }
}

/// The bundles of a repository.
#[derive(Debug)]
pub(crate) struct BundleFiles {
    dir: PathBuf,
    hash: HashKind,
    /// The full one that counts, then the increments after it; empty if there is no full one.
    pub(crate) current: Vec<BundleName>,
    /// Those that newer ones took the place of.
    superseded: Vec<BundleName>,
}

impl BundleFiles {
    /// Lists them.
    pub(crate) fn list(repository: &Repository) -> Result<Self, Error> {
        let dir = repository.common_dir().join(BUNDLE_DIR);
        let entries = match list_dir(&dir, Role::Pack) {
            Err(error) if is_absent(&error) => Vec::new(),
            listed => listed.map_err(|error| Error::caused(dir.display(), error))?,
        };
        let mut names: Vec<BundleName> =
            entries.iter().filter_map(|entry| BundleName::parse(entry.name.to_str()?)).collect();
        names.sort_unstable();
        let full = names.iter().rfind(|name| name.extent == BundleExtent::Full).copied();
        let is_current = |name: &BundleName| {
            full.is_some_and(|full| match name.extent {
                BundleExtent::Full => *name == full,
                BundleExtent::Increment => name.token > full.token,
            })
        };
        let (current, superseded) = names.into_iter().partition(is_current);
        Ok(BundleFiles { dir, hash: repository.hash_kind(), current, superseded })
    }

    /// Where a bundle is.
    pub(crate) fn path(&self, name: BundleName) -> PathBuf {
        self.dir.join(name.to_string())
    }

    /// The hash of their objects.
    pub(crate) fn hash(&self) -> HashKind {
        self.hash
    }

    /// The headers of the bundles that count.
    pub(super) fn headers(&self) -> Result<Vec<BundleHeader>, Error> {
        self.current.iter().map(|name| header(&self.path(*name), self.hash)).collect()
    }

    /// The length of a bundle.
    pub(super) fn bytes(&self, name: BundleName) -> Result<u64, Error> {
        let path = self.path(name);
        let found = packrace_os::identity(&path, Role::Pack);
        Ok(found.map_err(|error| Error::caused(path.display(), error))?.map_or(0, |file| file.length))
    }

    /// The greatest token of all.
    pub(super) fn last_token(&self) -> Option<u64> {
        self.current.iter().chain(&self.superseded).map(|name| name.token).max()
    }

    /// Whether there are some that newer ones took the place of.
    pub(super) fn has_superseded(&self) -> bool {
        !self.superseded.is_empty()
    }

    /// Removes those that newer ones took the place of.
    pub(super) fn remove_superseded(&mut self) -> Result<(), Error> {
        let superseded = std::mem::take(&mut self.superseded);
        superseded.into_iter().try_for_each(|name| self.remove(name))
    }

    /// Removes all, first the full one, without which none counts.
    pub(super) fn remove_all(&mut self) -> Result<(), Error> {
        self.remove_superseded()?;
        let current = std::mem::take(&mut self.current);
        current.into_iter().try_for_each(|name| self.remove(name))
    }

    /// Removes the folder, unless something is in it.
    pub(super) fn remove_dir(&self) {
        // There may be temporary files, or none of it.
        let _ = durable::remove_empty_dir(&self.dir, Role::Pack);
    }

    fn remove(&self, name: BundleName) -> Result<(), Error> {
        let path = self.path(name);
        let removed = durable::remove_file(&path, Role::Pack);
        removed.map(drop).map_err(|error| Error::caused(path.display(), error))
    }
}

fn header(path: &Path, hash: HashKind) -> Result<BundleHeader, Error> {
    let map = Mapped::open(path, Role::Pack).map_err(|error| Error::caused(path.display(), error))?;
    let parsed = BundleHeader::parse(&map, hash);
    map.check().map_err(packrace_store::Error::from)?;
    Ok(parsed.map_err(|error| Error::caused(path.display(), error))?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packrace_store::OpenOptions;
    use packrace_testkit::{RepoBuilder, Size};

    #[test]
    fn names() {
        for good in ["0-full.bundle", "1700000000-increment.bundle", "18446744073709551614-full.bundle"] {
            assert_eq!(BundleName::parse(good).unwrap().to_string(), good);
        }
        for bad in [
            "",
            "1-full",
            "1.bundle",
            "-full.bundle",
            "1-part.bundle",
            "01-full.bundle",
            "+1-full.bundle",
            "18446744073709551615-full.bundle",
            "1-full.bundle.bundle",
            "../1-full.bundle",
        ] {
            assert_eq!(BundleName::parse(bad), None, "{bad}");
        }
    }

    /// Which of these files count, and which are there after the others were removed.
    fn check(names: &[&str], current: &[&str], left: &[&str]) {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
        let dir = repository.common_dir().join(BUNDLE_DIR);
        std::fs::create_dir(&dir).unwrap();
        names.iter().for_each(|name| std::fs::write(dir.join(name), "").unwrap());
        let mut files = BundleFiles::list(&repository).unwrap();
        let shown = |files: &BundleFiles| files.current.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&files), current);
        files.remove_superseded().unwrap();
        let mut there: Vec<String> = list_dir(&dir, Role::Pack)
            .unwrap()
            .into_iter()
            .map(|entry| entry.name.into_string().unwrap())
            .collect();
        there.sort();
        assert_eq!(there, left);
        files.remove_all().unwrap();
        files.remove_dir();
        assert_eq!(dir.exists(), left.iter().any(|name| BundleName::parse(name).is_none()));
    }

    #[test]
    fn the_latest_full_one_and_what_is_newer() {
        check(&[], &[], &[]);
        check(&["5-increment.bundle"], &[], &[]);
        check(&["5-full.bundle"], &["5-full.bundle"], &["5-full.bundle"]);
        let names = [
            "10-increment.bundle",
            "5-full.bundle",
            "5-increment.bundle",
            "6-increment.bundle",
            "4-full.bundle",
        ];
        let current = ["5-full.bundle", "6-increment.bundle", "10-increment.bundle"];
        check(&names, &current, &["10-increment.bundle", "5-full.bundle", "6-increment.bundle"]);
        check(&["1-full.bundle", "tmp_bundle_abc"], &["1-full.bundle"], &["1-full.bundle", "tmp_bundle_abc"]);
    }
}
