//! Input: a head without its checksum, which is put behind it. What is read is written again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_format::head::{MAX_HEAD_BYTES, parse, write};
use packrace_object::{HashKind, TrailerHasher};

fuzz_target!(|input: &[u8]| {
    let _ = parse(input);
    let mut hasher = TrailerHasher::new(HashKind::Sha256);
    hasher.update(input);
    let bytes = [input, hasher.finish().as_bytes()].concat();
    if let Ok(head) = parse(&bytes) {
        assert!(bytes.len() <= MAX_HEAD_BYTES);
        assert_eq!(write(&head).expect("what was read fits"), bytes);
    }
});
