//! Input: hash (1 byte), a bundle. What is read of its header is written, and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_format::bundle::BundleHeader;
use packrace_object::HashKind;

fuzz_target!(|input: &[u8]| {
    let [hash, file @ ..] = input else { return };
    let hash = if hash & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let Ok((header, length)) = BundleHeader::parse(file, hash) else { return };
    assert!(length <= file.len());
    if let Ok(bytes) = header.write(hash) {
        assert_eq!(BundleHeader::parse(&bytes, hash), Ok((header, bytes.len())));
    }
});
