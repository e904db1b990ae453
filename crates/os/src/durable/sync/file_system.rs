//! Replaces many syncs by one call where that is as safe and cheaper: `syncfs(2)`.
//!
//! It waits for all unwritten data of a file system, including that of other processes, so it is called only
//! while there is little. It reports every failure on the file system since its descriptor was opened, data
//! since Linux 5.8 and the rest since 5.17, so it is called with the file that was created first. On ext4 and
//! XFS it ends with one commit of the journal and one flush, where concurrent syncs may need several; the
//! call does not reach a file system of another process (FUSE).

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::LazyLock;

use super::{SyncFailed, ToSync};
use crate::count::{self, Op, Role};

/// The most unwritten bytes of others. A disk that writes 200 MB per second takes 80 ms.
const MAX_BYTES_OF_OTHERS: u64 = 16 << 20;

/// `f_type` of file systems whose `syncfs` is known to wait for data, journal and flush (statfs(2)).
const KNOWN: [i64; 2] = [0xef53, 0x5846_5342];

/// The first kernel that reports all failures.
const LEAST_KERNEL: (u32, u32) = (5, 17);

/// Makes all of these durable with one call; `None` if that is impossible or not worthwhile now.
pub(super) fn sync(all: &[ToSync<'_>], role: Role) -> Option<Result<(), SyncFailed>> {
    static IS_KERNEL_KNOWN: LazyLock<bool> =
        LazyLock::new(|| is_known_kernel(&rustix::system::uname().release().to_string_lossy()));
    if all.len() < 2 || !*IS_KERNEL_KNOWN {
        return None;
    }
    let first = open(all.iter().min_by_key(|item| item.number())?)?;
    let device = first.metadata().ok()?.dev();
    let mut own_bytes = 0;
    for item in all {
        let metadata = metadata(item)?;
        if metadata.dev() != device {
            return None;
        }
        own_bytes += metadata.len();
    }
    let kind = rustix::fs::fstatfs(&first).ok()?.f_type;
    if !KNOWN.iter().any(|known| i128::from(*known) == i128::from(kind)) {
        return None;
    }
    if unwritten_bytes(&memory_info()?)? > own_bytes.saturating_add(MAX_BYTES_OF_OTHERS) {
        return None;
    }
    count::add(role, Op::Sync, 0);
    let synced = rustix::fs::syncfs(&first);
    Some(synced.map_err(|error| SyncFailed { path: all[0].path().to_owned(), source: error.into() }))
}

impl ToSync<'_> {
    /// The creation order of new files; others come last.
    fn number(&self) -> u64 {
        match self {
            ToSync::New(file) => file.number,
            ToSync::File(_) | ToSync::Dir(_) => u64::MAX,
        }
    }
}

/// `None` if it does not exist or needs another kind of sync.
fn open(item: &ToSync<'_>) -> Option<File> {
    match item {
        ToSync::New(file) => file.file.try_clone().ok(),
        ToSync::File(path) => crate::file::open_without_waiting(path).ok(),
        ToSync::Dir(path) => File::open(path).ok(),
    }
}

fn metadata(item: &ToSync<'_>) -> Option<Metadata> {
    match item {
        ToSync::New(file) => file.method.is_durable().then(|| file.file.metadata().ok())?,
        ToSync::File(path) => std::fs::metadata(path).ok().filter(Metadata::is_file),
        ToSync::Dir(path) => std::fs::metadata(path).ok().filter(Metadata::is_dir),
    }
}

/// Whether this release (uname(2)) reports all failures.
fn is_known_kernel(release: &str) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= LEAST_KERNEL,
        _ => false,
    }
}

/// The beginning of `/proc/meminfo`, kept open because a process may not be allowed to open it later.
fn memory_info() -> Option<String> {
    static FILE: LazyLock<Option<File>> = LazyLock::new(|| File::open("/proc/meminfo").ok());
    let mut buffer = [0; 2048];
    let length = FILE.as_ref()?.read_at(&mut buffer, 0).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// The bytes not written yet by the system: `Dirty` and `Writeback` (proc_meminfo(5)).
fn unwritten_bytes(meminfo: &str) -> Option<u64> {
    let kilobytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some(kilobytes("Dirty:")?.checked_add(kilobytes("Writeback:")?)?.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels() {
        for (release, expect) in [
            ("6.18.44-fc", true),
            ("5.17.0", true),
            ("5.16.20-generic", false),
            ("4.19.0", false),
            ("10.0", true),
            ("6", false),
            ("", false),
            ("x5.20", false),
        ] {
            assert_eq!(is_known_kernel(release), expect, "{release}");
        }
    }

    #[test]
    fn what_is_not_written() {
        let text = "MemTotal:  24 kB\nDirty:              1204 kB\nWriteback:            28 kB\nWritebackTmp:  9 kB\n";
        assert_eq!(unwritten_bytes(text), Some(1232 * 1024));
        assert_eq!(unwritten_bytes("Dirty: 3 kB\n"), None);
        assert_eq!(unwritten_bytes("Dirty: x kB\nWriteback: 1 kB\n"), None);
    }

    /// A missing or unexpected file is left to the separate syncs, which report it.
    #[test]
    fn what_cannot_be_synced_together() {
        let dir = tempfile::tempdir().unwrap();
        let (file, missing) = (dir.path().join("file"), dir.path().join("missing"));
        std::fs::write(&file, "x").unwrap();
        for other in
            [ToSync::Dir(&missing), ToSync::File(&missing), ToSync::Dir(&file), ToSync::File(dir.path())]
        {
            assert!(sync(&[ToSync::File(&file), other], Role::Hook).is_none());
        }
        assert!(sync(&[ToSync::File(&file)], Role::Hook).is_none(), "one needs no other call");
        // If the file system of temporary files is a known one, this is the call; otherwise there is none.
        let done = sync(&[ToSync::File(&file), ToSync::Dir(dir.path())], Role::Hook);
        assert!(done.is_none_or(|result: Result<(), SyncFailed>| result.is_ok()));
    }
}
