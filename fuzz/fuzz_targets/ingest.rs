//! Input: settings (1 byte: hash, threads, checks), then a pack without its checksum, which is added.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use packrace_object::fsck::{Rules, Severities, SkipList};
use packrace_object::{HashKind, TrailerHasher, object_id};
use packrace_pack::NoProgress;
use packrace_pack::ingest::{Checks, Ingest, IngestOptions, MaxUnpacked};
use packrace_store::Mapped;

fuzz_target!(|input: &[u8]| {
    let [settings, pack @ ..] = input else { return };
    let hash = if settings & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let rules = Rules { severities: Severities::strict(), skip: SkipList::default() };
    let options = IngestOptions {
        hash,
        threads: 1 + usize::from(settings >> 1 & 1),
        cache_bytes: usize::from(settings >> 4) << 8,
        max_bytes: None,
        max_objects: None,
        max_unpacked: Some(MaxUnpacked { bytes: 64 << 20, times_pack: 2000 }),
        fix_thin: false,
        skip_unreadable: false,
        level: 1,
        refuse_duplicates: settings >> 2 & 1 == 1,
        checks: (settings >> 3 & 1 == 1).then(|| Checks {
            rules: Some(Arc::new(rules)),
            links: true,
            lists_links: true,
            shallow: Vec::new(),
        }),
    };
    let mut hasher = TrailerHasher::new(hash);
    hasher.update(pack);
    let sealed = [pack, hasher.finish().as_slice()].concat();
    let taken = Ingest::read_file(Mapped::from(sealed), options, &NoProgress);
    let Ok(indexed) = taken.and_then(|ingest| ingest.resolve(None, &NoProgress)) else { return };
    let listed = indexed.list().expect("what was taken can be listed");
    assert_eq!(listed.len(), indexed.entries().len());
    if listed.is_empty() {
        return;
    }
    let mut reader = indexed.snapshot().expect("the index fits the pack").reader(1 << 16);
    for object in listed {
        let read = reader.read(&object.id).expect("what was named can be read");
        assert_eq!(object_id(hash, read.kind, &read.data), Ok(object.id));
        assert_eq!(object.kind, read.kind);
    }
});
