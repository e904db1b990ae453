//! Whether what was read from names is what would be read now, by one look at each: docs/decisions/0025-warm-repositories.md.

use std::path::{Path, PathBuf};

use packrace_os::count::Role;
use packrace_os::{FileIdentity, clock};

/// Names that decided something, and what of each. Collecting them looks at nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Witnesses {
    looks: Vec<Look>,
    /// Something was read of which the name is not known.
    has_unknown: bool,
}

/// A name, and what of it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Look {
    /// All of a file, or the names in a directory; or that there is nothing.
    File(PathBuf),
    /// Which directory it is, or that there is none.
    Place(PathBuf),
    /// Where it leads.
    Real(PathBuf),
    /// Whose it is, a link not followed.
    Owner(PathBuf),
}

/// What a look has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shown {
    File(Option<FileIdentity>),
    Place(Option<FileIdentity>),
    Real(PathBuf),
    Owner(u32),
    Nothing,
}

impl Witnesses {
    /// What a file says, or which names are in a directory. There may be nothing.
    pub(crate) fn file(&mut self, path: &Path) {
        self.looks.push(Look::File(path.to_owned()));
    }

    /// The same where the name may not be known.
    pub(crate) fn file_if_known(&mut self, path: Option<&Path>) {
        match path {
            Some(path) => self.file(path),
            None => self.has_unknown = true,
        }
    }

    /// Which directory this is. What is in it does not count.
    pub(crate) fn place(&mut self, path: &Path) {
        self.looks.push(Look::Place(path.to_owned()));
    }

    /// Where the name leads.
    pub(crate) fn real(&mut self, path: &Path) {
        self.looks.push(Look::Real(path.to_owned()));
    }

    /// Whose it is.
    pub(crate) fn owner(&mut self, path: &Path) {
        self.looks.push(Look::Owner(path.to_owned()));
    }

    /// Looks at all names.
    pub(crate) fn stamp(self) -> Stamp {
        let now = clock::time_of_day();
        let mut is_settled = !self.has_unknown;
        let shown = self.looks.iter().map(|look| {
            let shown = look.now();
            match &shown {
                Ok(Shown::File(Some(file))) => is_settled &= file.is_settled(now),
                Ok(_) => {}
                Err(_) => is_settled = false,
            }
            shown.unwrap_or(Shown::Nothing)
        });
        let shown = shown.collect();
        Stamp { witnesses: self, shown, is_settled }
    }
}

/// What all names have shown at one time.
#[derive(Debug)]
pub(crate) struct Stamp {
    witnesses: Witnesses,
    shown: Vec<Shown>,
    /// Every later change shows.
    is_settled: bool,
}

impl Stamp {
    /// Whether these are the names.
    pub(crate) fn is_of(&self, witnesses: &Witnesses) -> bool {
        self.witnesses == *witnesses
    }

    /// Whether what was read after the stamp was made would be read now. When in doubt, no.
    pub(crate) fn holds(&self) -> bool {
        self.is_settled
            && self.witnesses.looks.iter().zip(&self.shown).all(|(look, shown)| {
                look.now().is_ok_and(|now| match (&now, shown) {
                    (Shown::Place(Some(now)), Shown::Place(Some(then))) => now.is_same_place(then),
                    (now, then) => now == then,
                })
            })
    }
}

impl Look {
    fn now(&self) -> std::io::Result<Shown> {
        match self {
            Look::File(path) => packrace_os::identity(path, Role::Config).map(Shown::File),
            Look::Place(path) => packrace_os::identity(path, Role::Config).map(Shown::Place),
            Look::Real(path) => Ok(packrace_os::real_path(path).map_or(Shown::Nothing, Shown::Real)),
            Look::Owner(path) => Ok(packrace_os::owner(path).map_or(Shown::Nothing, Shown::Owner)),
        }
    }
}
