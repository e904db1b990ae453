use std::sync::Arc;

use super::double::{Double, FaultRates};
use super::*;

fn bucket(seed: u64, rates: FaultRates) -> (Arc<Double>, Bucket) {
    let double = Arc::new(Double::with_faults(seed, rates));
    (double.clone(), Bucket::new(double))
}

#[test]
fn objects_are_created_swapped_and_deleted() {
    let (_, bucket) = bucket(1, FaultRates::default());
    let (one, two) = (Bytes::from_static(b"one"), Bytes::from_static(b"two"));
    assert_eq!(bucket.get_if_changed("a", None, 10).unwrap(), Looked::Absent);
    let WriteOutcome::Won(first) = bucket.put_new("a", &one).unwrap() else { panic!("not created") };
    assert!(matches!(bucket.put_new("a", &two).unwrap(), WriteOutcome::Lost { in_doubt: false }));
    assert_eq!(bucket.get_if_changed("a", Some(&first), 10).unwrap(), Looked::Unchanged);
    let WriteOutcome::Won(second) = bucket.swap("a", &first, &two).unwrap() else { panic!("not swapped") };
    assert!(matches!(bucket.swap("a", &first, &one).unwrap(), WriteOutcome::Lost { in_doubt: false }));
    assert_eq!(bucket.get_if_changed("a", Some(&first), 10).unwrap(), Looked::Found(two, second));
    assert_eq!(bucket.get_range("a", 1..3).unwrap().unwrap(), "wo");
    assert_eq!(bucket.get_if_changed("a", None, 2).unwrap_err().kind(), ErrorKind::Refused);
    bucket.delete("a").unwrap();
    assert_eq!(bucket.get_range("a", 1..3).unwrap(), None);
    let counts = bucket.counts();
    assert_eq!(counts.all_of(RequestKind::Put), 4);
    assert_eq!(counts.of(RequestKind::Put, RequestOutcome::Refused), 2);
    assert_eq!(counts.of(RequestKind::Get, RequestOutcome::Unchanged), 1);
    assert_eq!((counts.all(), counts.all_of(RequestKind::List)), (11, 0));
}

#[test]
fn a_store_that_is_busy_is_asked_a_few_times() {
    let (_, bucket) = bucket(1, FaultRates { busy: 1000, ..FaultRates::default() });
    assert_eq!(bucket.get_if_changed("a", None, 10).unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(bucket.counts().of(RequestKind::Get, RequestOutcome::Failed), u64::from(MAX_TRIES));
    assert!(matches!(bucket.put_new("a", &Bytes::new()).unwrap(), WriteOutcome::Unknown(_)));
    assert_eq!(bucket.counts().of(RequestKind::Put, RequestOutcome::Failed), u64::from(MAX_TRIES));
}

/// A read waits for one deadline, a conditional write for two.
#[test]
fn a_store_that_is_silent_is_not_asked_again_and_again() {
    let (double, bucket) = bucket(1, FaultRates::default());
    double.set_away(true);
    assert_eq!(bucket.get_if_changed("a", None, 10).unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(bucket.counts().of(RequestKind::Get, RequestOutcome::Failed), 1);
    assert!(matches!(bucket.put_new("a", &Bytes::new()).unwrap(), WriteOutcome::Unknown(_)));
    assert_eq!(bucket.counts().of(RequestKind::Put, RequestOutcome::Failed), 2);
}

/// Every key is listed once, even if pages are requested again, and no page is requested in vain.
#[test]
fn keys_are_listed_once() {
    let (double, bucket) = bucket(3, FaultRates::default());
    let names: Vec<String> = (0..10).map(|number| format!("a/{number}")).collect();
    names.iter().for_each(|name| double.damage(name, "x"));
    double.damage("b/0", "x");
    let listed = |stop: usize| {
        let mut keys = Vec::new();
        let each = &mut |key: &str| {
            keys.push(key.to_owned());
            if keys.len() == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        bucket.list("a/", each).unwrap();
        keys
    };
    assert_eq!(listed(0), names);
    assert_eq!(bucket.counts().all_of(RequestKind::List), 4);
    assert_eq!(listed(3), names[..3]);
    assert_eq!(bucket.counts().all_of(RequestKind::List), 5);
    double.set_rates(FaultRates { lost_before: 150, busy: 150, ..FaultRates::default() });
    (0..5).for_each(|_| assert_eq!(listed(0), names));
    assert!(bucket.counts().of(RequestKind::List, RequestOutcome::Failed) > 0);
}

/// The reported outcome of a write is the real one, whatever was lost, even after delayed writes have
/// arrived.
#[test]
fn what_is_said_of_a_write_is_true() {
    let rates = FaultRates { lost_before: 150, lost_after: 150, late: 150, busy: 100, cut: 100 };
    let mut seen = [0; 4];
    for seed in 0..1000 {
        let (double, bucket) = bucket(seed, rates);
        let mine = Bytes::from(format!("written by {seed}"));
        let outcome = bucket.put_new("a", &mine).unwrap();
        let found = double.object("a");
        match outcome {
            WriteOutcome::Won(_) => {
                assert_eq!(found.as_ref(), Some(&mine), "{seed}");
                seen[0] += 1;
            }
            WriteOutcome::Lost { in_doubt } => {
                // There is no other writer.
                assert!(in_doubt && found.as_ref() == Some(&mine), "{seed}");
                seen[1] += 1;
            }
            WriteOutcome::Unknown(_) => seen[2] += 1,
        }
        let Ok(Looked::Found(_, version)) = bucket.get_if_changed("a", None, 100) else { continue };
        let theirs = Bytes::from_static(b"theirs");
        bucket.backend.write("a", theirs.clone(), Condition::Always).ok();
        if double.object("a") != Some(theirs.clone()) {
            continue;
        }
        // A swap from a version that is gone never writes.
        assert!(!matches!(bucket.swap("a", &version, &mine), Ok(WriteOutcome::Won(_))), "{seed}");
        (0..100).for_each(|_| drop(bucket.get_range("a", 0..1)));
        assert_eq!(double.object("a"), Some(theirs), "{seed}");
        seen[3] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}
