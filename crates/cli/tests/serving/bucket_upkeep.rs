//! Upkeep of a bucket: folding the packs that pushes leave, by nodes and by `packrace bucket fold`.

use packrace_testkit::BucketServer;

use super::bucket::{Node, Store, log_of};
use super::bucket_pushes::{Work, imported, node};
use super::*;

/// The number of packs of a repository in the bucket, and whether one has a bitmap. Stock git must find it
/// complete.
#[track_caller]
fn packs(store: &Store) -> (usize, bool) {
    let place = tempfile::tempdir().unwrap();
    let exported = place.path().join("exported.git");
    store.run(&["export", "a", exported.to_str().unwrap()]);
    Git::stock().run(&exported, &["fsck", "--strict", "--full"]);
    let found = std::fs::read_dir(exported.join("objects/pack")).unwrap();
    let found: Vec<PathBuf> = found.map(|entry| entry.unwrap().path()).collect();
    let count = |extension: &str| {
        found.iter().filter(|path| path.extension().is_some_and(|other| other == extension)).count()
    };
    (count("pack"), count("bitmap") > 0)
}

#[track_caller]
fn push(work: &Work, node: &Node, count: usize) {
    for _ in 0..count {
        let tip = work.git(&["rev-parse", "HEAD"]);
        work.commit(&format!("after {tip}"));
        work.git(&["push", "--quiet", &node.url("a.git"), "HEAD"]);
    }
}

