//! Input: hash (1 byte), a `packed-refs` file. Where the file is right, every ref must be found by its name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_format::packed_refs::{PackedRef, PackedRefs};
use packrace_object::HashKind;

fuzz_target!(|input: &[u8]| {
    let [hash, file @ ..] = input else { return };
    let hash = if hash & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let Ok(refs) = PackedRefs::open(file, hash) else { return };
    let all: Result<Vec<PackedRef<'_>>, _> = refs.iter_from(b"").collect();
    for name in file.split(|byte| matches!(byte, b' ' | b'\n')).take(100) {
        if let Ok(Some(found)) = refs.find(name) {
            assert_eq!(found.name, name);
        }
        refs.iter_from(name).take(3).for_each(|_| {});
    }
    let Ok(all) = all else { return };
    assert!(all.len() * hash.len_in_hex() <= file.len());
    if !all.is_sorted_by(|a, b| a.name < b.name) {
        return;
    }
    for (number, expect) in all.iter().enumerate() {
        assert_eq!(refs.find(expect.name), Ok(Some(*expect)));
        let mut absent = expect.name.to_vec();
        absent.push(0);
        let after = refs.iter_from(&absent).next().transpose().expect("all were read before");
        assert_eq!(
            after.filter(|found| found.name != absent),
            all.get(number + 1).copied().filter(|next| next.name != absent)
        );
    }
});
