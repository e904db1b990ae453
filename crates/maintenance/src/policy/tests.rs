use super::*;
use crate::facts::{BitmapFacts, DeltaFacts, IndexFacts, PackFacts, SearchGain, StaleFacts};

fn settings() -> MaintenanceSettings {
    MaintenanceSettings {
        is_automatic: true,
        follows_pushes: true,
        is_detached: true,
        gc_loose: 6700,
        gc_packs: 50,
        packs_refs: true,
        cruft_packs: true,
        max_cruft_bytes: None,
        prune_before: 0,
        big_pack_bytes: None,
        max_pack_bytes: None,
        split_factor: 2,
        geometric_auto: 100,
        loose_auto: 100,
        graph_auto: 100,
        reflog_auto: 100,
        enabled: [None; Task::ALL.len()],
        multi_pack_index: true,
        bitmaps: true,
        commit_graph: true,
        server_info: true,
        is_precious: false,
        packs_alone: false,
        has_recent_objects_hook: false,
    }
}

fn with(task: Task, enabled: bool) -> MaintenanceSettings {
    let mut settings = settings();
    let at = Task::ALL.iter().position(|other| *other == task).unwrap();
    settings.enabled[at] = Some(enabled);
    settings
}

fn pack(objects: u32) -> PackFacts {
    PackFacts { objects, bytes: u64::from(objects) * 100, ..PackFacts::default() }
}

fn packs(objects: &[u32]) -> Vec<PackFacts> {
    objects.iter().map(|objects| pack(*objects)).collect()
}

/// The best state: one pack with a bitmap, one file of refs, one commit-graph.
fn tidy() -> Facts {
    Facts {
        packs: packs(&[5000]),
        bitmap: Some(BitmapFacts { objects: 5000, age_seconds: 1000 }),
        tips: 10,
        branch_tips: 8,
        graph_files: 1,
        ..Facts::default()
    }
}

const OCCASIONS: [Occasion; 3] = [Occasion::Asked, Occasion::Automatic, Occasion::Served];

/// The tasks of each occasion.
#[track_caller]
fn check_with(settings: &MaintenanceSettings, facts: &Facts, expect: [&str; 3]) {
    for (occasion, expect) in OCCASIONS.into_iter().zip(expect) {
        let planned = plan(facts, settings, occasion);
        let names: Vec<&str> = planned.iter().map(|planned| planned.task.name()).collect();
        assert_eq!(names.join(" "), expect, "{occasion:?}: {planned:?}");
        assert!(planned.iter().all(|planned| !planned.reason.is_empty()), "{planned:?}");
    }
}

#[track_caller]
fn check(facts: Facts, expect: [&str; 3]) {
    check_with(&settings(), &facts, expect);
}

const NOTHING: [&str; 3] = [""; 3];
const GEOMETRIC: &str = "geometric-repack";
const GRAPH: &str = "commit-graph";

#[test]
fn what_is_tidy_needs_nothing() {
    check(tidy(), NOTHING);
    check(Facts::default(), NOTHING);
    // Adding cruft packs to an index gains nothing.
    let cruft = PackFacts { kind: PackKind::Cruft, ..pack(70) };
    check(Facts { packs: vec![pack(5000), cruft], ..tidy() }, NOTHING);
    let index = Some(IndexFacts { covered: 3, missing: 0 });
    check(Facts { packs: packs(&[50, 500, 5000]), multi_pack_index: index, ..tidy() }, NOTHING);
}

#[test]
fn packs_that_pile_up_are_rolled_up() {
    let index = Some(IndexFacts { covered: 3, missing: 0 });
    let with = |objects: &[u32]| Facts { packs: packs(objects), multi_pack_index: index, ..tidy() };
    check(with(&[3, 3, 5000]), [GEOMETRIC, GEOMETRIC, ""]);
    check(with(&[3, 3, 3, 3, 3, 5000]), [GEOMETRIC, GEOMETRIC, ""]);
    check(with(&[3, 3, 3, 3, 3, 3, 5000]), [GEOMETRIC; 3]);
    // Packs that are always kept are not counted.
    let kept = |_: usize| PackFacts { kind: PackKind::Kept, ..pack(3) };
    let mut many: Vec<PackFacts> = (0..20).map(kept).collect();
    many.push(pack(5000));
    let index = Some(IndexFacts { covered: 21, missing: 0 });
    check(Facts { packs: many.clone(), multi_pack_index: index, ..tidy() }, NOTHING);
    check(Facts { packs: many, ..tidy() }, [GEOMETRIC, "", ""]);
}

