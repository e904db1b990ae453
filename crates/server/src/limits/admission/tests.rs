use super::*;

const NOT_AT_ALL: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(60);

fn admission(max_clones: usize, per_repository: usize, max_queued: usize) -> AdmissionControl {
    AdmissionControl::new(&AdmissionSettings {
        max_clones,
        max_clones_per_repository: per_repository,
        max_queued,
        pack_memory_bytes: 100,
        ..AdmissionSettings::default()
    })
}

fn admitted(entry: Admission) -> AdmissionPermit {
    match entry {
        Admission::Admitted(held) => held,
        other => panic!("{other:?}"),
    }
}

fn waiting(entry: Admission) -> Waiting {
    match entry {
        Admission::Queued(waiting) => waiting,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_comes_first_goes_first() {
    let admission = admission(2, 2, 3);
    let enter = |name: &str| admission.enter(Path::new(name));
    let (first, second) = (admitted(enter("a")), admitted(enter("b")));
    let (third, fourth, fifth) = (waiting(enter("a")), waiting(enter("a")), waiting(enter("b")));
    assert!(matches!(enter("c"), Admission::QueueFull));
    assert_eq!((third.ahead(), fourth.ahead(), fifth.ahead()), (0, 1, 2));
    assert_eq!(admission.clones(), (2, 3));
    let third = third.wait(NOT_AT_ALL).unwrap_err();
    drop(first);
    let third = third.wait(LONG).unwrap();
    let fourth = fourth.wait(NOT_AT_ALL).unwrap_err();
    // Dropping a waiting request lets the next one move up; an admission just before that is passed on.
    drop(second);
    drop(fourth);
    let fifth = fifth.wait(LONG).unwrap();
    drop((third, fifth));
    assert_eq!(admission.clones(), (0, 0));
}

#[test]
fn a_full_repository_holds_up_nobody_else() {
    let admission = admission(3, 1, 8);
    let enter = |name: &str| admission.enter(Path::new(name));
    let first = admitted(enter("a"));
    let second = waiting(enter("a"));
    let other = admitted(enter("b"));
    drop(other);
    let second = second.wait(NOT_AT_ALL).unwrap_err();
    drop(first);
    drop(second.wait(LONG).unwrap());
    assert_eq!(admission.clones(), (0, 0));
}

#[test]
fn memory_is_claimed_in_order_and_never_for_nobody() {
    let admission = admission(1, 1, 1);
    // One is admitted whatever its size.
    let huge = admitted(admission.claim(1000));
    let (large, small) = (waiting(admission.claim(90)), waiting(admission.claim(5)));
    let fetch = admission.take(20);
    drop(huge);
    // A small one does not overtake a large one, which would then wait for ever.
    let (large, small) = (large.wait(NOT_AT_ALL).unwrap_err(), small.wait(NOT_AT_ALL).unwrap_err());
    drop(fetch);
    drop((large.wait(LONG).unwrap(), small.wait(LONG).unwrap()));
}

#[test]
fn limits_may_change_while_some_wait() {
    let admission = admission(1, 1, 1);
    let enter = |name: &str| admission.enter(Path::new(name));
    let first = admitted(enter("a"));
    let second = waiting(enter("b"));
    admission.set(&AdmissionSettings { max_clones: 2, ..AdmissionSettings::default() });
    let second = second.wait(LONG).unwrap();
    admission.set(&AdmissionSettings { max_clones: 1, max_queued: 0, ..AdmissionSettings::default() });
    assert!(matches!(enter("c"), Admission::QueueFull));
    drop((first, second));
    assert!(matches!(enter("c"), Admission::Admitted(_)));
    assert!(AdmissionControl::default().max_queue_time().is_none());
}

#[test]
fn many_at_once() {
    let admission = admission(4, 3, 1000);
    let inside = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..32 {
            let (admission, inside) = (&admission, &inside);
            scope.spawn(move || {
                for round in 0..100 {
                    let name = if (thread + round) % 3 == 0 { "a" } else { "b" };
                    let held = match admission.enter(Path::new(name)) {
                        Admission::Admitted(held) => held,
                        Admission::QueueFull => panic!("there is room for all"),
                        Admission::Queued(waiting) => {
                            // Some give up.
                            let limit = if round % 10 == 0 { NOT_AT_ALL } else { LONG };
                            let Ok(held) = waiting.wait(limit) else { continue };
                            held
                        }
                    };
                    assert!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 4);
                    std::thread::yield_now();
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    drop(held);
                }
            });
        }
    });
    assert_eq!(admission.clones(), (0, 0));
}
