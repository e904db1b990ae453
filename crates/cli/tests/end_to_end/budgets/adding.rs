//! What adding files may cost: a write a file would be too much, and so would a sync.

use super::receiving::{SOME, SYNCS_OF_A_PACK, counted};
use packrace_testkit::Git;

/// The lock of the index, and its directory.
const SYNCS_OF_AN_INDEX: u64 = 2;

#[test]
fn adding_costs_the_same_number_of_syncs_and_writes_however_many_files() {
    for files in [6, 60, 3000] {
        for (fsync, more) in [("", 0), ("added", SYNCS_OF_AN_INDEX)] {
            let dir = tempfile::tempdir().unwrap();
            Git::stock().run(dir.path(), &["init", "-q", "--template="]);
            for number in 0..files {
                std::fs::write(dir.path().join(format!("file-{number}")), format!("{number}\n")).unwrap();
            }
            let (_, report) = counted(dir.path(), &["-c", &format!("core.fsync={fsync}"), "add", "."], b"");
            let syncs = report.all("sync");
            assert!((3..=SYNCS_OF_A_PACK + more).contains(&syncs), "{files}: {}", report.0);
            assert!(report.all("write") <= SOME, "{files}: {}", report.0);
            let counts = Git::stock().run(dir.path(), &["count-objects", "-v"]);
            assert!(counts.contains(&format!("in-pack: {files}\n")), "{counts}");
            assert_eq!(Git::stock().run(dir.path(), &["ls-files"]).lines().count(), files);
        }
    }
}