/// For a copy of which only the packs matter.
#[test]
fn packs_alone_are_rolled_up_and_get_a_bitmap_once() {
    let alone = settings().for_packs_alone();
    let check = |facts: Facts, expect: [&str; 3]| check_with(&alone, &facts, expect);
    check(tidy(), NOTHING);
    let with = |objects: &[u32]| Facts { packs: packs(objects), ..tidy() };
    check(with(&[3, 3, 3, 3, 3, 3, 5000]), [GEOMETRIC; 3]);
    check(with(&[3, 3, 3, 3, 3, 5000]), [GEOMETRIC, GEOMETRIC, ""]);
    // Nothing else is done, whatever the state.
    let more = Facts { tips_outside_graph: 8, graph_files: 0, refs: RefFacts::Tables(20), ..tidy() };
    check(Facts { tips_outside_bitmap: 3, ..more }, NOTHING);
    let none = |objects: &[u32]| Facts { bitmap: None, tips_outside_bitmap: 10, ..with(objects) };
    check(none(&[3, 3, 3, 3, 3, 3, 5000]), ["gc"; 3]);
    check(none(&[999]), NOTHING);
    check(Facts { tips_outside_bitmap: 0, ..none(&[5000]) }, NOTHING);
    // A third of the objects is not in the bitmap.
    let grown = |objects| Facts { tips_outside_bitmap: 1, ..with(&[5000, objects]) };
    check(grown(2400), NOTHING);
    check(grown(2600), ["gc"; 3]);
    check(Facts { tips_outside_bitmap: 0, ..grown(2600) }, [GEOMETRIC, GEOMETRIC, ""]);
    let without = MaintenanceSettings { bitmaps: false, ..settings() }.for_packs_alone();
    check_with(&without, &none(&[5000]), NOTHING);
    // One pack that has all cannot be made, and deltas would be searched again and again.
    let big = MaintenanceSettings { big_pack_bytes: Some(5000 * 100), ..settings() }.for_packs_alone();
    check_with(&big, &none(&[5000]), NOTHING);
    let deltas = Some(DeltaFacts { sampled: 100, whole: 99, ..DeltaFacts::default() });
    check(Facts { deltas, ..tidy() }, NOTHING);
    let off = with_off(GEOMETRIC).for_packs_alone();
    check_with(&off, &with(&[3, 3, 3, 3, 3, 3, 5000]), NOTHING);
}

fn with_off(task: &str) -> MaintenanceSettings {
    with(Task::named(task).unwrap(), false)
}

#[test]
fn the_index_covers_all_packs_and_no_others() {
    let some = |covered, missing| Some(IndexFacts { covered, missing });
    let with = |multi_pack_index| Facts { packs: packs(&[500, 5000]), multi_pack_index, ..tidy() };
    check(with(None), [GEOMETRIC, "", ""]);
    check(with(some(1, 0)), [GEOMETRIC, "", ""]);
    check(with(some(2, 1)), [GEOMETRIC, "", GEOMETRIC]);
    let off = MaintenanceSettings { multi_pack_index: false, ..settings() };
    for index in [None, some(1, 1)] {
        check_with(&off, &with(index), NOTHING);
    }
}

#[test]
fn loose_objects_are_packed() {
    check(Facts { loose_objects: 1, ..tidy() }, [GEOMETRIC, "", ""]);
    check(Facts { loose_objects: 100, ..tidy() }, [GEOMETRIC; 3]);
    let auto = |geometric_auto| MaintenanceSettings { geometric_auto, ..settings() };
    check_with(&auto(0), &Facts { loose_objects: 5000, ..tidy() }, [GEOMETRIC, "", ""]);
    check_with(&auto(-1), &Facts { loose_objects: 1, ..tidy() }, [GEOMETRIC; 3]);
    // The smaller task, if requested.
    let mut only = with(Task::LooseObjects, true);
    only.enabled[4] = Some(false);
    check_with(&only, &Facts { loose_objects: 200, ..tidy() }, ["loose-objects"; 3]);
}

