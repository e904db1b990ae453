//! Changed-path Bloom filters: which paths differ between a commit and its first parent
//! (gitformat-commit-graph, "Bloom Filter Index" and "Bloom Filter Data").
//!
//! ```text
//! BIDX  end of each commit's filter, counted from the first filter: u32 × n
//! BDAT  version of the hash: u32 | hashes of a path: u32 | bits for a path: u32 | filters
//! ```
//!
//! A filter of 0 bytes was not computed. No changes: one zero byte; more than [`MAX_CHANGED_PATHS`]: one byte
//! of ones.

use std::ops::Range;

use packrace_object::ObjectId;

use crate::be;
use crate::chunks::Chunks;

/// The most changed paths, with their directories, that a filter describes.
pub const MAX_CHANGED_PATHS: usize = 512;

const HEADER_BYTES: usize = 12;

/// Git writes 7 hashes and 10 bits. Filters with more are not used, so that a file cannot ask for unbounded
/// work.
const MAX_HASHES: u32 = 64;
const MAX_BITS: u32 = 1024;

/// The seeds of the two hashes of a path. The document drops the last digit of the second; git's files show it.
const SEEDS: [u32; 2] = [0x293a_e76f, 0x7e64_6e2c];

/// How a path is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathHash {
    /// Version 1: murmur3 of signed bytes, which differs for bytes of 0x80 and more.
    SignedBytes,
    /// Version 2: murmur3.
    Murmur3,
}

/// What the filters of a file have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterSettings {
    /// The version of the hash.
    pub hash: PathHash,
    /// The number of bits that a path sets.
    pub hashes: u32,
    /// The number of bits that a filter has for each path.
    pub bits: u32,
}

/// The filters of a new file.
#[derive(Debug, Clone)]
pub struct PathFilters {
    /// Their settings.
    pub settings: FilterSettings,
    /// By row of the file; empty for a commit whose filter is not computed.
    pub filters: Vec<Box<[u8]>>,
}

/// Why filters of a file are not used. Readers can do without.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterFault {
    /// BIDX has not one row for each commit.
    #[error("commit-graph changed-path index chunk is too small")]
    IndexSize,
    /// BDAT is shorter than its header.
    #[error("ignoring too-small changed-path chunk ({0} < 12) in commit-graph file")]
    DataSize(usize),
    /// The header has unknown or unreasonable values.
    #[error("ignoring changed-path filters of version {version} with {hashes} hashes and {bits} bits")]
    Unsupported {
        /// The version of the hash.
        version: u32,
        /// The number of bits that a path sets.
        hashes: u32,
        /// The number of bits for each path.
        bits: u32,
    },
    /// A file above it in the chain has filters with other settings.
    #[error("disabling Bloom filters for commit-graph layer '{0}' due to incompatible settings")]
    OtherSettings(ObjectId),
    /// A filter is beyond BDAT.
    #[error(
        "ignoring out-of-range offset ({offset}) for changed-path filter at pos {row} (chunk size: {size})"
    )]
    Beyond {
        /// The end of the filter.
        offset: u32,
        /// The row of the commit in its file.
        row: u32,
        /// The length of BDAT.
        size: usize,
    },
    /// A filter ends before it begins.
    #[error("ignoring decreasing changed-path index offsets ({start} > {end}) for positions {} and {row}", row - 1)]
    Decreasing {
        /// The start of the filter.
        start: u32,
        /// Its end.
        end: u32,
        /// The row of the commit in its file.
        row: u32,
    },
}

impl PathHash {
    /// The version's number in files and in the configuration.
    pub fn version(self) -> u32 {
        match self {
            PathHash::SignedBytes => 1,
            PathHash::Murmur3 => 2,
        }
    }

    fn of_version(version: u32) -> Option<Self> {
        [PathHash::SignedBytes, PathHash::Murmur3].into_iter().find(|hash| hash.version() == version)
    }

    /// The two 32-bit hashes of a path.
    pub fn hash(self, path: &[u8]) -> u64 {
        let [first, second] = SEEDS.map(|seed| match self {
            PathHash::SignedBytes => murmur3(path, seed, |byte| byte as i8 as u32),
            PathHash::Murmur3 => murmur3(path, seed, u32::from),
        });
        u64::from(first) << 32 | u64::from(second)
    }
}

impl FilterSettings {
    /// Git's settings, with this hash.
    pub fn new(hash: PathHash) -> Self {
        FilterSettings { hash, hashes: 7, bits: 10 }
    }

    /// Other numbers, as far as they can be used.
    pub fn with_numbers(self, hashes: u32, bits: u32) -> Self {
        FilterSettings { hashes: hashes.clamp(1, MAX_HASHES), bits: bits.clamp(1, MAX_BITS), ..self }
    }

    /// The filter of a commit that changes nothing.
    pub fn filter_of_none() -> Box<[u8]> {
        Box::new([0])
    }

    /// The filter of a commit that changes more paths than a filter describes: it may change any.
    pub fn filter_of_many() -> Box<[u8]> {
        Box::new([0xff])
    }

    /// The filter of a commit that changes the paths with these hashes, at most [`MAX_CHANGED_PATHS`]; sorts them.
    pub fn filter(&self, paths: &mut Vec<u64>) -> Box<[u8]> {
        self.filter_up_to(MAX_CHANGED_PATHS, paths)
    }

