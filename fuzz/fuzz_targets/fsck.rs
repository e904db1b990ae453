//! Input: hash and kind (1 byte), the content of an object. Whatever is found is found again, and
//! no control character is handed on.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use packrace_object::fsck::{
    Checker, Content, Pending, Rules, Severities, SkipList, SpecialFile, links, readable,
};
use packrace_object::{HashKind, Kind};

fuzz_target!(|input: &[u8]| {
    let [flags, content @ ..] = input else { return };
    let hash = if flags & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let kind = Kind::ALL[usize::from(flags >> 1) % 4];
    let id = hash.empty_tree();
    let mut severities = Severities::strict();
    let mut skip = SkipList::default();
    if flags & 8 != 0 {
        let _ = severities.set_all(content);
        let _ = skip.add(content, hash);
    }
    let mut checker = Checker::new(Arc::new(Rules { severities, skip }), hash);
    let findings = checker.check(kind, &id, content);
    assert_eq!(checker.clone().check(kind, &id, content), findings);
    let mut lines = Vec::new();
    findings.iter().for_each(|finding| finding.write_line(&mut lines));
    assert!(lines.iter().all(|byte| matches!(byte, b'\n' | b'\t') || !byte.is_ascii_control()));
    for pending in checker.pending() {
        checker.check_pending(pending, Content::Missing);
    }
    for file in [SpecialFile::Modules, SpecialFile::Attributes] {
        checker.check_pending(Pending { file, id }, Content::Blob(content));
    }
    let mut count = 0;
    let found = links(kind, content, hash, |_, _| count += 1);
    assert!(count * hash.len_in_bytes() <= content.len());
    let _ = (found, readable(kind, &id, content, hash));
});
