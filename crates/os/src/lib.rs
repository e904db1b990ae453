//! The interface to the operating system: the only `unsafe` and the only system calls of packrace.
//!
//! For the other crates; it knows nothing of git. It is no portable layer: Linux is what is tested.
//!
//! Reading: [`Mapped`] files, whole small files, directory listings and [`FileIdentity`]. Writing to a peer:
//! [`sink`], gathered writes with a fallback. Writing to a repository: [`durable`]. Time: [`clock`].
//! [`count::Role`] counts everything that moves bytes; [`count::report`] returns the totals of the process.
//!
//! # Platforms
//!
//! **Linux** is the only platform that this crate compiles for. What it promises there, and what it does if a
//! kernel or file system lacks a call:
//!
//! | | with | without |
//! |---|---|---|
//! | [`durable`]: content and names survive a power cut if the disk honours flushes | `fsync(2)` of each file and directory; one `syncfs(2)` for several on ext4 and XFS from 5.17 on | as durable, with one `fsync` each. A file system that cannot sync directories (`EINVAL`) decides about names itself |
//! | `SyncMethod::Writeout`: content is handed to the disk, nothing is promised | `sync_file_range(2)` | `fsync` |
//! | [`durable::LogFile`]: a write into reserved space does not find the disk full | `fallocate(2)` | `reserve` returns false |
//! | [`spool`]: a file without a name | `O_TMPFILE` | created and removed |
//! | [`reach`]: files are opened only in served folders | `openat2(2)`, `/proc/self/fd` | without `openat2` each file is checked once it is open; without `/proc` [`reach::confine`] fails |
//! | [`sandbox`]: files out of reach are refused by the kernel | Landlock, `no_new_privs` | [`sandbox::enter`] reports how much is enforced; `no_new_privs` holds |
//! | [`descriptors`]: who is at the other end | `SO_PEERCRED` | |
//! | hints: priorities of threads, sizes of pipes and heaps, quick acknowledgements | Linux; heaps with GNU's C library | nothing happens |
//!
//! **macOS**: does not compile (2026-11-25, `aarch64-apple-darwin`): these lack a counterpart or need another
//! one: `openat2` and `O_PATH`, `MSG_NOSIGNAL`, `MSG_CMSG_CLOEXEC`, `SOCK_CLOEXEC`, `POLLRDHUP`, `O_TMPFILE`,
//! `FALLOC_FL_KEEP_SIZE`, sizes of pipes, `TCP_QUICKACK`, `MADV_DONTNEED`. Code for it is in `durable`
//! (`F_FULLFSYNC` by `sync_all`) and has never run.
//!
//! **Windows**: does not compile either: the crate uses Unix descriptors throughout.
//!
//! # Example
//!
//! ```
//! use packrace_os::Mapped;
//! use packrace_os::count::Role;
//! use packrace_os::durable::NewFile;
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! let mut file = NewFile::create_temporary(dir, "tmp_", 0o644, Role::Config)?;
//! file.write(b"whole")?;
//! file.publish(&dir.join("named"))?;
//!
//! let map = Mapped::open(&dir.join("named"), Role::Config)?;
//! assert_eq!(&map[..], b"whole");
//! map.check()?; // a file that was truncated meanwhile reads as zeros, and is found here
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Errors** are [`std::io::Error`]s. **What survives a crash** is said at each function of [`durable`]: a
//! name is durable once its directory is synced. **Process-wide**: [`faults`] handles SIGBUS,
//! [`interruption`] what ends the process, [`reach`]
//! limits which files can be opened, [`sandbox`] cannot be undone.

pub mod allocations;
pub mod child;
pub mod clock;
pub mod count;
pub mod descriptors;
pub mod durable;
pub mod faults;
mod file;
mod held_dir;
pub mod inflate;
pub mod interruption;
mod map;
pub mod process;
pub mod reach;
pub mod sandbox;
pub mod simulated;
pub mod sink;
pub mod source;
pub mod spool;
pub mod throughput;
pub mod trace;

pub use file::{
    DirEntry, EntryType, FileIdentity, FileOrLink, FollowedLinks, follow_links, free_bytes, identity,
    is_absent, is_empty_file, is_executable, is_loop, list_dir, mode, open_without_following, owner,
    read_file, read_file_anywhere, read_file_or_link, read_file_without_following, read_link,
    read_regular_file, real_path, reason, write_file,
};
pub use held_dir::HeldDir;
pub use map::{Mapped, Standing};
