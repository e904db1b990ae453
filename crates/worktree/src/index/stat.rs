//! Compares the metadata of a file with its entry.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use packrace_os::count::{self, Op, Role};
use packrace_store::Config;

use super::{IndexEntry, Mode, StatData, Time};

/// The type of a file in the work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File {
        /// Whether its owner may execute it.
        is_executable: bool,
    },
    /// A symbolic link.
    Link,
    /// A directory.
    Dir,
    /// A pipe, a socket or a device, which cannot be in an index.
    Other,
}

/// A path's metadata, without following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The type.
    pub kind: Kind,
    /// The full length.
    pub size_bytes: u64,
    /// The metadata as stored in an index.
    pub stat: StatData,
}

/// Examines a path; `None` if nothing exists, or a parent is not a directory.
pub fn look(path: &Path) -> io::Result<Option<Seen>> {
    count::add(Role::WorkTree, Op::Look, 0);
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(Seen::of(&found))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Seen {
    /// Converts the system's metadata.
    pub fn of(found: &Metadata) -> Self {
        let kind = found.file_type();
        let kind = match () {
            _ if kind.is_file() => Kind::File { is_executable: found.mode() & 0o100 != 0 },
            _ if kind.is_symlink() => Kind::Link,
            _ if kind.is_dir() => Kind::Dir,
            _ => {
                debug_assert!(
                    kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device()
                );
                Kind::Other
            }
        };
        let time = |seconds: i64, nanoseconds: i64| Time {
            seconds: seconds as u32,
            nanoseconds: nanoseconds as u32,
        };
        let stat = StatData {
            changed: time(found.ctime(), found.ctime_nsec()),
            modified: time(found.mtime(), found.mtime_nsec()),
            device: found.dev() as u32,
            inode: found.ino() as u32,
            user: found.uid(),
            group: found.gid(),
            size_bytes: found.size() as u32,
        };
        Seen { kind, size_bytes: found.size(), stat }
    }
}

/// The metadata to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatRules {
    /// `core.trustCtime`.
    pub trust_changed: bool,
    /// `core.checkStat`: also compare owner and inode.
    pub check_all: bool,
    /// `core.fileMode`: whether the file system keeps the executable bit.
    pub trust_mode: bool,
    /// `core.symlinks`: whether the file system has symbolic links; otherwise regular files replace them.
    pub has_links: bool,
}

impl StatRules {
    /// Reads the rules from the configuration.
    pub fn of(config: &Config) -> Result<Self, packrace_store::Error> {
        let flag = |name: &str| config.boolean(name).map(|value| value.unwrap_or(true));
        Ok(StatRules {
            trust_changed: flag("core.trustCtime")?,
            check_all: config
                .string("core.checkStat")
                .is_none_or(|value| !value.eq_ignore_ascii_case(b"minimal")),
            trust_mode: flag("core.fileMode")?,
            has_links: flag("core.symlinks")?,
        })
    }

    /// Whether the metadata matches the entry, so that the file need not be read; except for racy entries
    /// ([`super::Index::is_racy`]), whose files must be read. A submodule only has to be a directory. As
    /// in git's default build, only whole seconds count and the device does not (racy-git).
    pub fn matches(&self, entry: &IndexEntry, seen: &Seen) -> bool {
        self.is_same_kind(entry.mode, seen.kind)
            && (entry.mode == Mode::Gitlink || self.is_same_stat(entry, seen))
    }

    /// Whether a file of this type can be the entry's.
    pub fn is_same_kind(&self, mode: Mode, kind: Kind) -> bool {
        match (mode, kind) {
            (Mode::File | Mode::Executable, Kind::File { is_executable }) => {
                !self.trust_mode || is_executable == (mode == Mode::Executable)
            }
            (Mode::Link, Kind::Link) | (Mode::Gitlink, Kind::Dir) => true,
            (Mode::Link, Kind::File { .. }) => !self.has_links,
            _ => false,
        }
    }

    fn is_same_stat(&self, entry: &IndexEntry, seen: &Seen) -> bool {
        let (old, new) = (&entry.stat, &seen.stat);
        let is_same = old.modified.seconds == new.modified.seconds
            && old.size_bytes == new.size_bytes
            && (!self.trust_changed || old.changed.seconds == new.changed.seconds)
            && (!self.check_all || (old.user, old.group, old.inode) == (new.user, new.group, new.inode));
        // Size 0 for a file with content makes readers check the content.
        is_same && (old.size_bytes != 0 || entry.id.is_empty_blob())
    }

    /// The mode of a new entry. If the file system has no executable bit or no links, the previous entry
    /// decides.
    pub fn mode(&self, kind: Kind, before: Option<Mode>) -> Option<Mode> {
        match kind {
            Kind::File { .. } if !self.has_links && before == Some(Mode::Link) => Some(Mode::Link),
            Kind::File { .. } if !self.trust_mode => {
                Some(before.filter(|mode| mode.is_file()).unwrap_or(Mode::File))
            }
            Kind::File { is_executable: true } => Some(Mode::Executable),
            Kind::File { is_executable: false } => Some(Mode::File),
            Kind::Link => Some(Mode::Link),
            Kind::Dir => Some(Mode::Gitlink),
            Kind::Other => None,
        }
    }
}
