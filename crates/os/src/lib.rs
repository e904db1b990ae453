//! The interface to the operating system: the only `unsafe` and the only system calls of packrace.
//!
//! For the other crates; it knows nothing of git. It is no portable layer: Linux is what is tested.
//!
//! Reading: [`Mapped`] files, whole small files, directory listings and [`FileIdentity`]. Writing to a peer:
//! [`sink`], gathered writes with a fallback. Writing to a repository: [`durable`]. Time: [`clock`].
//! [`count::Role`] counts everything that moves bytes; [`count::report`] returns the totals of the process.
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
//! name is durable once its directory is synced. **Process-wide**: [`faults`] handles SIGBUS, [`reach`]
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
mod map;
pub mod process;
pub mod reach;
pub mod sandbox;
pub mod simulated;
pub mod sink;
pub mod source;
pub mod spool;
pub mod throughput;

pub use file::{
    DirEntry, EntryType, FileIdentity, identity, is_absent, is_executable, list_dir, mode,
    open_without_following, owner, read_file, read_file_anywhere, read_file_without_following, read_link,
    read_regular_file, real_path, reason, write_file,
};
pub use held_dir::HeldDir;
pub use map::{Mapped, Standing};
