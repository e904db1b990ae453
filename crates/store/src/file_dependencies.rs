//! The files that a result was read from, and whether they are unchanged: one system call per file
//! (docs/decisions/0025-repository-cache.md).

use std::path::{Path, PathBuf};

use packrace_os::count::Role;
use packrace_os::{FileIdentity, clock};

/// The files that determine a result. Collecting them makes no system call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FileDependencies {
    all: Vec<Dependency>,
    /// A file was read whose path is unknown.
    has_unknown: bool,
}

/// A path, and the property of it that matters.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Dependency {
    /// The content of a file or the names in a directory, or its absence.
    File(PathBuf),
    /// The identity of a directory, or its absence. Its content does not matter.
    Place(PathBuf),
    /// The target of its links.
    Real(PathBuf),
    /// Its owner; links are not followed.
    Owner(PathBuf),
}

/// The state of a dependency at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Observed {
    File(Option<FileIdentity>),
    Place(Option<FileIdentity>),
    Real(PathBuf),
    Owner(u32),
    Nothing,
}

impl FileDependencies {
    /// Depends on the content of a file or the names in a directory, which need not exist.
    pub(crate) fn file(&mut self, path: &Path) {
        self.all.push(Dependency::File(path.to_owned()));
    }

    /// As above, for a path that may be unknown.
    pub(crate) fn file_if_known(&mut self, path: Option<&Path>) {
        match path {
            Some(path) => self.file(path),
            None => self.has_unknown = true,
        }
    }

    /// Depends on the identity of a directory, not on its content.
    pub(crate) fn place(&mut self, path: &Path) {
        self.all.push(Dependency::Place(path.to_owned()));
    }

    /// Depends on the target of a path's links.
    pub(crate) fn real(&mut self, path: &Path) {
        self.all.push(Dependency::Real(path.to_owned()));
    }

    /// Depends on the owner of a path.
    pub(crate) fn owner(&mut self, path: &Path) {
        self.all.push(Dependency::Owner(path.to_owned()));
    }

    /// Records the current state of all dependencies.
    pub(crate) fn stamp(self) -> DependencyStamp {
        let now = clock::time_of_day();
        let mut is_settled = !self.has_unknown;
        let observed = self.all.iter().map(|dependency| {
            let observed = dependency.now();
            match &observed {
                Ok(Observed::File(Some(file))) => is_settled &= file.is_settled(now),
                Ok(_) => {}
                Err(_) => is_settled = false,
            }
            observed.unwrap_or(Observed::Nothing)
        });
        let observed = observed.collect();
        DependencyStamp { dependencies: self, observed, is_settled }
    }
}

/// The state of all dependencies at one moment.
#[derive(Debug)]
pub(crate) struct DependencyStamp {
    dependencies: FileDependencies,
    observed: Vec<Observed>,
    /// Whether every later change is visible.
    is_settled: bool,
}

impl DependencyStamp {
    /// Whether the stamp is for these dependencies.
    pub(crate) fn is_of(&self, dependencies: &FileDependencies) -> bool {
        self.dependencies == *dependencies
    }

    /// Whether anything read after the stamp was made would read the same now. False when in doubt.
    pub(crate) fn holds(&self) -> bool {
        self.is_settled
            && self.dependencies.all.iter().zip(&self.observed).all(|(dependency, observed)| {
                dependency.now().is_ok_and(|now| match (&now, observed) {
                    (Observed::Place(Some(now)), Observed::Place(Some(then))) => now.is_same_place(then),
                    (now, then) => now == then,
                })
            })
    }
}

impl Dependency {
    fn now(&self) -> std::io::Result<Observed> {
        match self {
            Dependency::File(path) => packrace_os::identity(path, Role::Config).map(Observed::File),
            Dependency::Place(path) => packrace_os::identity(path, Role::Config).map(Observed::Place),
            Dependency::Real(path) => {
                Ok(packrace_os::real_path(path).map_or(Observed::Nothing, Observed::Real))
            }
            Dependency::Owner(path) => {
                Ok(packrace_os::owner(path).map_or(Observed::Nothing, Observed::Owner))
            }
        }
    }
}
