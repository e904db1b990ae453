//! Files of the dumb protocol (gitprotocol-http, "Dumb Clients"), and how long they may be cached.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use packrace_os::Mapped;
use packrace_os::count::Role;
use packrace_store::Repository;

use super::routes::{File, NO_CACHE};
use crate::refs;
use crate::send::outbox::GatherBatch;

/// How long files are cached whose names determine their content.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long an answer may be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caching {
    Never,
    /// No header about it is sent.
    Unsaid,
    /// A year from this time.
    AYearFrom(SystemTime),
}

impl Caching {
    pub(crate) fn headers(self) -> Vec<(&'static str, String)> {
        match self {
            Caching::Never => NO_CACHE.map(|(name, value)| (name, value.to_owned())).to_vec(),
            Caching::Unsaid => Vec::new(),
            Caching::AYearFrom(now) => vec![
                ("date", date(now)),
                ("expires", date(now + A_YEAR)),
                ("cache-control", format!("public, max-age={}", A_YEAR.as_secs())),
            ],
        }
    }
}

/// A time as git writes it in headers.
pub(crate) fn date(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

/// A file and its headers.
pub(crate) struct Found {
    pub(crate) batch: GatherBatch,
    pub(crate) caching: Caching,
    pub(crate) modified: Option<SystemTime>,
}

/// Why there is no file.
#[derive(Debug)]
pub(crate) enum DumbError {
    NotThere(String),
    Broken(String),
}

/// Finds the file of a repository.
pub(crate) fn find(file: &File, repository: &Repository, namespace: &str) -> Result<Found, DumbError> {
    let broken = |error: &dyn std::fmt::Display| DumbError::Broken(error.to_string());
    let objects = repository.object_dir();
    let made = |text| Found { batch: GatherBatch::of(text), caching: Caching::Never, modified: None };
    let for_ever = Caching::AYearFrom(SystemTime::now());
    match file {
        File::Head => {
            let line = refs::head_line(repository, namespace).map_err(|error| broken(&error))?;
            Ok(Found { caching: Caching::Unsaid, ..made(line) })
        }
        File::Refs => {
            let text = refs::ref_list(repository, namespace).map_err(|error| broken(&error))?;
            Ok(made(text))
        }
        File::Packs => {
            let snapshot = repository.snapshot().map_err(|error| broken(&error))?;
            let own = snapshot.packs().iter().filter(|pack| pack.is_local());
            let lines: String = own.map(|pack| format!("P {}.pack\n", pack.name())).collect();
            Ok(made(format!("{lines}\n").into_bytes()))
        }
        File::List(name) => read(objects.join(name), Role::Config, Caching::Never),
        File::LooseObject(name) => read(objects.join(name), Role::Objects, for_ever),
        File::Pack(name) => read(objects.join("pack").join(name), Role::Pack, for_ever),
        File::Index(name) => read(objects.join("pack").join(name), Role::Index, for_ever),
    }
}

fn read(path: PathBuf, role: Role, caching: Caching) -> Result<Found, DumbError> {
    let why = |error: &io::Error| format!("Cannot open '{}': {}", path.display(), packrace_os::reason(error));
    let map = Mapped::open(&path, role).map_err(|error| match packrace_os::is_absent(&error) {
        true => DumbError::NotThere(why(&error)),
        false => DumbError::Broken(why(&error)),
    })?;
    let modified = map.identity().and_then(|identity| identity.modified);
    let mut batch = GatherBatch::default();
    batch.push_mapped(&map, 0..map.len());
    // Short files were copied.
    map.check().map_err(|damaged| DumbError::Broken(damaged.to_string()))?;
    Ok(Found { batch, caching, modified })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |seconds, expect| {
            assert_eq!(date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), expect);
        };
        check(0, "Thu, 01 Jan 1970 00:00:00 +0000");
        check(1_795_284_683, "Sat, 21 Nov 2026 18:11:23 +0000");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 +0000");
    }
}
