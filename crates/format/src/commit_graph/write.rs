//! Writes a commit-graph file; see [`super`] for the layout.

use packrace_object::{HashKind, ObjectId};

use super::{CommitGraph, Generations, MARK, NO_PARENT, PathFilters, SIGNATURE};
use crate::checksum;
use crate::chunks::ChunkWriter;
use crate::id_table::write_fanout;

/// The largest level, of 30 bits; longer histories stay at it (commit-graph, "GENERATION_NUMBER_V1_MAX").
const MAX_LEVEL: u32 = (1 << 30) - 1;

/// Dates have 34 bits.
const SECONDS_MASK: u64 = (1 << 34) - 1;

/// Larger date offsets go to GDO2.
const MAX_DATE_OFFSET: u64 = (1 << 31) - 1;

/// The header has a byte for the number of files below.
const MAX_LAYERS: usize = 255;

/// The commits of a new file.
#[derive(Debug, Clone)]
pub struct Commits {
    hash: HashKind,
    rows: Vec<Row>,
    parents: Vec<ObjectId>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    id: ObjectId,
    tree: ObjectId,
    seconds: u64,
    /// The index in `parents` of the first parent; then the number of parents.
    parents_at: usize,
    parents: usize,
}

/// The commits of a new file in the order of its rows, which is that of their ids.
#[derive(Debug)]
pub struct ArrangedCommits<'b, D> {
    commits: Commits,
    parents: ParentPositions,
    generation: Vec<Generation>,
    has_dates: bool,
    base: Option<&'b CommitGraph<D>>,
}

/// Where a commit's first parent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstParent {
    /// In this row of the new file.
    Row(usize),
    /// The commit with this id, in a file below.
    Below(ObjectId),
}

/// Why commits don't make a commit-graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphWriteError {
    /// A graph must contain everything that its commits reach.
    #[error("unable to find parent {parent} of commit {commit}")]
    MissingParent {
        /// The commit.
        commit: ObjectId,
        /// The parent that is not in the graph.
        parent: ObjectId,
    },
    /// A commit is its own ancestor: the objects do not match their ids.
    #[error("commit {0} is its own ancestor")]
    Cycle(ObjectId),
    /// Positions of commits have just under 31 bits.
    #[error("too many commits to write graph")]
    TooManyCommits,
    /// This many times a number of commits is more than can be counted.
    #[error("size_t overflow: {0} * {1}")]
    SizeOverflow(u64, u64),
    /// The chain has reached its maximum length.
    #[error("too many commit-graph layers")]
    TooManyLayers,
}

/// A commit's generations, which its content does not state.
#[derive(Debug, Clone, Copy)]
struct Generation {
    level: u32,
    corrected_date: u64,
}

/// The positions of the parents of each row.
#[derive(Debug)]
struct ParentPositions {
    /// The parents of all rows, row after row.
    positions: Vec<u32>,
    /// The index in `positions` of each row's first parent, with one entry more than there are rows.
    starts: Vec<usize>,
}

impl ParentPositions {
    fn of(&self, row: usize) -> &[u32] {
        &self.positions[self.starts[row]..self.starts[row + 1]]
    }
}

impl Commits {
    /// A builder without commits.
    pub fn new(hash: HashKind) -> Self {
        Commits { hash, rows: Vec::new(), parents: Vec::new() }
    }

    /// Adds a commit; adding it again has no effect.
    pub fn push(
        &mut self,
        id: ObjectId,
        tree: ObjectId,
        parents: impl IntoIterator<Item = ObjectId>,
        committer_seconds: u64,
    ) {
        let parents_at = self.parents.len();
        self.parents.extend(parents);
        let parents = self.parents.len() - parents_at;
        // Corrected dates are based on the dates that readers will see.
        let seconds = committer_seconds & SECONDS_MASK;
        self.rows.push(Row { id, tree, seconds, parents_at, parents });
    }

    /// The number of commits added.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no commit was added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Makes a file with these commits on top of `base`. Every parent must be in one of the two.
    /// `generations` is the best kind to write: corrected dates are left out on a base without them, because
    /// the two kinds are not comparable (commit-graph, "Handling Mixed Generation Number Chains").
    pub fn write<D: AsRef<[u8]>>(
        self,
        base: Option<&CommitGraph<D>>,
        generations: Generations,
    ) -> Result<Vec<u8>, GraphWriteError> {
        Ok(self.arrange(base, generations)?.write(None))
    }