#[test]
fn nodes_fold_what_pushes_leave() {
    let server = BucketServer::start();
    let (store, _) = imported(&server);
    let folding = node(&store, &["--set", "maintenance.delay=0"]);
    let other = node(&store, &["--set", "maintenance.mode=off"]);
    let work = Work::of(&other.url("a.git"));
    push(&work, &other, 12);
    assert_eq!(packs(&store).0, 13);
    assert_eq!(other.metric("packrace_bucket_folds_total"), 0);
    push(&work, &folding, 1);
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let told = "maintenance=\"fold\" repository=\"a.git\" outcome=\"done\"";
    while !log_of(&folding.folder).contains(told) {
        assert!(std::time::Instant::now() < deadline, "{}", log_of(&folding.folder));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(folding.metric("packrace_bucket_folds_total") > 0);
    let (count, has_bitmap) = packs(&store);
    assert!(count <= 3, "{count}");
    assert!(has_bitmap || count == 1, "{count}");
    // Nothing was lost, and other nodes continue.
    assert_eq!(folding.clone_refs("a.git"), other.clone_refs("a.git"));
    push(&work, &other, 1);
    assert_eq!(folding.clone_refs("a.git"), other.clone_refs("a.git"));
    assert_eq!(packs(&store).0, count + 1);
    // The node checks once more by itself, with a copy that exists for a moment.
    let scratch = folding.folder.path().join("cache/scratch");
    while std::fs::read_dir(&scratch).unwrap().count() > 0 {
        assert!(std::time::Instant::now() < deadline, "{}", log_of(&folding.folder));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn packs_are_folded_by_hand() {
    let server = BucketServer::start();
    let (store, _) = imported(&server);
    let node = node(&store, &["--set", "maintenance.mode=off"]);
    let work = Work::of(&node.url("a.git"));
    push(&work, &node, 8);
    assert_eq!(packs(&store).0, 9);
    // A dry run changes nothing.
    server.take_requests();
    let said = store.run(&["fold", "--dry-run", "a"]);
    let said = said.strip_suffix(" (dry run)\n").unwrap_or_else(|| panic!("{said}"));
    let requests = server.take_requests();
    assert!(requests.iter().all(|request| request.starts_with("GET ")), "{requests:?}");
    assert_eq!(store.run(&["fold", "a"]), format!("{said}\n"));
    let (count, _) = packs(&store);
    assert!(said.starts_with("a.git: packs folded: "), "{said}");
    assert!(said.ends_with(&format!(", packs left: {count}")) && count < 5, "{said}");
    assert_eq!(store.run(&["fold", "a"]), "a.git: nothing to do\n");
    // Into one pack with a bitmap, whatever there was before.
    push(&work, &node, 2);
    let all = store.run(&["fold", "--all", "a.git", "a"]);
    assert_eq!(all, format!("a.git: packs folded: {}, packs left: 1\na.git: nothing to do\n", count + 2));
    assert_eq!(packs(&store), (1, true));
    push(&work, &node, 1);
    assert!(node.clone_refs("a.git").contains(work.git(&["rev-parse", "HEAD"]).trim()));
    // The other repositories are folded nevertheless.
    let (code, said) = store.refused(&["fold", "--all", "b", "a"]);
    assert_eq!((code, said.as_str()), (1, "error: 'b.git' is not in the bucket\n"));
    assert_eq!(packs(&store), (1, true));
    let (code, _) = store.refused(&["fold"]);
    assert_eq!(code, 129);
}

/// The import gave the repository a bitmap; after a large push, it gets a new one.
#[test]
fn what_grows_gets_a_bitmap() {
    let server = BucketServer::start();
    let (store, repo) = imported(&server);
    let folding = node(&store, &["--set", "maintenance.delay=0"]);
    let mut stream = String::new();
    for at in 0..400 {
        stream += &format!("commit refs/heads/long\ncommitter A <a@b.c> {at} +0000\ndata 1\nx\n");
        stream += &format!("M 100644 inline file-{}\ndata 4\n{at:04}\n", at % 10);
    }
    Git::stock().run_with_input(repo.path(), &["fast-import", "--quiet"], stream.as_bytes());
    assert_eq!(packs(&store), (1, true));
    Git::stock().run(repo.path(), &["push", "--quiet", &folding.url("a.git"), "refs/heads/long"]);
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let mut seen = (2, false);
    while seen != (1, true) {
        assert!(std::time::Instant::now() < deadline, "{seen:?} {}", log_of(&folding.folder));
        std::thread::sleep(Duration::from_millis(50));
        seen = packs(&store);
    }
    assert!(folding.clone_refs("a.git").contains("refs/heads/long"));
}

#[test]
fn what_nobody_names_is_collected_by_hand() {
    let server = BucketServer::start();
    let (store, _) = imported(&server);
    let node = node(&store, &["--set", "maintenance.mode=off"]);
    let work = Work::of(&node.url("a.git"));
    for at in 0..3u8 {
        std::fs::write(work.dir().join("noise"), packrace_testkit::Random::new(u64::from(at)).bytes(100_000))
            .unwrap();
        work.git(&["add", "noise"]);
        push(&work, &node, 1);
    }
    store.run(&["fold", "--all", "a"]);
    let before = node.clone_refs("a.git");
    let said = store.run(&["collect"]);
    let waiting = said.strip_prefix("a.git: objects deleted: 0, waiting: ").map(str::trim_end);
    // Those of the import and of three pushes.
    assert!(waiting.is_some_and(|count| count.parse::<usize>().unwrap() >= 4), "{said}");
    server.take_requests();
    let planned = store.run(&["collect", "--dry-run", "a"]);
    assert!(!server.take_requests().iter().any(|request| !request.starts_with("GET ")));
    let expect = format!("a.git: objects deleted: {}, waiting: 0", waiting.unwrap());
    assert_eq!(planned, format!("{expect} (dry run)\n"));
    assert_eq!(store.run(&["collect", "a"]), format!("{expect}\n"));
    let deleted = server.take_requests().iter().filter(|request| request.starts_with("DELETE ")).count();
    assert_eq!(deleted.to_string(), waiting.unwrap());
    // One more swap clears the list of dropped objects; then nothing is left to do.
    assert_eq!(store.run(&["collect"]), "");
    server.take_requests();
    assert_eq!(store.run(&["collect", "--now"]), "");
    assert!(!server.take_requests().iter().any(|request| request.starts_with("PUT ")));
    assert_eq!((node.clone_refs("a.git"), packs(&store)), (before, (1, true)));
    push(&work, &node, 1);
    let (code, said) = store.refused(&["collect", "b", "a"]);
    assert_eq!((code, said.as_str()), (1, "error: 'b.git' is not in the bucket\n"));
}
