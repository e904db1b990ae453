//! Whether a file still looks as its entry says.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use packrace_os::count::{self, Op, Role};
use packrace_store::Config;

use super::{IndexEntry, Mode, StatData, Time};

/// What a file in the work tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File {
        /// Whether its owner may run it.
        is_executable: bool,
    },
    /// A symbolic link.
    Link,
    /// A directory.
    Dir,
    /// A pipe, a socket or a device, which cannot be in an index.
    Other,
}

/// What there is at a path, links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// What it is.
    pub kind: Kind,
    /// Its whole length.
    pub size_bytes: u64,
    /// As an index holds it.
    pub stat: StatData,
}

/// Looks at a path; none where nothing is, also because what should be a directory on the way is none.
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
    /// What the system has said of a file.
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

/// What of a file's looks counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatRules {
    /// `core.trustCtime`.
    pub trust_changed: bool,
    /// `core.checkStat`: owner and inode, too.
    pub check_all: bool,
    /// `core.fileMode`: whether the file system keeps who may run a file.
    pub trust_mode: bool,
    /// `core.symlinks`: whether it has links; where not, files stand for them.
    pub has_links: bool,
}

impl StatRules {
    /// What the configuration says.
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

    /// Whether a file looks as its entry says, so that nobody need read it; that of a racy entry ([`super::Index::is_racy`])
    /// has to be read all the same. Of a submodule only that it is a directory counts. As git is built by default, whole
    /// seconds count and the device does not (racy-git).
    pub fn matches(&self, entry: &IndexEntry, seen: &Seen) -> bool {
        self.is_same_kind(entry.mode, seen.kind)
            && (entry.mode == Mode::Gitlink || self.is_same_stat(entry, seen))
    }

    /// Whether what is there can be what the entry names, going by what it is and who may run it.
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
        // An entry that says of a file with content that it is empty was made to be looked at.
        is_same && (old.size_bytes != 0 || entry.id.is_empty_blob())
    }

    /// The mode of a new entry. Where the file system does not tell who may run a file, or has no links, the entry that was
    /// there does.
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
