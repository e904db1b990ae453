//! Input: most bytes that a delta may take (2 bytes), length of the base (2 bytes), the base, the target. What is encoded makes
//! the target again, and fits; what is not leaves no trace. That nothing is given up that would have fitted is not promised.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_format::pack::{DeltaIndex, delta};

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
    assert!(index.encode(base, target, usize::MAX, &mut whole));
    let whole = whole.strip_prefix(b"before").expect("only appended to");
    let mut again = Vec::new();
    delta::apply(base, whole, &mut again).expect("own deltas are read");
    assert!(again == target);
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