    /// The same without making the file, for a caller who adds changed-path filters.
    pub fn arrange<D: AsRef<[u8]>>(
        mut self,
        base: Option<&CommitGraph<D>>,
        generations: Generations,
    ) -> Result<ArrangedCommits<'_, D>, GraphWriteError> {
        self.rows.sort_unstable_by_key(|row| row.id);
        self.rows.dedup_by(|a, b| a.id == b.id);
        let below = base.map_or(0, |base| base.len());
        let is_numbered = u32::try_from(self.rows.len())
            .is_ok_and(|len| len.checked_add(below).is_some_and(|len| len <= NO_PARENT));
        if !is_numbered {
            return Err(GraphWriteError::TooManyCommits);
        }
        let layers_below = base.map_or(0, |base| base.layers.len());
        if layers_below > MAX_LAYERS {
            return Err(GraphWriteError::TooManyLayers);
        }
        let parents = self.parent_positions(base)?;
        let generation = self.generations(&parents, base)?;
        let has_dates = generations == Generations::CorrectedDate
            && base.is_none_or(|base| base.generations() == Generations::CorrectedDate);
        Ok(ArrangedCommits { commits: self, parents, generation, has_dates, base })
    }

    fn parent_positions<D: AsRef<[u8]>>(
        &self,
        base: Option<&CommitGraph<D>>,
    ) -> Result<ParentPositions, GraphWriteError> {
        let below = base.map_or(0, |base| base.len());
        let mut positions = Vec::with_capacity(self.parents.len());
        let mut starts = Vec::with_capacity(self.rows.len() + 1);
        for row in &self.rows {
            starts.push(positions.len());
            for parent in &self.parents[row.parents_at..row.parents_at + row.parents] {
                let here = self.rows.binary_search_by(|row| row.id.cmp(parent));
                let position = match here {
                    Ok(at) => Some(below + at as u32),
                    Err(_) => base.and_then(|base| base.position_of(parent)),
                };
                positions.push(
                    position.ok_or(GraphWriteError::MissingParent { commit: row.id, parent: *parent })?,
                );
            }
        }
        starts.push(positions.len());
        Ok(ParentPositions { positions, starts })
    }

    /// Computes generations by descending from every commit to known ones; the stack is explicit because
    /// histories are deep.
    fn generations<D: AsRef<[u8]>>(
        &self,
        parents: &ParentPositions,
        base: Option<&CommitGraph<D>>,
    ) -> Result<Vec<Generation>, GraphWriteError> {
        let below = base.map_or(0, |base| base.len());
        let of_base = |position: u32| {
            let base = base.expect("there is a base below");
            // If a date in the base is wrong, its own readers stop using it.
            let corrected_date = base.commit_at(position).map_or(0, |commit| commit.generation);
            Generation { level: base.level_at(position), corrected_date }
        };
        let mut known: Vec<Option<Generation>> = vec![None; self.rows.len()];
        let mut is_open = vec![false; self.rows.len()];
        let mut stack: Vec<usize> = Vec::new();
        for start in 0..self.rows.len() {
            stack.push(start);
            while let Some(&row) = stack.last() {
                if known[row].is_some() {
                    stack.pop();
                    continue;
                }
                let unknown_from = stack.len();
                // A root of 1970 has a corrected date of 1: 0 stands for a date that was not computed (commit-graph).
                let mut generation = Generation { level: 0, corrected_date: 1 };
                for &position in parents.of(row) {
                    let of_parent = match position.checked_sub(below) {
                        None => Some(of_base(position)),
                        Some(at) => known[at as usize],
                    };
                    match of_parent {
                        Some(of_parent) => generation.raise_above(&of_parent),
                        None => stack.push((position - below) as usize),
                    }
                }
                if stack.len() > unknown_from {
                    if is_open[row] {
                        return Err(GraphWriteError::Cycle(self.rows[row].id));
                    }
                    is_open[row] = true;
                    continue;
                }
                generation.level = (generation.level + 1).min(MAX_LEVEL);
                generation.corrected_date = generation.corrected_date.max(self.rows[row].seconds);
                known[row] = Some(generation);
                stack.pop();
            }
        }
        Ok(known.into_iter().map(|known| known.expect("every row was looked at")).collect())
    }

    /// Makes CDAT and EDGE.
    fn commit_data(&self, parents: &ParentPositions, generation: &[Generation]) -> (Vec<u8>, Vec<u8>) {
        let mut commits = Vec::with_capacity(self.rows.len() * (self.hash.len_in_bytes() + 16));
        let mut edges = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            let (first, second) = match *parents.of(at) {
                [] => (NO_PARENT, NO_PARENT),
                [only] => (only, NO_PARENT),
                [first, second] => (first, second),
                [first, ref more @ .., last] => {
                    let start = (edges.len() / 4) as u32;
                    more.iter().for_each(|parent| edges.extend_from_slice(&parent.to_be_bytes()));
                    edges.extend_from_slice(&(last | MARK).to_be_bytes());
                    (first, start | MARK)
                }
            };
            commits.extend_from_slice(row.tree.as_slice());
            commits.extend_from_slice(&first.to_be_bytes());
            commits.extend_from_slice(&second.to_be_bytes());
            let level_and_seconds = u64::from(generation[at].level) << 34 | row.seconds;
            commits.extend_from_slice(&level_and_seconds.to_be_bytes());
        }
        (commits, edges)
    }

    /// Makes GDA2 and GDO2.
    fn dates(&self, generation: &[Generation]) -> (Vec<u8>, Vec<u8>) {
        let mut dates = Vec::with_capacity(self.rows.len() * 4);
        let mut large_dates = Vec::new();
        for (row, generation) in self.rows.iter().zip(generation) {
            let offset = generation.corrected_date - row.seconds;
            let stored = if offset <= MAX_DATE_OFFSET {
                offset as u32
            } else {
                let at = (large_dates.len() / 8) as u32;
                large_dates.extend_from_slice(&offset.to_be_bytes());
                at | MARK
            };
            dates.extend_from_slice(&stored.to_be_bytes());
        }
        (dates, large_dates)
    }
}

