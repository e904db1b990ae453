use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;

use packrace_os::Mapped;
use packrace_os::simulated::{DiskFault, on_disk};
use packrace_pack::generate::Segment;
use packrace_pack::{Phase, ProgressSink};
use packrace_testkit::Random;

use super::*;
use crate::send::event::Event;

/// Generous: a busy machine must not fail a test.
const PATIENCE: Duration = Duration::from_secs(60);

fn key(repository: u8, snapshot: u8, request: u8) -> Key {
    Key { repository: [repository; 32], snapshot: [snapshot; 32], request: [request; 32] }
}

fn settings(directory: &Path) -> CacheSettings {
    CacheSettings { directory: Some(directory.to_owned()), ..CacheSettings::default() }
}

fn cache_of(settings: CacheSettings) -> PackCache {
    PackCache::new(settings, Arc::default())
}

fn owned(bytes: &[u8]) -> Segment {
    Segment::Owned(bytes.to_vec())
}

fn totals(objects: u32) -> Totals {
    Totals { objects, ..Totals::default() }
}

#[track_caller]
fn produce(cache: &PackCache, key: Key, now: u64) -> Producer {
    match cache.join(|| key, Duration::from_secs(now)) {
        Joined::Produce(producer) => producer,
        Joined::Follow(_) => panic!("somebody has made it"),
    }
}

#[track_caller]
fn follow(cache: &PackCache, key: Key, now: u64) -> Reader {
    match cache.join(|| key, Duration::from_secs(now)) {
        Joined::Follow(reader) => reader,
        Joined::Produce(_) => panic!("nobody has made it"),
    }
}

/// All bytes, and how it ended: `None` for a reader that lagged.
fn drain(reader: &mut Reader) -> (Vec<u8>, Option<Result<Totals, String>>) {
    let mut bytes = Vec::new();
    loop {
        match reader.next(PATIENCE) {
            Some(Event::Segment(segment)) => bytes.extend_from_slice(segment.bytes()),
            Some(Event::Progress { .. }) => {}
            Some(Event::End(result)) => {
                let result = result.map(|totals| totals.expect("a pack that is made here has totals"));
                return (bytes, Some(result.map_err(|error| error.to_string())));
            }
            None => panic!("nothing comes"),
            Some(Event::Lagged) => return (bytes, None),
            other => panic!("{other:?}"),
        }
    }
}

#[track_caller]
fn check_whole(reader: &mut Reader, expect: &[u8], objects: u32) {
    let (bytes, end) = drain(reader);
    assert!(bytes == expect, "{} of {} bytes, or others", bytes.len(), expect.len());
    assert_eq!(end, Some(Ok(totals(objects))));
}

/// Makes and reads a pack of this content, in pieces of this length.
fn make(cache: &PackCache, key: Key, now: u64, bytes: &[u8], piece: usize) {
    let content = bytes.to_vec();
    let mut reader = produce(cache, key, now)
        .launch(move |generator| {
            content.chunks(piece).for_each(|piece| generator.push(owned(piece)));
            Ok(totals(1))
        })
        .unwrap();
    check_whole(&mut reader, bytes, 1);
}

#[test]
fn followers_begin_at_the_first_byte_while_the_pack_is_made() {
    let cache = cache_of(CacheSettings::default());
    let bytes = Random::new(1).bytes(1 << 20);
    let (content, (go, gate)) = (bytes.clone(), mpsc::channel());
    let mut first = produce(&cache, key(1, 1, 1), 0)
        .launch(move |generator| {
            for half in content.chunks(1 << 19) {
                generator.push(owned(half));
                gate.recv().unwrap();
            }
            Ok(totals(7))
        })
        .unwrap();
    let Some(Event::Segment(piece)) = first.next(PATIENCE) else { panic!("the first half is there") };
    let mut got = piece.bytes().to_vec();
    let mut second = follow(&cache, key(1, 1, 1), 1);
    let Some(Event::Segment(piece)) = second.next(PATIENCE) else { panic!("for everybody") };
    assert_eq!(piece.bytes(), got);
    // Another request is another pack.
    drop(produce(&cache, key(1, 1, 2), 1));
    go.send(()).unwrap();
    let mut third = follow(&cache, key(1, 1, 1), 2);
    go.send(()).unwrap();
    got.extend(drain(&mut first).0);
    assert!(got == bytes);
    assert_eq!(drain(&mut second), (bytes[1 << 19..].to_vec(), Some(Ok(totals(7)))));
    check_whole(&mut third, &bytes, 7);
    let mut late = follow(&cache, key(1, 1, 1), 3);
    check_whole(&mut late, &bytes, 7);
    let status = cache.status();
    assert_eq!((status.misses, status.hits_running, status.hits_kept), (2, 2, 1));
}