    /// As above, with another limit, up to that one.
    pub fn filter_up_to(&self, max_paths: usize, paths: &mut Vec<u64>) -> Box<[u8]> {
        paths.sort_unstable();
        paths.dedup();
        if paths.is_empty() {
            return FilterSettings::filter_of_none();
        }
        if paths.len() > max_paths.min(MAX_CHANGED_PATHS) {
            return FilterSettings::filter_of_many();
        }
        let mut filter = vec![0; (paths.len() * self.bits as usize).div_ceil(8)].into_boxed_slice();
        let bits = filter.len() as u32 * 8;
        for path in paths {
            let (first, second) = ((*path >> 32) as u32, *path as u32);
            for n in 0..self.hashes {
                let bit = first.wrapping_add(n.wrapping_mul(second)) % bits;
                filter[bit as usize / 8] |= 1 << (bit % 8);
            }
        }
        filter
    }
}

impl PathFilters {
    /// Makes BIDX and BDAT. Filters beyond the 4 GiB that BIDX can address are left out.
    pub(super) fn chunks(&self) -> (Vec<u8>, Vec<u8>) {
        let mut index = Vec::with_capacity(self.filters.len() * 4);
        let FilterSettings { hash, hashes, bits } = self.settings;
        let mut data: Vec<u8> = [hash.version(), hashes, bits].iter().flat_map(|n| n.to_be_bytes()).collect();
        for filter in &self.filters {
            if data.len() + filter.len() <= u32::MAX as usize {
                data.extend_from_slice(filter);
            }
            index.extend_from_slice(&((data.len() - HEADER_BYTES) as u32).to_be_bytes());
        }
        (index, data)
    }
}

/// Where a file has its filters.
#[derive(Debug, Clone)]
pub(super) struct FilterChunks {
    pub(super) settings: FilterSettings,
    index_at: usize,
    /// Without the header.
    data: Range<usize>,
}

impl FilterChunks {
    /// Finds the chunks in a file of `len` commits. One without the other is ignored.
    pub(super) fn open(bytes: &[u8], chunks: &Chunks, len: u32) -> Result<Option<Self>, FilterFault> {
        let (Some(index), Some(data)) = (chunks.find(b"BIDX"), chunks.find(b"BDAT")) else {
            return Ok(None);
        };
        // Git ignores bytes of an incomplete row.
        if index.len() / 4 != len as usize {
            return Err(FilterFault::IndexSize);
        }
        if data.len() < HEADER_BYTES {
            return Err(FilterFault::DataSize(data.len()));
        }
        let [version, hashes, bits] = [0, 4, 8].map(|at| be::u32_at(bytes, data.start + at));
        let hash = PathHash::of_version(version)
            .filter(|_| (1..=MAX_HASHES).contains(&hashes) && (1..=MAX_BITS).contains(&bits))
            .ok_or(FilterFault::Unsupported { version, hashes, bits })?;
        let settings = FilterSettings { hash, hashes, bits };
        Ok(Some(FilterChunks { settings, index_at: index.start, data: data.start + HEADER_BYTES..data.end }))
    }

    /// The filter of the commit in a row.
    pub(super) fn filter<'b>(&self, bytes: &'b [u8], row: u32) -> Result<&'b [u8], FilterFault> {
        let end_of = |row: u32| {
            let offset = be::u32_at(bytes, self.index_at + row as usize * 4);
            if offset as usize <= self.data.len() {
                return Ok(offset);
            }
            Err(FilterFault::Beyond { offset, row, size: self.data.len() + HEADER_BYTES })
        };
        let end = end_of(row)?;
        let start = if row == 0 { 0 } else { end_of(row - 1)? };
        if start > end {
            return Err(FilterFault::Decreasing { start, end, row });
        }
        Ok(&bytes[self.data.start + start as usize..self.data.start + end as usize])
    }
}

/// The 32-bit murmur3 hash (https://en.wikipedia.org/wiki/MurmurHash#Algorithm), with bytes widened by `wide`.
fn murmur3(bytes: &[u8], seed: u32, wide: impl Fn(u8) -> u32) -> u32 {
    let scrambled = |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let word = |bytes: &[u8]| {
        let shifted = bytes.iter().enumerate().map(|(n, byte)| wide(*byte) << (8 * n));
        shifted.fold([0, 0], |[or, xor], part| [or | part, xor ^ part])
    };
    let mut words = bytes.chunks_exact(4);
    let mut hash = seed;
    for bytes in &mut words {
        let [whole, _] = word(bytes);
        hash = (hash ^ scrambled(whole)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    // Widened bytes overlap; the algorithm combines those of the rest in another way.
    let [_, rest] = word(words.remainder());
    hash ^= scrambled(rest);
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur3_of_known_texts() {
        let check =
            |text: &[u8], seed, expect| assert_eq!(murmur3(text, seed, u32::from), expect, "{text:?}");
        check(b"", 0, 0);
        check(b"Hello world!", 0, 0x627b_0c2c);
        check(b"The quick brown fox jumps over the lazy dog", 0, 0x2e4f_f723);
    }

    #[test]
    fn the_two_hashes_agree_on_ascii_alone() {
        let differ = |path: &str| {
            PathHash::SignedBytes.hash(path.as_bytes()) != PathHash::Murmur3.hash(path.as_bytes())
        };
        assert!(!differ("crates/format/src/lib.rs"));
        assert!(!differ(""));
        for path in ["\u{e9}", "a\u{e9}", "ab\u{e9}", "abc\u{e9}", "abcd\u{e9}"] {
            assert!(differ(path), "{path}");
        }
    }

    #[test]
    fn special_filters() {
        let settings = FilterSettings::new(PathHash::Murmur3);
        let of = |count: u64| settings.filter(&mut (0..count).chain(0..count).collect());
        assert_eq!(*of(0), [0]);
        assert_eq!(of(1).len(), 2);
        assert_eq!(of(512).len(), 640);
        assert_eq!(*of(513), [0xff]);
    }
}
