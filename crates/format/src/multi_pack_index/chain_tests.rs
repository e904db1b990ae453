use packrace_testkit::{Repo, Storage};

use super::*;
use crate::multi_pack_index::CompactedBits::{ByName, Kept, No};
use crate::multi_pack_index::{Base, SourcePack, WriteOptions, compact, write};
use crate::pack_index::PackIndex;
use crate::test_files::{HASHES, damage, pack_files, read, tiny};

fn indexes(repo: &Repo) -> Vec<(String, PackIndex<Vec<u8>>)> {
    let open = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, PackIndex::open(read(path), repo.hash()).unwrap())
    };
    pack_files(repo, "idx").iter().map(open).collect()
}

/// A file of these packs on top of `chain`.
fn add(chain: &mut MultiPackIndexChain<Vec<u8>>, packs: &[(String, PackIndex<Vec<u8>>)], bit_order: bool) {
    let sources = packs.iter().map(|(name, index)| SourcePack { name, index, modified_seconds: 1000 });
    let sources: Vec<_> = sources.collect();
    let hash = packs[0].1.hash_kind();
    let base = Base { objects: chain.len(), has: &|id| chain.position_of(id).is_some() };
    let bytes = write(&sources, hash, base, None, WriteOptions { preferred: None, bit_order }).unwrap();
    push(chain, bytes, hash).unwrap();
}

fn push(chain: &mut MultiPackIndexChain<Vec<u8>>, bytes: Vec<u8>, hash: HashKind) -> Result<(), Error> {
    let checksum = crate::checksum::trailer(&bytes, hash);
    chain.push(bytes, &checksum)
}

/// A chain of as many files as there are packs.
fn grown(repo: &Repo, bit_order: bool) -> MultiPackIndexChain<Vec<u8>> {
    let mut chain = MultiPackIndexChain::empty();
    indexes(repo).chunks(1).for_each(|pack| add(&mut chain, pack, bit_order));
    chain
}

/// Every object of every pack once, where its pack's index says.
fn check(repo: &Repo, chain: &MultiPackIndexChain<Vec<u8>>) {
    let indexes = indexes(repo);
    let names: Vec<&str> = chain.pack_names().collect();
    assert_eq!((names.len(), chain.pack_count()), (indexes.len(), indexes.len() as u32));
    let mut all = std::collections::BTreeSet::new();
    for (_, index) in &indexes {
        all.extend((0..index.len()).map(|position| index.id_at(position).to_owned()));
    }
    assert_eq!(chain.len() as usize, all.len());
    for id in &all {
        let position = chain.position_of(id).unwrap();
        assert_eq!(*chain.id_at(position), **id);
        assert!(chain.positions_of_prefix(id, 7).any(|found| found == position));
        let (pack, offset) = chain.pack_and_offset_at(position).unwrap();
        let (_, index) = indexes.iter().find(|(name, _)| *name == names[pack as usize]).unwrap();
        assert_eq!(index.offset_at(index.position_of(id).unwrap()), offset);
        assert_eq!(chain.position_of(&repo.hash().null()), None);
    }
    if chain.layers().iter().all(MultiPackIndex::has_bit_order) {
        for bit in 0..chain.len() {
            assert_eq!(chain.bit_of_position(chain.position_at_bit(bit).unwrap()), Some(bit));
        }
    }
}

fn ids_by_bit(chain: &MultiPackIndexChain<Vec<u8>>) -> Vec<ObjectId> {
    (0..chain.len()).map(|bit| chain.id_at(chain.position_at_bit(bit).unwrap()).to_owned()).collect()
}

#[test]
fn numbers_count_through_all_files() {
    for hash in HASHES {
        let repo = tiny(hash, Storage { packs: 4, ..Storage::default() });
        for bit_order in [false, true] {
            let mut chain = grown(&repo, bit_order);
            assert!(chain.layers().len() >= 4);
            check(&repo, &chain);
            let (first, last) = (chain.range_of_layer(0), chain.range_of_layer(chain.layers().len() - 1));
            assert_eq!((first.start, last.end), (0, chain.len()));
            chain.truncate(1);
            assert_eq!((chain.len(), chain.pack_count()), (first.end, 1));
        }
    }
}

#[test]
fn files_as_git_writes_them() {
    let repo = tiny(HashKind::Sha1, Storage { packs: 4, ..Storage::default() });
    let dir = repo.path().join("objects/pack/multi-pack-index.d");
    let indexes = indexes(&repo);
    let mut ours = MultiPackIndexChain::empty();
    for pack in indexes.chunks(2) {
        let names: Vec<&str> = pack.iter().map(|(name, _)| name.as_str()).collect();
        let args = ["multi-pack-index", "write", "--incremental", "--stdin-packs"];
        repo.git_with_input(&args, names.join("\n").as_bytes());
        add(&mut ours, pack, false);
        let top = ours.layers().last().unwrap();
        let of_git = read(&dir.join(format!("multi-pack-index-{}.midx", top.checksum())));
        assert!(of_git == *top.data());
    }
    let list = read(&dir.join("multi-pack-index-chain"));
    let checksums: Vec<ObjectId> = ours.layers().iter().map(MultiPackIndex::checksum).collect();
    assert_eq!(parse_chain_file(&list, HashKind::Sha1).as_ref(), Some(&checksums));
    assert_eq!(chain_file(&checksums), list);
    assert_eq!(parse_chain_file(b"", HashKind::Sha1), Some(Vec::new()));
    for bad in [&b"../../x\n"[..], b"1234\n", &list[1..], &[0xff; 41]] {
        assert_eq!(parse_chain_file(bad, HashKind::Sha1), None);
    }
    assert_eq!(parse_chain_file(&list, HashKind::Sha256), None);
}