#[test]
fn it_goes_on_without_the_first_reader_and_ends_with_the_last() {
    let cache = cache_of(CacheSettings::default());
    let (go, gate) = mpsc::channel();
    let (told, end) = mpsc::channel();
    let first = produce(&cache, key(1, 1, 1), 0)
        .launch(move |generator| {
            while !generator.cancelled() {
                if gate.try_recv().is_ok() {
                    generator.push(owned(&[7; 1 << 17]));
                }
                std::thread::yield_now();
            }
            told.send(()).unwrap();
            Err(Error::unavailable("nobody hears this"))
        })
        .unwrap();
    let mut second = follow(&cache, key(1, 1, 1), 0);
    drop(first);
    go.send(()).unwrap();
    assert!(matches!(second.next(PATIENCE), Some(Event::Segment(_))));
    assert!(end.try_recv().is_err());
    drop(second);
    // The last reader waits for the worker.
    end.try_recv().unwrap();
    assert_eq!(cache.status().packs, 0);
    make(&cache, key(1, 1, 1), 0, b"anew", 1);
}

#[test]
fn a_worker_that_waits_for_room_notices_that_everybody_has_left() {
    let cache = cache_of(CacheSettings::default());
    let first = produce(&cache, key(1, 1, 1), 0)
        .launch(|generator| {
            while !generator.cancelled() {
                generator.push(owned(&[7; 1 << 20]));
            }
            Ok(totals(1))
        })
        .unwrap();
    drop(first);
    assert_eq!((cache.status().packs, cache.status().memory_bytes), (0, 0));
}

#[test]
fn failures_and_panics_are_told_to_all_and_nothing_is_kept() {
    let cache = cache_of(CacheSettings::default());
    let check = |make: fn() -> Result<Totals, Error>, expect: &str| {
        let (go, gate) = mpsc::channel::<()>();
        let mut first = produce(&cache, key(1, 1, 1), 0)
            .launch(move |generator| {
                generator.push(owned(&[7; 1 << 17]));
                gate.recv().unwrap();
                generator.push(owned(b"just before"));
                make()
            })
            .unwrap();
        let mut second = follow(&cache, key(1, 1, 1), 0);
        go.send(()).unwrap();
        for reader in [&mut first, &mut second] {
            let before = [vec![7; 1 << 17], b"just before".to_vec()].concat();
            assert_eq!(drain(reader), (before, Some(Err(expect.to_owned()))));
        }
        drop((first, second));
        assert_eq!((cache.status().packs, cache.status().memory_bytes), (0, 0));
    };
    check(|| Err(Error::unavailable("it is broken")), "it is broken");
    check(|| panic!("as this test wants"), "internal error while making a pack");
}

#[test]
fn a_slow_reader_beside_a_fast_one_reads_from_disk() {
    let directory = packrace_testkit::scratch_dir();
    let cache = cache_of(settings(directory.path()));
    let bytes = Random::new(2).bytes(24 << 20);
    let content = bytes.clone();
    let mut fast = produce(&cache, key(1, 1, 1), 0)
        .launch(move |generator| {
            content.chunks(70_000).for_each(|piece| generator.push(owned(piece)));
            Ok(totals(3))
        })
        .unwrap();
    let mut slow = follow(&cache, key(1, 1, 1), 0);
    check_whole(&mut fast, &bytes, 3);
    check_whole(&mut slow, &bytes, 3);
    drop((fast, slow));
    let status = cache.status();
    assert!(status.memory_bytes < 1 << 17, "{status:?}");
    assert!((24 << 20..25 << 20).contains(&status.disk_bytes), "{status:?}");
    // Kept in few pieces; the file has no name.
    let mut late = follow(&cache, key(1, 1, 1), 1);
    check_whole(&mut late, &bytes, 3);
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
}

