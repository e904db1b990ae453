//! Commit-graphs: parents, trees, dates and generations of commits, without opening objects
//! (gitformat-commit-graph).
//!
//! ```text
//! "CGPH" | version: u8 (1) | hash: u8 | chunks: u8 | base graphs: u8
//! table of chunks
//! OIDF  fan-out: u32 × 256          OIDL  id × n, sorted
//! CDAT  (tree: id, parent: u32 × 2, level: 30 bits, seconds: 34 bits) × n
//! GDA2  date offset: u32 × n        GDO2  large date offset: u64 × m
//! EDGE  parent: u32 × k             BASE  checksum × base graphs
//! BIDX, BDAT  filters of changed paths: see `path_filters`
//! checksum of all of the above
//! ```
//!
//! A chain is several files, each of which has the checksums of all files before it. Positions of commits
//! count through the whole chain from its base, and parents are positions.

mod path_filters;
mod split;
mod write;

use packrace_object::{HashKind, ObjectId, oid};

pub use path_filters::{FilterFault, FilterSettings, MAX_CHANGED_PATHS, PathFilters, PathHash};
pub use split::{Merging, layers_to_keep};
pub use write::{ArrangedCommits, Commits, FirstParent, GraphWriteError};

use crate::chunks::Chunks;
use crate::id_table::{FANOUT_BYTES, IdTable, check_fanout};
use crate::{Error, be, checksum};
use path_filters::FilterChunks;

const FORMAT: &str = "commit-graph";
const SIGNATURE: &[u8; 4] = b"CGPH";
const HEADER_BYTES: usize = 8;
const NO_PARENT: u32 = 0x7000_0000;
/// In a second parent: the rest is a row of EDGE; in EDGE: this is the last parent; in GDA2: the rest is a
/// row of GDO2.
const MARK: u32 = 1 << 31;

/// A view of a commit-graph, of one file or a chain.
#[derive(Debug, Clone)]
pub struct CommitGraph<D> {
    hash: HashKind,
    /// Base first; never empty.
    layers: Vec<Layer<D>>,
    len: u32,
    generations: Generations,
    filter_faults: Vec<FilterFault>,
}

/// What [`Commit::generation`] means in a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generations {
    /// One more than the largest level of the parents (version 1).
    TopologicalLevel,
    /// The committer's date, but later than the corrected date of every parent (version 2).
    CorrectedDate,
}

/// A commit's data in the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit<'a> {
    /// The root tree.
    pub tree: &'a oid,
    /// The positions of the parents, in order.
    pub parents: Parents<'a>,
    /// Greater than the generation of every ancestor; [`CommitGraph::generations`] is its kind. 0 means not
    /// computed. Stock git violates this if dates are more than 2³² seconds apart: a walk may then go wrong,
    /// but it must end.
    pub generation: u64,
    /// The committer's date, in seconds since 1970.
    pub committer_seconds: u64,
}

/// Why the parents of a commit cannot be read.
enum WrongParents {
    /// The position of one is beyond the graph.
    Beyond(u32),
    /// Their list is damaged.
    List(&'static str),
}

impl WrongParents {
    fn what(&self) -> &'static str {
        match self {
            WrongParents::Beyond(_) => "parent is beyond the graph",
            WrongParents::List(what) => what,
        }
    }
}

/// Why git does not read the data of a commit, in its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitFault {
    /// Its corrected date is in a table that the file lacks.
    #[error("commit-graph requires overflow generation data but has none")]
    NoLargeDates,
    /// Its corrected date is beyond that table.
    #[error("commit-graph overflow generation data is too small")]
    FewLargeDates,
    /// The position of a parent is beyond the graph.
    #[error("invalid parent position {0}")]
    ParentBeyond(u32),
    /// The list of its parents is beyond the extra edges, or does not end.
    #[error("commit-graph extra-edges pointer out of bounds")]
    Edges,
}

/// Iterates over the positions of a commit's parents; each is below [`CommitGraph::len`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parents<'a> {
    first: Option<u32>,
    second: Option<u32>,
    /// The rows of EDGE, for a commit with three or more parents; `second` is then unused.
    more: &'a [u8],
}