#[test]
fn bitmaps_follow_refs() {
    let with = |age, tips_outside_bitmap| Facts {
        bitmap: Some(BitmapFacts { objects: 5000, age_seconds: age }),
        tips_outside_bitmap,
        ..tidy()
    };
    check(with(1000, 1), [GEOMETRIC, "", GEOMETRIC]);
    check(with(10, 9), [GEOMETRIC, "", ""]);
    let none = Facts { bitmap: None, tips_outside_bitmap: 10, ..tidy() };
    check(none.clone(), [GEOMETRIC, "", GEOMETRIC]);
    check(Facts { packs: packs(&[20]), ..none.clone() }, [GEOMETRIC, "", ""]);
    // If some reachable objects are elsewhere, no bitmap is possible.
    for facts in [
        Facts { is_shallow: true, ..none.clone() },
        Facts { borrows: true, ..none.clone() },
        Facts { is_partial: true, ..none.clone() },
    ] {
        check(facts, NOTHING);
    }
    check_with(&MaintenanceSettings { bitmaps: false, ..settings() }, &none, NOTHING);
}

#[test]
fn commit_graphs_follow_branches() {
    check(Facts { tips_outside_graph: 1, ..tidy() }, [GRAPH, "", GRAPH]);
    check(Facts { tips_outside_graph: 100, branch_tips: 200, ..tidy() }, [GRAPH; 3]);
    let new = Facts { graph_files: 0, tips_outside_graph: 8, ..tidy() };
    check(new.clone(), [GRAPH; 3]);
    check(Facts { is_shallow: true, ..new.clone() }, NOTHING);
    check_with(&MaintenanceSettings { commit_graph: false, ..settings() }, &new, NOTHING);
    check_with(&with(Task::CommitGraph, false), &new, NOTHING);
}

#[test]
fn refs_are_packed() {
    let files = |loose, packed_bytes| Facts { refs: RefFacts::Files { loose, packed_bytes }, ..tidy() };
    let tables = |count| Facts { refs: RefFacts::Tables(count), ..tidy() };
    check(files(0, 5000), NOTHING);
    check(files(15, 0), ["pack-refs", "", ""]);
    check(files(16, 0), ["pack-refs"; 3]);
    check(files(40, 100 << 20), ["pack-refs", "", ""]);
    check(files(100, 100 << 20), ["pack-refs"; 3]);
    check(tables(1), NOTHING);
    check(tables(5), ["pack-refs", "", ""]);
    check(tables(9), ["pack-refs"; 3]);
}

#[test]
fn what_has_expired_goes() {
    let facts = Facts { expired_log_entries: 3, ..tidy() };
    check(facts, ["reflog-expire", "", ""]);
    check(Facts { expired_log_entries: 100, ..tidy() }, ["reflog-expire"; 3]);
    let stale = StaleFacts { count: 1, bytes: 7 };
    check(Facts { stale, ..tidy() }, ["stale-files"; 3]);
    let young = PackFacts { kind: PackKind::Cruft, expired: 3, ..pack(70) };
    let cruft = PackFacts { age_seconds: CRUFT_SECONDS, ..young.clone() };
    check(Facts { packs: vec![pack(5000), cruft.clone()], ..tidy() }, ["gc"; 3]);
    // A younger object may need the expired ones.
    check(Facts { packs: vec![pack(5000), young], ..tidy() }, ["gc", "", ""]);
    let hook = MaintenanceSettings { has_recent_objects_hook: true, ..settings() };
    check_with(&hook, &Facts { packs: vec![pack(5000), cruft.clone()], ..tidy() }, ["gc", "gc", ""]);
    let precious = MaintenanceSettings { is_precious: true, ..settings() };
    check_with(&precious, &Facts { packs: vec![pack(5000), cruft], loose_objects: 500, ..tidy() }, NOTHING);
}

