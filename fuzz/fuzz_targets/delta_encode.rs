//! Input: most bytes that a delta may take (2 bytes), length of the base (2 bytes), the base, the target. What is encoded makes
//! the target again, and fits; what is not leaves no trace. That nothing is given up that would have fitted is not promised.
//! The inverse of that delta, and of the target read as a delta, makes the base from the result.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_format::pack::{DeltaIndex, delta, invert};

/// Longer results are not made.
const MAX_RESULT_BYTES: u64 = 1 << 20;

/// Inverts a delta, damaged or not, of an object on `base`.
fn check_inverse(delta: &[u8], base: &[u8], max_bytes: usize) {
    let mut inverse = b"before".to_vec();
    match invert(delta, base, max_bytes, &mut inverse) {
        Ok(true) if delta::sizes(delta).is_ok_and(|sizes| sizes.result <= MAX_RESULT_BYTES) => {
            assert!(inverse.len() - 6 <= max_bytes);
            let (mut result, mut again) = (Vec::new(), Vec::new());
            delta::apply(base, delta, &mut result).expect("what is inverted can be applied");
            delta::apply(&result, &inverse[6..], &mut again).expect("inverses are read");
            assert!(again == base);
        }
        Ok(true) => {}
        Ok(false) | Err(_) => assert_eq!(inverse, b"before"),
    }
}

fuzz_target!(|input: &[u8]| {
    let [high, low, base_high, base_low, rest @ ..] = input else { return };
    let max_bytes = usize::from(u16::from_be_bytes([*high, *low]));
    let base_bytes = usize::from(u16::from_be_bytes([*base_high, *base_low])).min(rest.len());
    let (base, target) = rest.split_at(base_bytes);
    let mut index = DeltaIndex::default();
    // What was indexed before leaves no trace.
    index.build(target);
    index.build(base);
    let mut whole = b"before".to_vec();
    // git reads no delta that makes nothing.
    assert_eq!(index.encode(base, target, usize::MAX, &mut whole), !target.is_empty());
    if target.is_empty() {
        assert_eq!(whole, b"before");
        return;
    }
    let whole = whole.strip_prefix(b"before").expect("only appended to");
    let mut again = Vec::new();
    delta::apply(base, whole, &mut again).expect("own deltas are read");
    assert!(again == target);
    check_inverse(whole, base, usize::MAX);
    check_inverse(whole, base, max_bytes);
    check_inverse(target, base, usize::MAX);
    let mut limited = b"before".to_vec();
    if index.encode(base, target, max_bytes, &mut limited) {
        assert!(limited.len() - 6 <= max_bytes);
        assert_eq!(&limited[6..], whole);
    } else {
        assert_eq!(limited, b"before");
        // Where no match can begin before the block that it is found by.
        assert!(whole.len() > max_bytes || target.len() >= 32);
    }
});