#[derive(Debug, Clone)]
struct Layer<D> {
    data: D,
    /// The position of the first commit.
    start: u32,
    ids: IdTable,
    commits_at: usize,
    dates_at: Option<usize>,
    large_dates_at: usize,
    large_dates: u32,
    edges_at: usize,
    edges: u32,
    filters: Option<FilterChunks>,
}

impl<D: AsRef<[u8]>> CommitGraph<D> {
    /// Opens the files of a chain, base first; a single file is a chain of one. Checks headers, bounds and
    /// sizes of chunks, fan-outs, and that each file names exactly the files before it as its base.
    pub fn open(files: impl IntoIterator<Item = D>, hash: HashKind) -> Result<Self, Error> {
        Self::open_files(files, hash, false)
    }

    /// As above, to compare the files with the commits: as in git, a file whose table of corrected dates is of the
    /// wrong size has levels only.
    pub fn open_to_compare(files: impl IntoIterator<Item = D>, hash: HashKind) -> Result<Self, Error> {
        Self::open_files(files, hash, true)
    }

    fn open_files(files: impl IntoIterator<Item = D>, hash: HashKind, compares: bool) -> Result<Self, Error> {
        let mut layers: Vec<Layer<D>> = Vec::new();
        let mut filter_faults = Vec::new();
        let mut len = 0u32;
        for data in files {
            let bytes = data.as_ref();
            let chunks = parse_header(bytes, hash, layers.len())?;
            check_base(bytes, &chunks, hash, &layers)?;
            let mut layer = Layer::open(data, &chunks, hash, len, compares)?;
            match FilterChunks::open(layer.data.as_ref(), &chunks, layer.ids.len()) {
                Ok(filters) => layer.filters = filters,
                Err(fault) => filter_faults.push(fault),
            }
            len = len
                .checked_add(layer.ids.len())
                .filter(|len| *len <= NO_PARENT)
                .ok_or_else(|| Error::new(FORMAT, "more commits than positions", 0))?;
            layers.push(layer);
        }
        if layers.is_empty() {
            return Err(Error::new(FORMAT, "chain has no file", 0));
        }
        // Generations are only comparable if all commits have the same kind.
        let generations = if layers.iter().all(|layer| layer.dates_at.is_some()) {
            Generations::CorrectedDate
        } else {
            Generations::TopologicalLevel
        };
        let mut graph = CommitGraph { hash, layers, len, generations, filter_faults };
        graph.disable_other_filters();
        Ok(graph)
    }

    /// Uses only filters with the settings of the topmost ones: readers ask all with one hash of a path.
    fn disable_other_filters(&mut self) {
        let mut settings = None;
        for layer in self.layers.iter_mut().rev() {
            let Some(filters) = &layer.filters else { continue };
            if *settings.get_or_insert(filters.settings) != filters.settings {
                let checksum = checksum::trailer(layer.data.as_ref(), self.hash);
                self.filter_faults.push(FilterFault::OtherSettings(checksum));
                layer.filters = None;
            }
        }
    }

    /// The number of commits in the whole chain.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no commit.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The hash of ids and checksums.
    pub fn hash_kind(&self) -> HashKind {
        self.hash
    }

    /// What [`Commit::generation`] means here.
    pub fn generations(&self) -> Generations {
        self.generations
    }

    /// The position of a commit, if the graph has it.
    #[inline]
    pub fn position_of(&self, id: &oid) -> Option<u32> {
        self.layers
            .iter()
            .rev()
            .find_map(|layer| Some(layer.start + layer.ids.position_of(layer.data.as_ref(), id)?))
    }

    /// The id of the commit at a position, which must be below [`Self::len`].
    #[inline]
    pub fn id_at(&self, position: u32) -> &oid {
        let layer = self.layer(position);
        layer.ids.id_at(layer.data.as_ref(), position - layer.start)
    }