#[test]
fn everything_is_packed_anew_now_and_then() {
    let old = |objects, age_seconds| PackFacts { age_seconds, ..pack(objects) };
    let index = Some(IndexFacts { covered: 2, missing: 0 });
    let with =
        |largest, objects| Facts { packs: vec![pack(objects), largest], multi_pack_index: index, ..tidy() };
    check(with(old(5000, FULL_REPACK_SECONDS), 500), ["gc"; 3]);
    check(with(old(5000, FULL_REPACK_SECONDS), 499), NOTHING);
    check(with(old(5000, FULL_REPACK_SECONDS - 1), 500), NOTHING);
    check(Facts { packs: vec![old(5000, 10 * FULL_REPACK_SECONDS)], ..tidy() }, NOTHING);
    // Packs that are always kept do not count.
    let big = MaintenanceSettings { big_pack_bytes: Some(5000 * 100), ..settings() };
    check_with(&big, &with(old(5000, FULL_REPACK_SECONDS), 500), NOTHING);
    let packs = vec![pack(500), old(1000, FULL_REPACK_SECONDS), old(5000, FULL_REPACK_SECONDS)];
    let index = Some(IndexFacts { covered: 3, missing: 0 });
    check_with(&big, &Facts { packs, multi_pack_index: index, ..tidy() }, ["gc"; 3]);
}

#[test]
fn deltas_are_searched_anew_once() {
    let deltas = |sampled, whole, is_searched| Facts {
        deltas: Some(DeltaFacts { sampled, whole, is_searched, ..DeltaFacts::default() }),
        ..tidy()
    };
    check(deltas(100, 50, false), ["gc"; 3]);
    check(deltas(100, 49, false), NOTHING);
    check(deltas(100, 99, true), NOTHING);
    let saves = |stored_bytes, searched_bytes, is_searched| {
        let gain = Some(SearchGain { stored_bytes, searched_bytes });
        let deltas = DeltaFacts { sampled: 100, whole: 1, is_searched, gain, ..DeltaFacts::default() };
        Facts { deltas: Some(deltas), ..tidy() }
    };
    check(saves(100, 75, false), ["gc"; 3]);
    check(saves(100, 76, false), NOTHING);
    check(saves(100, 120, false), NOTHING);
    check(saves(0, 0, false), NOTHING);
    check(saves(100, 10, true), NOTHING);
    let planned = plan(&deltas(100, 50, false), &settings(), Occasion::Served);
    assert!(planned[0].is_thorough);
    let expired = PackFacts { kind: PackKind::Cruft, expired: 3, ..pack(70) };
    let facts = Facts { packs: vec![pack(5000), expired], ..deltas(100, 1, false) };
    assert!(!plan(&facts, &settings(), Occasion::Asked)[0].is_thorough);
}

/// `gc` includes the others; leftovers are removed first.
#[test]
fn gc_comes_alone() {
    let cruft = PackFacts { kind: PackKind::Cruft, expired: 3, age_seconds: CRUFT_SECONDS, ..pack(70) };
    let facts = Facts {
        packs: vec![pack(5000), cruft],
        loose_objects: 500,
        tips_outside_bitmap: 5,
        tips_outside_graph: 500,
        refs: RefFacts::Files { loose: 100, packed_bytes: 0 },
        expired_log_entries: 200,
        stale: StaleFacts { count: 2, bytes: 5 },
        ..tidy()
    };
    check(facts.clone(), ["stale-files gc"; 3]);
    let others = "stale-files pack-refs reflog-expire geometric-repack commit-graph";
    check_with(&with(Task::Gc, false), &facts, [others; 3]);
}

#[test]
fn git_s_thresholds_count_where_the_task_that_does_less_is_off() {
    let off = with(Task::GeometricRepack, false);
    check_with(&off, &Facts { loose_objects: 6700, ..tidy() }, NOTHING);
    check_with(&off, &Facts { loose_objects: 6701, ..tidy() }, ["gc"; 3]);
    check_with(&off, &Facts { packs: packs(&[10; 50]), ..tidy() }, NOTHING);
    check_with(&off, &Facts { packs: packs(&[10; 51]), ..tidy() }, ["gc"; 3]);
    let any = MaintenanceSettings { gc_packs: 0, ..off };
    check_with(&any, &Facts { packs: packs(&[10; 51]), ..tidy() }, NOTHING);
}

