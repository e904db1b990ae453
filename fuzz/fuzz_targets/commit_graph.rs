//! Input: hash (1 byte), length of a base file (2 bytes, 0 for none), the base file, a last file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_format::commit_graph::{CommitGraph, check_fits};
use packrace_object::HashKind;

fuzz_target!(|input: &[u8]| {
    let [hash, high, low, rest @ ..] = input else { return };
    let hash = if hash & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let Some((base, top)) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low]))) else {
        return;
    };
    let files: &[&[u8]] = if base.is_empty() { &[top] } else { &[base, top] };
    let fits = check_fits(top, &files[..files.len() - 1], hash);
    let Ok(graph) = CommitGraph::open(files.iter(), hash) else { return };
    assert_eq!(fits, Ok(()));
    for position in 0..graph.len() {
        let id = graph.id_at(position);
        assert!(graph.position_of(id).is_none_or(|found| graph.id_at(found) == id));
        if let Ok(commit) = graph.commit_at(position) {
            let count = commit.parents.len();
            // A list of thousands of parents is read again for every commit that shares it.
            assert!(commit.parents.clone().take(1000).all(|parent| parent < graph.len()));
            assert!(count < 1000 || commit.parents.size_hint() == (count, Some(count)));
        }
        if let Ok(Some((settings, filter))) = graph.filter_at(position) {
            assert!(!filter.is_empty());
            assert!(settings.filter(&mut vec![u64::from(position)]).len() <= 128);
        }
    }
    let _ = (
        graph.generations(),
        graph.filter_settings(),
        graph.filter_faults().len(),
        graph.checksum(),
        graph.verify_checksum(),
    );
});
