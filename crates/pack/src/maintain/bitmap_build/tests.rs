use std::sync::Arc;

use packrace_object::HashKind;
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::{Git, RepoBuilder, Size};

use super::*;
use crate::progress::NoProgress;

/// The input for a repository of one pack.
struct BitmapInput {
    request_objects: Arc<RequestObjects>,
    order: BitOrder,
    refs: Vec<ObjectId>,
}

fn open(path: &std::path::Path) -> BitmapInput {
    let repository = Repository::open(path, &OpenOptions::default()).unwrap();
    let request_objects = Arc::new(RequestObjects::new(repository.snapshot().unwrap()));
    let [pack] = request_objects.snapshot().packs() else { panic!("one pack") };
    let order = BitOrder::of_pack(&request_objects, pack.index(), pack.reverse()).unwrap();
    let refs = Git::stock().run(path, &["for-each-ref", "--format=%(objectname)"]);
    let refs = refs.lines().map(|id| ObjectId::from_hex(id.as_bytes()).unwrap()).collect();
    BitmapInput { request_objects, order, refs }
}

fn history(input: &BitmapInput) -> CommitHistory {
    let tips = BitmapTips { refs: &input.refs, ..BitmapTips::default() };
    CommitHistory::load(&input.request_objects, &input.order, tips, 2, &NoProgress).unwrap()
}

fn job(input: &BitmapInput) -> BitmapJob<'_> {
    static OPTIONS: BitmapOptions = BitmapOptions {
        name_hashes: true,
        reuse: false,
        lookup_table: false,
        reverse_file: false,
        threads: 1,
    };
    let BitmapInput { request_objects, order, .. } = input;
    BitmapJob { request_objects, order, options: &OPTIONS, progress: &NoProgress }
}

#[test]
fn lists_that_are_not_kept_are_made_again() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = RepoBuilder::new(Size::Tiny).hash(hash).build();
        let input = open(repo.path());
        let history = history(&input);
        let selected = select::select(&history);
        let files = [u64::MAX, 200, 0].map(|limit| {
            let introduced = Introduced::find(job(&input), &history, &selected, &[], limit).unwrap();
            assert!(introduced.kept() as u64 <= limit);
            assemble::assemble(job(&input), &history, (&selected, &[]), &introduced, None).unwrap()
        });
        assert!(files.iter().all(|file| *file == files[0]));
    }
}

#[test]
fn a_history_that_goes_back_and_forth_is_listed_once() {
    let dir = packrace_testkit::scratch_dir();
    let git = |args: &[&str]| Git::stock().run(dir.path(), args);
    git(&["init", "-q", "--bare", "."]);
    let mut stream = String::new();
    for number in 0..200 {
        stream += "commit refs/heads/main\ncommitter a <a@b> 1700000000 +0000\ndata 1\nx\ndeleteall\n";
        for file in 0..50 {
            let content = format!("{file} {}", number % 2);
            stream += &format!("M 100644 inline d{}/{file}\ndata {}\n{content}\n", file % 5, content.len());
        }
    }
    Git::stock().run_with_input(dir.path(), &["fast-import", "--quiet"], stream.as_bytes());
    git(&["repack", "-adq"]);
    let input = open(dir.path());
    let history = history(&input);
    assert_eq!(history.len(), 200);
    let introduced =
        Introduced::find(job(&input), &history, &select::select(&history), &[], u64::MAX).unwrap();
    // Two roots, five directories, fifty files.
    assert_eq!(introduced.kept(), 2 * (1 + 5 + 50));
}

#[test]
fn nobody_waits() {
    struct Gone;
    impl ProgressSink for Gone {
        fn report(&self, _: Phase, _: u64, _: u64) {}
        fn cancelled(&self) -> bool {
            true
        }
    }
    let repo = RepoBuilder::new(Size::Tiny).build();
    let BitmapInput { request_objects, order, refs } = open(repo.path());
    let tips = BitmapTips { refs: &refs, ..BitmapTips::default() };
    let error = build(&request_objects, &order, tips, &BitmapOptions::default(), &Gone).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Cancelled);
}

#[test]
fn what_is_stored_is_not_compared_again() {
    let repo = RepoBuilder::new(Size::Small).build();
    let kept = |input: &BitmapInput, history: &CommitHistory| {
        let selected = select::select(history);
        Introduced::find(job(input), history, &selected, &[], u64::MAX).unwrap().kept()
    };
    let input = open(repo.path());
    assert!(kept(&input, &history(&input)) > input.order.len() as usize / 2);
    let tips = BitmapTips { refs: &input.refs, ..BitmapTips::default() };
    let built =
        build(&input.request_objects, &input.order, tips, &BitmapOptions::default(), &NoProgress).unwrap();
    let BuiltBitmap::File(file) = built else { panic!("the pack is closed") };
    let name = format!("objects/pack/{}.bitmap", input.request_objects.snapshot().packs()[0].name());
    std::fs::write(repo.path().join(name), &file).unwrap();
    let input = open(repo.path());
    let mut history = history(&input);
    let stored = StoredBitmaps::open(&input.request_objects, &input.order).unwrap();
    stored.mark(&input.order, &mut history);
    assert_eq!(kept(&input, &history), 0);
    // Reusing it gives the same result.
    let built =
        build(&input.request_objects, &input.order, tips, &BitmapOptions::default(), &NoProgress).unwrap();
    assert_eq!(built, BuiltBitmap::File(file));
}