#[test]
fn nothing_begins_by_itself_where_that_is_off() {
    let facts = Facts { loose_objects: 10_000, stale: StaleFacts { count: 1, bytes: 1 }, ..tidy() };
    let off = MaintenanceSettings { is_automatic: false, ..settings() };
    check_with(&off, &facts, ["stale-files geometric-repack", "", ""]);
}

#[test]
fn refs_of_large_repositories_need_little_memory() {
    let refs = RefFacts::Files { loose: 100, packed_bytes: 0 };
    let facts = Facts { packs: packs(&[50_000_000]), tips_outside_graph: 1, refs, ..tidy() };
    let planned = plan(&facts, &settings(), Occasion::Served);
    let memory: Vec<u64> = planned.iter().map(|planned| planned.memory_bytes).collect();
    assert_eq!(memory, [BASE_MEMORY, BASE_MEMORY + 50_000_000 * BYTES_AN_OBJECT]);
}

#[test]
fn what_a_killed_job_left_goes_first() {
    let stale = StaleFacts { count: 1, bytes: 7 };
    for facts in [tidy(), Facts { stale, loose_objects: 100, ..tidy() }] {
        let mut planned = plan(&facts, &settings(), Occasion::Served);
        clean_up_first(&mut planned);
        let stale = planned.iter().filter(|planned| planned.task == Task::StaleFiles).count();
        assert_eq!((planned[0].task, stale), (Task::StaleFiles, 1));
    }
}

/// Reasons are for people.
#[test]
fn numbers_are_words() {
    let planned = plan(
        &Facts { packs: packs(&[3, 3, 5000]), loose_objects: 1, tips_outside_bitmap: 2, ..tidy() },
        &settings(),
        Occasion::Asked,
    );
    assert_eq!(
        planned[0].reason,
        "2 packs too small for the next ones, 1 loose object, 3 packs in no multi-pack-index, \
         2 tips not in the bitmap"
    );
    assert_eq!(planned[0].bytes, 600);
    assert_eq!(
        [counted(1, "entry"), counted(2, "entry"), counted(0, "branch")],
        ["1 entry", "2 entries", "0 branches"]
    );
}

#[test]
fn a_small_repository_becomes_one_pack_when_pushes_cease() {
    let aged = |age_seconds, bytes| {
        let pack = |pack| PackFacts { age_seconds, bytes, ..pack };
        Facts { packs: packs(&[5000, 1000]).into_iter().map(pack).collect(), ..tidy() }
    };
    let gc = |facts: &Facts, settings: &MaintenanceSettings, occasion| {
        let planned = plan(facts, settings, occasion);
        planned.into_iter().find(|planned| planned.task == Task::Gc).map(|planned| planned.reason)
    };
    let quiet = aged(QUIET_SECONDS, 1000);
    assert_eq!(gc(&quiet, &settings(), Occasion::Served).as_deref(), Some("2 packs that can be one"));
    assert_eq!(gc(&quiet, &settings(), Occasion::Automatic), None);
    assert_eq!(gc(&quiet, &with(Task::Gc, false), Occasion::Served), None);
    assert!(!waits_for_quiet(&quiet, &with(Task::Gc, false)));
    // The newest pack counts.
    let mut busy = aged(QUIET_SECONDS, 1000);
    busy.packs[1].age_seconds = QUIET_SECONDS - 1;
    assert_eq!(gc(&busy, &settings(), Occasion::Served), None);
    assert!(waits_for_quiet(&busy, &settings()));
    for facts in [aged(QUIET_SECONDS, ONE_PACK_BYTES / 2 + 1), tidy()] {
        assert_eq!(gc(&facts, &settings(), Occasion::Served), None);
        assert!(!waits_for_quiet(&facts, &settings()));
    }
    // What a repack would cut again stays.
    let cut = |bytes| MaintenanceSettings { max_pack_bytes: Some(bytes), ..settings() };
    assert_eq!(gc(&quiet, &cut(1999), Occasion::Served), None);
    assert!(!waits_for_quiet(&quiet, &cut(1999)));
    assert!(gc(&quiet, &cut(2000), Occasion::Served).is_some());
    let precious = MaintenanceSettings { is_precious: true, ..settings() };
    assert_eq!(gc(&quiet, &precious, Occasion::Served), None);
    assert!(!waits_for_quiet(&quiet, &precious));
}