#[test]
fn compacting_keeps_every_bit() {
    for hash in HASHES {
        let repo = tiny(hash, Storage { packs: 5, ..Storage::default() });
        let chain = grown(&repo, true);
        let count = chain.layers().len();
        let bits = ids_by_bit(&chain);
        for from in 0..count {
            for to in from + 1..=count {
                let mut compacted = chain.clone();
                compacted.truncate(from);
                let bytes = compact(&chain.layers()[from..to], hash, compacted.len(), Kept).unwrap();
                push(&mut compacted, bytes, hash).unwrap();
                for layer in &chain.layers()[to..] {
                    push(&mut compacted, layer.data().clone(), hash).unwrap();
                }
                assert_eq!(compacted.layers().len(), count + 1 - (to - from));
                check(&repo, &compacted);
                assert_eq!(ids_by_bit(&compacted), bits, "{from}..{to}");
                // Again, with a file whose packs are not in the order of their names.
                let again = compact(compacted.layers(), hash, 0, Kept).unwrap();
                let again = MultiPackIndex::open(again, hash).unwrap().into();
                check(&repo, &again);
                assert_eq!(ids_by_bit(&again), bits, "{from}..{to}");
            }
        }
        let without_bits = grown(&repo, false);
        let bytes = compact(without_bits.layers(), hash, 0, No).unwrap();
        check(&repo, &MultiPackIndex::open(bytes, hash).unwrap().into());
    }
}

#[test]
fn a_preferred_pack_stays_first() {
    let repo = tiny(HashKind::Sha1, Storage { packs: 4, ..Storage::default() });
    let indexes = indexes(&repo);
    let sources: Vec<_> =
        indexes[..3].iter().map(|(name, index)| SourcePack { name, index, modified_seconds: 0 }).collect();
    let options = WriteOptions { preferred: Some(1), bit_order: true };
    let bytes = write(&sources, HashKind::Sha1, Base::NONE, None, options).unwrap();
    let mut chain = MultiPackIndexChain::empty();
    push(&mut chain, bytes, HashKind::Sha1).unwrap();
    add(&mut chain, &indexes[3..], true);
    let by_name = compact(chain.layers(), HashKind::Sha1, 0, ByName).unwrap();
    assert_eq!(by_name[4], 1);
    check(&repo, &MultiPackIndex::open(by_name, HashKind::Sha1).unwrap().into());
    let bytes = compact(chain.layers(), HashKind::Sha1, 0, Kept).unwrap();
    let compacted: MultiPackIndexChain<_> = MultiPackIndex::open(bytes, HashKind::Sha1).unwrap().into();
    check(&repo, &compacted);
    assert_eq!(ids_by_bit(&compacted), ids_by_bit(&chain));
    assert_eq!(compacted.layers()[0].data()[4], 2, "packs are not sorted by name");
}

#[test]
fn a_file_for_another_place_is_refused() {
    let repo = tiny(HashKind::Sha1, Storage { packs: 3, ..Storage::default() });
    let chain = grown(&repo, true);
    let upper = chain.layers()[1].data();
    let refused = MultiPackIndex::open(upper.clone(), HashKind::Sha1).map(drop).unwrap_err();
    assert_eq!(refused.what, "position is beyond the index");
    let refused = MultiPackIndex::open_layer(upper.clone(), HashKind::Sha1, u32::MAX).map(drop).unwrap_err();
    assert_eq!(refused.what, "more than 4294967295 objects");
    let mut other = MultiPackIndexChain::empty();
    let refused = other.push(upper.clone(), &HashKind::Sha1.null()).unwrap_err();
    assert!(other.is_empty() && !refused.what.is_empty());
    let base = chain.range_of_layer(1).start;
    damage(upper, |bytes| {
        let Ok(layer) = MultiPackIndex::open_layer(bytes, HashKind::Sha1, base) else { return false };
        for position in 0..layer.len() {
            assert!(layer.position_at_bit(position).is_none_or(|position| position < layer.len()));
            layer.bit_of_position(position);
        }
        (0..layer.pack_count()).for_each(|pack| _ = layer.bitmapped_pack(pack));
        let _ = compact(std::slice::from_ref(&layer), HashKind::Sha1, base, Kept);
        true
    });
}