#[test]
fn what_is_asked_for_once_is_not_put_on_disk() {
    let directory = packrace_testkit::scratch_dir();
    let cache = cache_of(settings(directory.path()));
    let bytes = Random::new(3).bytes(12 << 20);
    make(&cache, key(1, 1, 1), 0, &bytes, 10_000);
    let status = cache.status();
    assert_eq!((status.packs, status.memory_bytes, status.disk_bytes), (0, 0, 0));
    // The second time it is kept; the third request gets it from disk.
    make(&cache, key(1, 1, 1), 10, &bytes, 10_000);
    let status = cache.status();
    assert!(status.packs == 1 && status.disk_bytes >= 12 << 20, "{status:?}");
    check_whole(&mut follow(&cache, key(1, 1, 1), 20), &bytes, 1);
    // A request that is too old does not count.
    make(&cache, key(1, 1, 2), 20, &bytes, 10_000);
    make(&cache, key(1, 1, 2), 320, &bytes, 10_000);
    assert_eq!(cache.status().disk_bytes, 0);
}

#[test]
fn what_is_small_is_kept_in_memory_from_the_first_time() {
    let cache = cache_of(CacheSettings::default());
    make(&cache, key(1, 1, 1), 0, b"a small pack", 1);
    check_whole(&mut follow(&cache, key(1, 1, 1), 1), b"a small pack", 1);
    let status = cache.status();
    assert!(status.memory_bytes < 200 && status.disk_bytes == 0, "{status:?}");
}

#[test]
fn ranges_of_packs_are_kept_as_ranges() {
    let directory = packrace_testkit::scratch_dir();
    let path = directory.path().join("pack");
    std::fs::write(&path, vec![5; 64 << 20]).unwrap();
    let map = Mapped::open(&path, Role::Pack).unwrap();
    let cache = cache_of(settings(directory.path()));
    let content = map.clone();
    let mut reader = produce(&cache, key(1, 1, 1), 0)
        .launch(move |generator| {
            for start in (0..64 << 20).step_by(1 << 20) {
                generator.push(owned(b"a few bytes"));
                generator.push(Segment::Mapped(content.clone(), start..start + 10));
                generator.push(Segment::Mapped(content.clone(), start..start + (1 << 20)));
            }
            Ok(totals(1))
        })
        .unwrap();
    let (bytes, _) = drain(&mut reader);
    assert_eq!(bytes.len(), 64 * (11 + 10 + (1 << 20)));
    drop(reader);
    let mut late = follow(&cache, key(1, 1, 1), 0);
    assert!(drain(&mut late).0 == bytes);
    let status = cache.status();
    assert!(status.memory_bytes < 20_000 && status.disk_bytes == 0, "{status:?}");
}

