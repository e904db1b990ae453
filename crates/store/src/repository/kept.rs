//! A repository that is opened once and used again for as long as it is as it was.

use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::repository::{OpenOptions, Repository};
use crate::witnesses::{Stamp, Witnesses};

/// How often a repository is opened again because it changed while it was opened.
const MAX_OPENINGS: usize = 3;

/// An opened repository, and by what to tell whether opening it again would give the same: configuration, packs and all
/// that makes them searchable, whose it is and where it lies. Refs and loose objects are read anew in any case.
#[derive(Debug)]
pub struct Kept {
    repository: Arc<Repository>,
    /// None if it never stood still.
    stamp: Option<Stamp>,
}

impl Kept {
    /// Opens the repository at `path`, as [`Repository::open`], but twice: the first time tells what to look at before
    /// the second.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        let (mut repository, mut witnesses) = open_seen(path, options)?;
        for _ in 1..MAX_OPENINGS {
            let stamp = witnesses.stamp();
            (repository, witnesses) = open_seen(path, options)?;
            if stamp.is_of(&witnesses) {
                return Ok(Kept { repository: Arc::new(repository), stamp: Some(stamp) });
            }
        }
        Ok(Kept { repository: Arc::new(repository), stamp: None })
    }

    /// The repository. Whoever has it may use it to the end of what he does, whatever becomes of it meanwhile.
    pub fn repository(&self) -> &Arc<Repository> {
        &self.repository
    }

    /// Whether it would be opened the same way now. False, too, where something changed so shortly before it was opened
    /// that a further change might not have shown; and where a file of its packs is damaged, or could not be used.
    pub fn is_current(&self) -> bool {
        self.stamp.as_ref().is_some_and(Stamp::holds) && !self.repository.is_doubtful()
    }
}

fn open_seen(path: &Path, options: &OpenOptions) -> Result<(Repository, Witnesses), Error> {
    let mut seen = Witnesses::default();
    let repository = Repository::open_seen(path, options, &mut seen)?;
    repository.see_objects(&mut seen);
    // Where the links on the way lead decides what it is, even where all else stays.
    seen.real(repository.git_dir());
    if repository.common_dir() != repository.git_dir() {
        seen.real(repository.common_dir());
    }
    Ok((repository, seen))
}
