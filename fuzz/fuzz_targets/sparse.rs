//! Input: length of a path (1 byte), the path, then patterns of a sparse checkout. They are read and say something in a time
//! that the size of the input justifies, and twice the same. A path of a tree has no NUL, and no part that is empty.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_pack::filter::sparse_decision;

fuzz_target!(|input: &[u8]| {
    let [length, rest @ ..] = input else { return };
    let (path, patterns) = rest.split_at(usize::from(*length).min(rest.len()));
    if path.contains(&0) || path.split(|byte| *byte == b'/').any(<[u8]>::is_empty) {
        return;
    }
    for is_dir in [false, true] {
        let decide = || sparse_decision(patterns, path, is_dir).ok();
        assert_eq!(decide(), decide());
    }
});