#[test]
fn the_worker_is_only_so_far_ahead_of_the_fastest_reader() {
    let cache = cache_of(CacheSettings::default());
    let made = Arc::new(AtomicUsize::new(0));
    let counter = made.clone();
    let mut reader = produce(&cache, key(1, 1, 1), 0)
        .launch(move |generator| {
            for _ in 0..200 {
                counter.fetch_add(1, Relaxed);
                generator.push(owned(&[7; CHUNK]));
            }
            Ok(totals(1))
        })
        .unwrap();
    const CHUNK: usize = 128 << 10;
    let mut taken = 0;
    loop {
        match reader.next(PATIENCE) {
            Some(Event::Segment(segment)) => {
                assert_eq!(segment.bytes().len(), CHUNK);
                taken += 1;
                // One more waits to be appended.
                let made = made.load(Relaxed);
                assert!(made <= taken + 17, "{made} made, {taken} taken");
            }
            Some(Event::End(_)) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(taken, 200);
}

/// A disk that is full at some write, one without any room, and one that does not exist.
#[test]
fn without_disk_slow_readers_are_left_behind_and_nobody_gets_a_wrong_pack() {
    let directory = packrace_testkit::scratch_dir();
    let bytes = Random::new(4).bytes(24 << 20);
    let bounds = || Bounds { patience: Duration::from_millis(300), ..Bounds::default() };
    let missing = directory.path().join("missing");
    let check = |settings: CacheSettings, fault: DiskFault| {
        let cache = PackCache::with_bounds(settings, Arc::default(), bounds());
        let content = bytes.clone();
        let mut fast = produce(&cache, key(1, 1, 1), 0)
            .launch(move |generator| {
                let (result, _) = on_disk(fault, || {
                    content.chunks(70_000).for_each(|piece| generator.push(owned(piece)));
                    Ok(totals(3))
                });
                result
            })
            .unwrap();
        let mut slow = follow(&cache, key(1, 1, 1), 0);
        check_whole(&mut fast, &bytes, 3);
        let (got, end) = drain(&mut slow);
        assert_eq!(end, None, "left behind after {} bytes", got.len());
        assert!(bytes.starts_with(&got) && got.len() < bytes.len());
        // No other request can join it, and nothing of it is kept.
        drop(produce(&cache, key(1, 1, 1), 1));
        drop((fast, slow));
        let status = cache.status();
        assert_eq!((status.memory_bytes, status.disk_bytes), (0, 0));
    };
    let full = std::io::ErrorKind::StorageFull;
    for step in [0, 1, 2, 5] {
        check(settings(directory.path()), DiskFault::At(step, full));
    }
    check(settings(&missing), DiskFault::None);
    check(CacheSettings::default(), DiskFault::None);
    check(CacheSettings { max_disk_bytes: 12 << 20, ..settings(directory.path()) }, DiskFault::None);
}

#[test]
fn a_full_disk_disturbs_nobody_who_keeps_up() {
    let directory = packrace_testkit::scratch_dir();
    let cache = cache_of(settings(directory.path()));
    let bytes = Random::new(5).bytes(24 << 20);
    let content = bytes.clone();
    let first = produce(&cache, key(1, 1, 1), 0)
        .launch(move |generator| {
            let (result, _) = on_disk(DiskFault::At(3, io::ErrorKind::StorageFull), || {
                content.chunks(70_000).for_each(|piece| generator.push(owned(piece)));
                Ok(totals(3))
            });
            result
        })
        .unwrap();
    let second = follow(&cache, key(1, 1, 1), 0);
    std::thread::scope(|scope| {
        for mut reader in [first, second] {
            let bytes = &bytes;
            scope.spawn(move || check_whole(&mut reader, bytes, 3));
        }
    });
    assert_eq!((cache.status().packs, cache.status().disk_bytes), (0, 0));
}

#[test]
fn the_longest_unused_goes_first() {
    let directory = packrace_testkit::scratch_dir();
    let cache = cache_of(CacheSettings {
        max_memory_bytes: 2 << 20,
        max_disk_bytes: 32 << 20,
        ..settings(directory.path())
    });
    let bytes = Random::new(6).bytes(600 << 10);
    for request in 1..=3 {
        make(&cache, key(1, 1, request), u64::from(request), &bytes, 10_000);
    }
    assert_eq!((cache.status().packs, cache.status().evictions), (3, 0));
    check_whole(&mut follow(&cache, key(1, 1, 1), 4), &bytes, 1);
    make(&cache, key(1, 1, 4), 5, &bytes, 10_000);
    assert_eq!((cache.status().packs, cache.status().evictions), (3, 1));
    check_whole(&mut follow(&cache, key(1, 1, 1), 6), &bytes, 1);
    drop(produce(&cache, key(1, 1, 2), 6));
    // The same on disk.
    let large = Random::new(7).bytes(12 << 20);
    for request in [11, 11, 12, 12, 13, 13] {
        make(&cache, key(1, 1, request), 10 + u64::from(request), &large, 10_000);
    }
    assert!(cache.status().disk_bytes <= 32 << 20, "{:?}", cache.status());
    drop(produce(&cache, key(1, 1, 11), 30));
    check_whole(&mut follow(&cache, key(1, 1, 12), 30), &large, 1);
    check_whole(&mut follow(&cache, key(1, 1, 13), 30), &large, 1);
}

#[test]
fn what_is_being_read_does_not_go() {
    let cache = cache_of(CacheSettings { max_memory_bytes: 1 << 20, ..CacheSettings::default() });
    let bytes = Random::new(8).bytes(600 << 10);
    make(&cache, key(1, 1, 1), 0, &bytes, 10_000);
    let mut reader = follow(&cache, key(1, 1, 1), 1);
    make(&cache, key(1, 1, 2), 2, &bytes, 10_000);
    assert_eq!(cache.status().packs, 1);
    cache.expire(Duration::from_secs(1000));
    check_whole(&mut reader, &bytes, 1);
    drop(reader);
    assert_eq!(cache.status().packs, 1);
    cache.expire(Duration::from_secs(1299));
    assert_eq!(cache.status().packs, 1);
    cache.expire(Duration::from_secs(1300));
    assert_eq!((cache.status().packs, cache.status().memory_bytes), (0, 0));
}

#[test]
fn age_counts_from_the_last_use() {
    let cache = cache_of(CacheSettings::default());
    make(&cache, key(1, 1, 1), 0, b"a", 1);
    check_whole(&mut follow(&cache, key(1, 1, 1), 299), b"a", 1);
    check_whole(&mut follow(&cache, key(1, 1, 1), 598), b"a", 1);
    make(&cache, key(1, 1, 1), 898, b"a", 1);
    assert_eq!(cache.status().evictions, 1);
}

#[test]
fn another_version_of_a_repository_takes_the_place_of_the_one_before() {
    let cache = cache_of(CacheSettings::default());
    make(&cache, key(1, 1, 1), 0, b"one", 1);
    make(&cache, key(1, 1, 2), 0, b"two", 1);
    make(&cache, key(2, 1, 1), 0, b"other", 1);
    let mut running = follow(&cache, key(1, 1, 1), 0);
    make(&cache, key(1, 2, 1), 1, b"new", 1);
    assert_eq!((cache.status().packs, cache.status().evictions), (2, 2));
    check_whole(&mut running, b"one", 1);
    check_whole(&mut follow(&cache, key(2, 1, 1), 1), b"other", 1);
    check_whole(&mut follow(&cache, key(1, 2, 1), 1), b"new", 1);
}

#[test]
fn nothing_is_shared_where_it_is_turned_off() {
    for cache in
        [PackCache::default(), cache_of(CacheSettings { enabled: false, ..CacheSettings::default() })]
    {
        for _ in 0..2 {
            let Joined::Produce(producer) = cache.join(|| unreachable!("nobody asks"), Duration::ZERO) else {
                panic!("nobody else makes it")
            };
            let mut reader = producer
                .launch(|generator| {
                    (0..100).for_each(|_| generator.push(owned(&[7; 1 << 20])));
                    Ok(totals(1))
                })
                .unwrap();
            check_whole(&mut reader, &vec![7; 100 << 20], 1);
        }
        assert_eq!(cache.status(), CacheStatus::default());
    }
}

#[test]
fn progress_comes_in_order_and_ends_with_the_last_report() {
    let mut reader = PackCache::produce_alone()
        .launch(|generator| {
            for done in 1..=1000 {
                generator.report(Phase::Counting, done, 1000);
            }
            generator.report(Phase::Writing, 0, 10);
            for done in 1..=10 {
                generator.push(owned(&[7; 1 << 17]));
                generator.report(Phase::Writing, done, 10);
            }
            Ok(totals(1))
        })
        .unwrap();
    let mut seen: Vec<(Phase, u64)> = Vec::new();
    let mut pieces = 0;
    loop {
        match reader.next(PATIENCE) {
            Some(Event::Progress { phase, done, .. }) => seen.push((phase, done)),
            Some(Event::Segment(_)) => pieces += 1,
            Some(Event::End(result)) => break assert_eq!(result.unwrap(), Some(totals(1))),
            // A report alone wakes no reader.
            None => {}
            other => panic!("{other:?}"),
        }
    }
    let writing = seen.iter().position(|(phase, _)| *phase == Phase::Writing).unwrap();
    assert!(seen[..writing].iter().all(|(phase, _)| *phase == Phase::Counting), "{seen:?}");
    assert_eq!((seen[writing - 1].1, seen.last(), pieces), (1000, Some(&(Phase::Writing, 10)), 10));
    assert!(seen.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].1 < pair[1].1), "{seen:?}");
}

