//! Limits for adding files: one write or one sync per file would be too much.

use super::receiving::{SOME, counted};
use packrace_testkit::Git;

/// A pack, its index, their directory (or one loose object and two directories); the index and its directory.
/// Fewer if the file system syncs several in one call.
const SYNCS: u64 = 5;

#[test]
fn adding_costs_the_same_number_of_syncs_and_writes_however_many_files() {
    for files in [1, 2, 5, 60, 3000] {
        let dir = packrace_testkit::scratch_dir();
        Git::stock().run(dir.path(), &["init", "-q", "--template="]);
        for number in 0..files {
            std::fs::write(dir.path().join(format!("file-{number}")), format!("{number}\n")).unwrap();
        }
        // Nothing is configured.
        let (_, report) = counted(dir.path(), &["add", "."], b"");
        let syncs = report.all("sync");
        assert!((3..=SYNCS).contains(&syncs), "{files}: {}", report.0);
        assert!(report.all("write") <= SOME, "{files}: {}", report.0);
        let counts = Git::stock().run(dir.path(), &["count-objects", "-v"]);
        let packed = if files == 1 { 0 } else { files };
        assert!(counts.contains(&format!("in-pack: {packed}\n")), "{counts}");
        assert_eq!(Git::stock().run(dir.path(), &["ls-files"]).lines().count(), files);
    }
}

/// With `core.fsync=none`, one sync remains: it protects the previous content of the index.
#[test]
fn what_is_configured_counts_but_for_rewrites() {
    let dir = packrace_testkit::scratch_dir();
    Git::stock().run(dir.path(), &["init", "-q", "--template="]);
    for (round, expect) in [(0, 0), (1, 1)] {
        std::fs::write(dir.path().join("file"), format!("{round}\n")).unwrap();
        let (_, report) = counted(dir.path(), &["-c", "core.fsync=none", "add", "."], b"");
        assert_eq!(report.all("sync"), expect, "{}", report.0);
    }
}
