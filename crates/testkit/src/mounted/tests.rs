use std::io::{Read as _, Write as _};

use super::*;
use crate::{Git, RepoBuilder, Size};

#[test]
#[ignore = "needs FUSE"]
fn requests_are_counted_by_the_names_of_files() {
    let (behind, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mount = Mount::new(behind.path(), place.path()).unwrap();
    let [temporary, whole] = ["tmp", "whole.pack"].map(|name| mount.place().join(name));
    let mut file = std::fs::File::create(&temporary).unwrap();
    for _ in 0..3 {
        file.write_all(&[7; 1000]).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    std::fs::rename(&temporary, &whole).unwrap();
    std::fs::write(mount.place().join("other"), b"x").unwrap();
    let mut bytes = Vec::new();
    std::fs::File::open(&whole).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [7; 3000]);
    assert_eq!(std::fs::read(behind.path().join("whole.pack")).unwrap(), bytes);
    let traffic = mount.traffic(|name| name == Path::new("whole.pack"));
    let expect = Traffic { creates: 1, writes: 3, written_bytes: 3000, syncs: 1, ..traffic };
    assert_eq!(traffic, expect);
    assert_eq!(traffic.read_bytes, 3000);
    assert_eq!(mount.traffic(|name| name == Path::new("tmp")), traffic);
    assert_eq!(mount.traffic(|_| true).creates, 2);
    mount.count_anew();
    assert_eq!(mount.traffic(|_| true), Traffic::default());
}

#[test]
#[ignore = "needs FUSE"]
fn a_large_write_is_few_requests() {
    let (behind, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mount = Mount::new(behind.path(), place.path()).unwrap();
    std::fs::write(mount.place().join("large"), vec![1; 8 << 20]).unwrap();
    // More than 8 if the kernel's limit is lower, fewer if it was raised.
    let traffic = mount.traffic(|_| true);
    assert_eq!(traffic.written_bytes, 8 << 20);
    assert!(traffic.writes <= 64, "{traffic:?}");
}

#[test]
#[ignore = "needs FUSE"]
fn git_works_on_it() {
    let (behind, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mount = Mount::new(behind.path(), place.path()).unwrap();
    let repo = mount.place().join("repo.git");
    RepoBuilder::new(Size::Tiny).build_anew(&repo, Git::stock());
    Git::stock().run(&repo, &["repack", "-adq"]);
    Git::stock().run(&repo, &["fsck", "--strict"]);
    let packs = mount.traffic(|name| name.extension().is_some_and(|extension| extension == "pack"));
    assert!(packs.creates >= 1 && packs.writes >= 1 && packs.syncs >= 1, "{packs:?}");
    drop(mount);
    assert!(std::fs::read_dir(place.path()).unwrap().next().is_none(), "still mounted");
    Git::stock().run(&behind.path().join("repo.git"), &["fsck", "--strict"]);
}

/// After a power cut, unsynced data may be lost, and synced data remains.
#[test]
#[ignore = "needs FUSE"]
fn power_cuts_take_what_was_not_synced() {
    let (behind, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mount = Mount::new(behind.path(), place.path()).unwrap();
    let path = |name: &str| mount.place().join(name);
    std::fs::write(path("old"), "old").unwrap();
    let work = |is_synced: bool| {
        let mut file = std::fs::File::create_new(path("new")).unwrap();
        file.write_all(b"new").unwrap();
        if is_synced {
            file.sync_all().unwrap();
        }
        drop(file);
        std::fs::rename(path("new"), path("old")).unwrap();
        if is_synced {
            std::fs::File::open(mount.place()).unwrap().sync_all().unwrap();
        }
    };
    for (is_synced, expect) in [(false, &["", "\0\0\0", "n", "new", "old"][..]), (true, &["new"])] {
        std::fs::write(path("old"), "old").unwrap();
        let ((), recording) = mount.recorded(|| work(is_synced)).unwrap();
        let all = recording.changes().len();
        assert_eq!(recording.killed(all), DiskState::of(behind.path()).unwrap(), "{:?}", recording.changes());
        let states = recording.crashed(all, 1000);
        let content = |state: &DiskState| {
            let old = state.entries().find(|(name, _)| *name == Path::new("old"));
            String::from_utf8(old.unwrap().1.unwrap().to_vec()).unwrap()
        };
        let found: std::collections::BTreeSet<String> = states.iter().map(content).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expect);
    }
    // Operations outside the model are refused, not ignored.
    let refused = mount.recorded(|| std::fs::hard_link(path("old"), path("link"))).unwrap().0;
    assert!(refused.is_err());
    std::fs::hard_link(path("old"), path("link")).unwrap();
}

#[test]
#[ignore = "needs FUSE"]
fn an_open_file_does_not_keep_it_mounted() {
    let (behind, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mount = Mount::new(behind.path(), place.path()).unwrap();
    let open = std::fs::File::create(mount.place().join("open")).unwrap();
    drop(mount);
    place.close().unwrap();
    drop(open);
}

#[test]
#[ignore = "needs FUSE"]
fn names_that_are_taken_are_not_given_to_who_does_not_want_that() {
    let (behind, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mount = Mount::new(behind.path(), place.path()).unwrap();
    let [one, other] = ["one", "other"].map(|name| mount.place().join(name));
    std::fs::write(&one, "1").unwrap();
    let rename = || packrace_os::durable::rename_to_free(&one, &other, packrace_os::count::Role::Config);
    assert!(rename().unwrap());
    std::fs::write(&one, "2").unwrap();
    assert!(!rename().unwrap());
    assert_eq!(std::fs::read(&other).unwrap(), b"1");
}

#[test]
#[ignore = "needs FUSE"]
fn what_is_to_fail_cannot_be_read_until_it_is_healed() {
    use std::os::unix::fs::FileExt as _;
    let (behind, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mount = Mount::new(behind.path(), place.path()).unwrap();
    let [bad, well] = ["bad", "well"].map(|name| mount.place().join(name));
    let bytes = vec![7; 1 << 20];
    for path in [&bad, &well] {
        std::fs::write(path, &bytes).unwrap();
    }
    let file = std::fs::File::open(&bad).unwrap();
    let read = |at: u64| file.read_exact_at(&mut [0; 100], at).map_err(|error| error.raw_os_error());
    assert_eq!((read(0), read(900_000)), (Ok(()), Ok(())));
    mount.fail_reads(|name, range| name == Path::new("bad") && range.end > 800_000).unwrap();
    assert_eq!((read(0), read(900_000)), (Ok(()), Err(Some(fuser::Errno::EIO.code()))));
    assert_eq!(std::fs::read(&well).unwrap(), bytes);
    mount.heal().unwrap();
    assert_eq!(read(900_000), Ok(()));
    assert_eq!(std::fs::read(&bad).unwrap(), bytes);
}