    /// The data of the commit at a position, which must be below [`Self::len`]. After an error about parents
    /// or generation, stop using the graph and read the commits instead.
    #[inline]
    pub fn commit_at(&self, position: u32) -> Result<Commit<'_>, Error> {
        let layer = self.layer(position);
        let bytes = layer.data.as_ref();
        let row = (position - layer.start) as usize;
        let id_bytes = self.hash.len_in_bytes();
        let at = layer.commits_at + row * (id_bytes + 16);
        let parents = layer.parents(at + id_bytes, self.len);
        let parents = parents.map_err(|wrong| Error::new(FORMAT, wrong.what(), (at + id_bytes) as u64))?;
        let level_and_seconds = be::u64_at(bytes, at + id_bytes + 8);
        let committer_seconds = level_and_seconds & ((1 << 34) - 1);
        let generation = match self.generations {
            Generations::TopologicalLevel => level_and_seconds >> 34,
            Generations::CorrectedDate => layer.corrected_date(row, committer_seconds)?,
        };
        let tree = oid::from_bytes_unchecked(&bytes[at..at + id_bytes]);
        Ok(Commit { tree, parents, generation, committer_seconds })
    }

    /// Why [`Self::commit_at`] fails for the commit at a position, which must be below [`Self::len`], and git fails,
    /// too.
    pub fn fault_at(&self, position: u32) -> Option<CommitFault> {
        let layer = self.layer(position);
        let row = (position - layer.start) as usize;
        let id_bytes = self.hash.len_in_bytes();
        let of_date = match self.generations {
            Generations::TopologicalLevel => None,
            Generations::CorrectedDate => layer.date_fault(row),
        };
        of_date.or_else(|| {
            match layer.parents(layer.commits_at + row * (id_bytes + 16) + id_bytes, self.len) {
                Err(WrongParents::Beyond(parent)) => Some(CommitFault::ParentBeyond(parent)),
                Err(WrongParents::List(_)) => Some(CommitFault::Edges),
                Ok(_) => None,
            }
        })
    }

    /// The commit's topological level, whatever [`Self::generations`] says: one more than its parents'
    /// largest; 0 means not computed. The position must be below [`Self::len`].
    pub fn level_at(&self, position: u32) -> u32 {
        let layer = self.layer(position);
        let id_bytes = self.hash.len_in_bytes();
        let row = (position - layer.start) as usize;
        be::u32_at(layer.data.as_ref(), layer.commits_at + row * (id_bytes + 16) + id_bytes + 8) >> 2
    }

    /// The settings of the last file's changed-path filters, if it has usable ones.
    pub fn filter_settings(&self) -> Option<FilterSettings> {
        self.layers.last()?.filters.as_ref().map(|filters| filters.settings)
    }

    /// Why some files' changed-path filters are not used.
    pub fn filter_faults(&self) -> &[FilterFault] {
        &self.filter_faults
    }

    /// The changed-path filter of the commit at a position, which must be below [`Self::len`], and its
    /// settings; `None` if it was not computed.
    pub fn filter_at(&self, position: u32) -> Result<Option<(FilterSettings, &[u8])>, FilterFault> {
        let layer = self.layer(position);
        let Some(filters) = &layer.filters else { return Ok(None) };
        let filter = filters.filter(layer.data.as_ref(), position - layer.start)?;
        Ok((!filter.is_empty()).then_some((filters.settings, filter)))
    }

    /// The number of commits in each file, base first.
    pub fn layer_lens(&self) -> Vec<u32> {
        self.layers.iter().map(|layer| layer.ids.len()).collect()
    }

    /// The checksum of each file, base first.
    pub fn checksums(&self) -> Vec<ObjectId> {
        self.layers.iter().map(|layer| checksum::trailer(layer.data.as_ref(), self.hash)).collect()
    }

    /// The checksum of the last file, which the file's name and the chain's list contain.
    pub fn checksum(&self) -> ObjectId {
        let last = self.layers.last().expect("a chain has a file");
        checksum::trailer(last.data.as_ref(), self.hash)
    }

    /// Hashes every file and compares the hash with its checksum.
    pub fn verify_checksum(&self) -> Result<(), Error> {
        self.layers.iter().try_for_each(|layer| checksum::verify(FORMAT, layer.data.as_ref(), self.hash))
    }

    /// Hashes the last file and compares the hash with its checksum.
    pub fn verify_last_checksum(&self) -> Result<(), Error> {
        self.layers.last().map_or(Ok(()), |layer| checksum::verify(FORMAT, layer.data.as_ref(), self.hash))
    }

    #[inline]
    fn layer(&self, position: u32) -> &Layer<D> {
        assert!(position < self.len, "position {position} of {} commits", self.len);
        // Chains are short (git merges layers so that sizes double), and the base is by far the largest.
        let mut layers = self.layers.iter();
        layers.find(|layer| position - layer.start < layer.ids.len()).expect("the layers add up to len")
    }
}