/// Segments of all lengths, from memory and from a file.
fn some_segments(random: &mut Random, stored: &[u8], map: &Mapped) -> Vec<Segment> {
    let count = 1 + random.below(120);
    let segment = |_| {
        let longest = [20, 5000, 200_000][random.below(3)];
        let length = random.below(longest);
        match random.below(2) {
            0 => owned(&stored[..length]),
            _ => {
                let start = random.below(stored.len() - length);
                Segment::Mapped(map.clone(), start..start + length)
            }
        }
    };
    (0..count).map(segment).collect()
}

/// Reads to the end, with pauses; returns whether that was the end of the whole pack.
fn read_slowly(reader: &mut Reader, random: &mut Random, expect: &[u8]) -> bool {
    let mut bytes = Vec::new();
    loop {
        if random.below(20) == 0 {
            std::thread::sleep(Duration::from_millis(random.below(5) as u64));
        }
        match reader.next(PATIENCE) {
            Some(Event::Segment(segment)) => bytes.extend_from_slice(segment.bytes()),
            Some(Event::Progress { .. }) => {}
            Some(Event::End(result)) => {
                result.unwrap();
                assert!(bytes == *expect);
                return true;
            }
            Some(Event::Lagged) => {
                assert!(expect.starts_with(&bytes));
                return false;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Whatever the segments, bounds and paces: every reader gets the same whole pack, or knows that it does not.
#[test]
fn every_reader_gets_the_same_bytes() {
    let directory = packrace_testkit::scratch_dir();
    let path = directory.path().join("pack");
    let mut random = Random::new(9);
    let stored = random.bytes(1 << 20);
    std::fs::write(&path, &stored).unwrap();
    let map = Mapped::open(&path, Role::Pack).unwrap();
    for round in 0..60 {
        let segments = some_segments(&mut random, &stored, &map);
        let expect: Vec<u8> = segments.iter().flat_map(|segment| segment.bytes().to_vec()).collect();
        let bounds = Bounds {
            lead_pieces: 1 + random.below(16) as u64,
            lead_bytes: random.below(1 << 20) as u64,
            kept_bytes: random.below(4 << 20) as u64,
            held_bytes: random.below(2 << 20) as u64,
            patience: Duration::from_millis(random.below(3) as u64),
        };
        let has_disk = random.below(3) > 0;
        let cache = PackCache::with_bounds(
            CacheSettings {
                max_memory_bytes: random.below(6 << 20) as u64,
                max_disk_bytes: random.below(20 << 20) as u64,
                directory: has_disk.then(|| directory.path().to_owned()),
                ..CacheSettings::default()
            },
            Arc::default(),
            bounds,
        );
        let readers = 1 + random.below(4);
        let left_behind = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for number in 0..readers {
                let (cache, segments, expect, left_behind) =
                    (&cache, segments.clone(), &expect, &left_behind);
                let mut random = Random::new(1000 * round + number as u64);
                scope.spawn(move || {
                    let mut reader = match cache.join(|| key(1, 1, 1), Duration::ZERO) {
                        Joined::Follow(reader) => reader,
                        Joined::Produce(producer) => producer
                            .launch(|generator| {
                                segments.into_iter().for_each(|segment| generator.push(segment));
                                Ok(totals(1))
                            })
                            .unwrap(),
                    };
                    if !read_slowly(&mut reader, &mut random, expect) {
                        left_behind.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        assert!(left_behind.into_inner() < readers, "the fastest is never left behind");
        let CacheStatus { memory_bytes, disk_bytes, .. } = cache.status();
        cache.expire(Duration::from_secs(300));
        let after = cache.status();
        assert_eq!(
            (after.packs, after.memory_bytes, after.disk_bytes),
            (0, 0, 0),
            "{memory_bytes} {disk_bytes}"
        );
    }
}