impl<D: AsRef<[u8]>> ArrangedCommits<'_, D> {
    /// The number of commits.
    pub fn len(&self) -> usize {
        self.commits.len()
    }

    /// Whether there is no commit.
    pub fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// The id of the commit in a row.
    pub fn id(&self, row: usize) -> ObjectId {
        self.commits.rows[row].id
    }

    /// The root tree of the commit in a row.
    pub fn tree(&self, row: usize) -> ObjectId {
        self.commits.rows[row].tree
    }

    /// The first parent of the commit in a row.
    pub fn first_parent(&self, row: usize) -> Option<FirstParent> {
        let position = *self.parents.of(row).first()?;
        Some(match (self.base, position) {
            (Some(base), below) if below < base.len() => FirstParent::Below(base.id_at(below).to_owned()),
            (base, position) => FirstParent::Row((position - base.map_or(0, CommitGraph::len)) as usize),
        })
    }

    /// The rows from the oldest commit to the newest.
    pub fn oldest_first(&self) -> Vec<usize> {
        let mut rows: Vec<usize> = (0..self.commits.rows.len()).collect();
        rows.sort_by_key(|row| {
            let corrected_date = self.generation[*row].corrected_date;
            (if self.has_dates { corrected_date } else { 0 }, self.commits.rows[*row].seconds)
        });
        rows
    }

    /// Makes the file, with these filters: one for each row.
    pub fn write(&self, filters: Option<&PathFilters>) -> Vec<u8> {
        let commits = &self.commits;
        let id_bytes = commits.hash.len_in_bytes();
        let mut fanout = Vec::new();
        write_fanout(&mut fanout, commits.rows.iter().map(|row| row.id.first_byte()));
        let mut ids_chunk = Vec::with_capacity(commits.rows.len() * id_bytes);
        commits.rows.iter().for_each(|row| ids_chunk.extend_from_slice(row.id.as_slice()));
        let (commit_data, edges) = commits.commit_data(&self.parents, &self.generation);
        let mut chunks = vec![(b"OIDF", fanout), (b"OIDL", ids_chunk), (b"CDAT", commit_data)];
        if self.has_dates {
            let (dates, large_dates) = commits.dates(&self.generation);
            chunks.push((b"GDA2", dates));
            chunks.extend((!large_dates.is_empty()).then_some((b"GDO2", large_dates)));
        }
        chunks.extend((!edges.is_empty()).then_some((b"EDGE", edges)));
        if let Some(filters) = filters {
            assert_eq!(filters.filters.len(), commits.rows.len(), "one filter for each row");
            let (index, data) = filters.chunks();
            chunks.extend([(b"BIDX", index), (b"BDAT", data)]);
        }
        let below = self.base.map_or_else(Vec::new, CommitGraph::checksums);
        if !below.is_empty() {
            let checksums = below.iter().flat_map(|checksum| checksum.as_slice()).copied();
            chunks.push((b"BASE", checksums.collect()));
        }
        let [chunk_count, layers_below] = [chunks.len() as u8, below.len() as u8];
        let header = [1, checksum::hash_number(commits.hash), chunk_count, layers_below];
        let mut file = ChunkWriter::new([&SIGNATURE[..], &header].concat());
        chunks.into_iter().for_each(|(id, bytes)| file.add(id, bytes));
        file.finish(commits.hash)
    }
}

impl Generation {
    fn raise_above(&mut self, parent: &Generation) {
        self.level = self.level.max(parent.level);
        self.corrected_date = self.corrected_date.max(parent.corrected_date.saturating_add(1));
    }
}