impl<D: AsRef<[u8]>> Layer<D> {
    fn open(data: D, chunks: &Chunks, hash: HashKind, start: u32, compares: bool) -> Result<Self, Error> {
        let bytes = data.as_ref();
        let id_bytes = hash.len_in_bytes();
        let fanout_at = chunks.require_rows(b"OIDF", 256, FANOUT_BYTES / 256)?;
        let len = check_fanout(FORMAT, bytes, fanout_at)?;
        let ids_at = chunks.require_rows(b"OIDL", len, id_bytes)?;
        let commits_at = chunks.require_rows(b"CDAT", len, id_bytes + 16)?;
        let dates_at = match chunks.find_rows(b"GDA2", len, 4) {
            Err(_) if compares => None,
            found => found?,
        };
        let (large_dates_at, large_dates) = chunks.table(b"GDO2", 8)?;
        let (edges_at, edges) = chunks.table(b"EDGE", 4)?;
        let ids = IdTable::new(fanout_at, ids_at, id_bytes, hash, len);
        Ok(Layer {
            data,
            start,
            ids,
            commits_at,
            dates_at,
            large_dates_at,
            large_dates,
            edges_at,
            edges,
            filters: None,
        })
    }

    #[inline]
    fn parents(&self, at: usize, len: u32) -> Result<Parents<'_>, WrongParents> {
        let bytes = self.data.as_ref();
        let (first, second) = (be::u32_at(bytes, at), be::u32_at(bytes, at + 4));
        // As in git, the second does not count then.
        if first == NO_PARENT {
            return Ok(Parents { first: None, second: None, more: &[] });
        }
        if first >= len {
            return Err(WrongParents::Beyond(first));
        }
        if second >= len && second != NO_PARENT && second & MARK == 0 {
            return Err(WrongParents::Beyond(second));
        }
        if second & MARK == 0 {
            let second = (second != NO_PARENT).then_some(second);
            return Ok(Parents { first: Some(first), second, more: &[] });
        }
        let row = second & !MARK;
        if row >= self.edges {
            return Err(WrongParents::List("parent list is beyond the extra edges"));
        }
        let rows = &bytes[self.edges_at + row as usize * 4..self.edges_at + self.edges as usize * 4];
        for (i, edge) in rows.chunks_exact(4).enumerate() {
            let edge = be::u32_at(edge, 0);
            if edge & !MARK >= len {
                return Err(WrongParents::Beyond(edge & !MARK));
            }
            if edge & MARK != 0 {
                return Ok(Parents { first: Some(first), second: None, more: &rows[..(i + 1) * 4] });
            }
        }
        Err(WrongParents::List("parent list does not end"))
    }

    /// Whether the corrected date in a row is in the table of large ones, and not there.
    fn date_fault(&self, row: usize) -> Option<CommitFault> {
        let offset = be::u32_at(self.data.as_ref(), self.dates_at? + row * 4);
        match offset & MARK != 0 && offset & !MARK >= self.large_dates {
            false => None,
            // A chunk never begins with the file.
            true if self.large_dates_at == 0 => Some(CommitFault::NoLargeDates),
            true => Some(CommitFault::FewLargeDates),
        }
    }

    #[inline]
    fn corrected_date(&self, row: usize, committer_seconds: u64) -> Result<u64, Error> {
        let bytes = self.data.as_ref();
        let at = self.dates_at.expect("all layers have dates") + row * 4;
        let mut offset = u64::from(be::u32_at(bytes, at));
        if offset & u64::from(MARK) != 0 {
            let row = offset as u32 & !MARK;
            if row >= self.large_dates {
                return Err(Error::new(FORMAT, "date is beyond the large ones", at as u64));
            }
            offset = be::u64_at(bytes, self.large_dates_at + row as usize * 8);
        }
        committer_seconds
            .checked_add(offset)
            .ok_or_else(|| Error::new(FORMAT, "date exceeds 64 bits", at as u64))
    }
}

impl Iterator for Parents<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if let Some(parent) = self.first.take().or_else(|| self.second.take()) {
            return Some(parent);
        }
        let (edge, rest) = self.more.split_first_chunk::<4>()?;
        self.more = rest;
        Some(u32::from_be_bytes(*edge) & !MARK)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len =
            usize::from(self.first.is_some()) + usize::from(self.second.is_some()) + self.more.len() / 4;
        (len, Some(len))
    }
}

impl ExactSizeIterator for Parents<'_> {}

fn parse_header(bytes: &[u8], hash: HashKind, layers_below: usize) -> Result<Chunks, Error> {
    if bytes.len() < HEADER_BYTES {
        return Err(Error::new(FORMAT, "header is cut off", bytes.len() as u64));
    }
    if &bytes[..4] != SIGNATURE {
        return Err(Error::new(FORMAT, "signature is not CGPH", 0));
    }
    if bytes[4] != 1 {
        return Err(Error::new(FORMAT, "version is not 1", 4));
    }
    if bytes[5] != checksum::hash_number(hash) {
        return Err(Error::new(FORMAT, "made for another hash", 5));
    }
    if usize::from(bytes[7]) != layers_below {
        return Err(Error::new(FORMAT, "chain has another number of base graphs", 7));
    }
    Chunks::parse(FORMAT, bytes, HEADER_BYTES, bytes[6], hash)
}

/// Whether a file of a chain is built on the files `below`, base first; the error says in git's words why it is not. A file
/// with other damage passes: [`CommitGraph::open`] refuses it.
pub fn check_fits<D: AsRef<[u8]>>(file: &[u8], below: &[D], hash: HashKind) -> Result<(), &'static str> {
    const OTHER: &str = "commit-graph chain does not match";
    let Some(&[.., chunk_count, layers_below]) = file.first_chunk::<HEADER_BYTES>() else { return Ok(()) };
    let Ok(chunks) = Chunks::parse(FORMAT, file, HEADER_BYTES, chunk_count, hash) else { return Ok(()) };
    if !below.is_empty() {
        let id_bytes = hash.len_in_bytes();
        let list = &file[chunks.find(b"BASE").ok_or("commit-graph has no base graphs chunk")?];
        if list.len() / id_bytes < below.len() {
            return Err("commit-graph base graphs chunk is too small");
        }
        if !names(list, id_bytes, below.iter().map(AsRef::as_ref)) {
            return Err(OTHER);
        }
    }
    if usize::from(layers_below) == below.len() { Ok(()) } else { Err(OTHER) }
}

fn check_base<D: AsRef<[u8]>>(
    bytes: &[u8],
    chunks: &Chunks,
    hash: HashKind,
    layers: &[Layer<D>],
) -> Result<(), Error> {
    if layers.is_empty() {
        return Ok(());
    }
    let id_bytes = hash.len_in_bytes();
    let at = chunks.require_rows(b"BASE", layers.len() as u32, id_bytes)?;
    match names(&bytes[at..], id_bytes, layers.iter().map(|layer| layer.data.as_ref())) {
        true => Ok(()),
        false => Err(Error::new(FORMAT, "chain has another base graph", at as u64)),
    }
}

/// Whether a list of checksums begins with those of these files.
fn names<'a>(list: &[u8], id_bytes: usize, mut files: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut checksums = list.chunks_exact(id_bytes);
    files.all(|file| checksums.next().is_some_and(|checksum| file.ends_with(checksum)))
}

#[cfg(test)]
mod tests;
