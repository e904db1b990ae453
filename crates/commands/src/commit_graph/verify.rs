//! `git commit-graph verify`: compares commit-graphs with the commits.

use std::cmp::Ordering;
use std::path::Path;

use packrace_format::commit_graph::{
    CommitFault, CommitGraph as Graph, FilterFault, Generations, check_fits,
};
use packrace_object::{Commit, HashKind, Kind, ObjectId, oid, parse_commit};
use packrace_pack::{Phase, ProgressSink as _};
use packrace_store::helper_fault::commit_graph as fault;
use packrace_store::helper_fault::number_at;
use packrace_store::{GraphFiles, Mapped, ObjectReader, Repository, cache_bytes};

use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::options::CommitGraphVerifyOptions;
use crate::progress::Progress;

/// Exit code when commits are wrong, or files of the chain are missing.
const WRONG: u8 = 1;

/// Exit code when only a checksum is wrong. Of several files, the codes are added.
const WRONG_CHECKSUM: u8 = 2;

/// The largest level (commit-graph, "GENERATION_NUMBER_V1_MAX"); parents of a commit at this level may share it.
const MAX_LEVEL: u64 = (1 << 30) - 1;

/// Compares one file after the other with the commits, the topmost first.
struct Verifier<'a> {
    call: &'a Call,
    progress: &'a Progress,
    graph: &'a Graph<Mapped>,
    hash: HashKind,
    reader: ObjectReader,
    /// Whether a commit of the present file is wrong.
    is_wrong: bool,
    done: u64,
    total: u64,
}

/// Verifies the commit-graph of an object directory, by default that of the repository.
pub(super) fn verify(
    call: &Call,
    repository: &Repository,
    args: &CommitGraphVerifyOptions,
    object_dir: Option<&Path>,
    progress: &Progress,
) -> Result<(), Fatal> {
    if object_dir.unwrap_or(repository.object_dir()).join("info/commit-graph").is_dir() {
        return Err(Fatal::error("commit-graph file is too small"));
    }
    let files = GraphFiles::open(repository, object_dir)?;
    if files.is_cut_off() {
        let path = files.path();
        let words = format!("could not open commit-graph chain '{}': Invalid argument", path.display());
        return Err(Fatal::new(words));
    }
    if !files.is_chain() && files.foreign_layers() > 0 {
        // Those of other object directories alone are theirs to verify.
        return Ok(());
    }
    let hash = repository.hash_kind();
    let graphs = open(call, &files, hash);
    let is_complete = files.is_complete() && graphs.len() == files.layers().len();
    let Some(graph) = graphs.last() else {
        // An error or a warning said why.
        return if is_complete { Ok(()) } else { Err(Fatal::silent(WRONG)) };
    };
    // Git knows no filters of other versions.
    let faults = graph.filter_faults().iter();
    let faults = faults.filter(|fault| !matches!(fault, FilterFault::Unsupported { .. }));
    faults.for_each(|fault| error_line!(call, "warning: {fault}"));
    let lens = graph.layer_lens();
    let first = if args.shallow { lens.len() - 1 } else { 0 };
    let mut verifier = Verifier {
        call,
        progress,
        graph,
        hash,
        reader: repository.snapshot()?.reader(cache_bytes::WHOLE_HISTORY),
        is_wrong: false,
        done: 0,
        total: lens[first..].iter().copied().map(u64::from).sum(),
    };
    let mut code = 0;
    for layer in (first..lens.len()).rev() {
        let is_flipped = graphs[layer].verify_last_checksum().is_err();
        if is_flipped {
            progress.stop();
            error_line!(call, "the commit-graph file has incorrect checksum and is likely corrupt");
        }
        let start: u32 = lens[..layer].iter().sum();
        verifier.verify_layer(&files.layers()[layer], start, lens[layer])?;
        code |= match (verifier.is_wrong, is_flipped) {
            (true, _) => WRONG,
            (false, true) => WRONG_CHECKSUM,
            (false, false) => 0,
        };
    }
    progress.finish();
    if !is_complete {
        error_line!(call, "error: one or more commit-graph chain files could not be loaded");
        code |= WRONG;
    }
    if code == 0 { Ok(()) } else { Err(Fatal::silent(code)) }
}

/// The graphs up to each file, the lowest first; none from the first file on that cannot be opened.
fn open(call: &Call, files: &GraphFiles, hash: HashKind) -> Vec<Graph<Mapped>> {
    let layers = files.layers();
    let mut graphs = Vec::new();
    for (number, file) in layers.iter().enumerate() {
        let checked = fault::check(file, hash).and_then(|()| {
            let graph = Graph::open_to_compare(layers[..=number].iter().cloned(), hash);
            graph.map_err(|error| match check_fits(file, &layers[..number], hash) {
                Err(words) => words.to_owned(),
                Ok(()) => error.to_string(),
            })
        });
        match checked {
            Ok(graph) => {
                if fault::has_wrong_dates(file, hash) {
                    error_line!(call, "error: commit-graph generations chunk is wrong size");
                }
                graphs.push(graph);
            }
            Err(words) => {
                error_line!(call, "error: {words}");
                if files.is_chain() && files.is_complete() {
                    error_line!(call, "warning: unable to find all commit-graph files");
                }
                break;
            }
        }
    }
    graphs
}

impl Verifier<'_> {
    /// Compares the `len` commits of a file from position `start` on, if readers find them by their names.
    fn verify_layer(&mut self, file: &[u8], start: u32, len: u32) -> Result<(), Fatal> {
        self.is_wrong = false;
        self.check_names(file, start, len)?;
        if self.is_wrong {
            return Ok(());
        }
        let [mut zero, mut non_zero] = [None, None];
        for position in start..start + len {
            self.done += 1;
            self.progress.report(Phase::VerifyingCommits, self.done, self.total);
            let id = self.graph.id_at(position).to_owned();
            let Some(stored) = self.stored(&id) else {
                self.report_wrong(&format!(
                    "error: Could not read {id}\n\
                     failed to parse commit {id} from object database for commit-graph"
                ));
                continue;
            };
            match self.check_commit(position, &id, &stored)? {
                0 => zero = Some(id),
                _ => non_zero = Some(id),
            }
        }
        if let (Some(zero), Some(non_zero)) = (zero, non_zero) {
            self.report_wrong(&format!(
                "commit-graph has both zero and non-zero generations (e.g., commits '{zero}' and '{non_zero}')"
            ));
        }
        Ok(())
    }

    /// Checks the order of names, the fan-out, and that each commit can be read from the graph by its name.
    fn check_names(&mut self, file: &[u8], start: u32, len: u32) -> Result<(), Fatal> {
        let fanout = fault::fanout(file, self.hash).unwrap_or_default();
        let mut first_byte = 0;
        let mut before: Option<&oid> = None;
        let graph = self.graph;
        for row in 0..len {
            let id = graph.id_at(start + row);
            if let Some(before) = before.filter(|before| *before >= id) {
                self.report_wrong(&format!("commit-graph has incorrect OID order: {before} then {id}"));
            }
            before = Some(id);
            self.check_fanout(fanout, &mut first_byte, usize::from(id.first_byte()), row);
            let fault = match graph.position_of(id) {
                None => String::new(),
                Some(position) => match graph.fault_at(position) {
                    None => continue,
                    Some(fault) => self.said(fault)?,
                },
            };
            self.report_wrong(&format!("{fault}failed to parse commit {id} from commit-graph"));
        }
        self.check_fanout(fanout, &mut first_byte, 256, len);
        Ok(())
    }

    /// Checks that so many names begin with bytes below `end`; those below `from` are checked.
    fn check_fanout(&mut self, fanout: &[u8], from: &mut usize, end: usize, count: u32) {
        for byte in *from..end {
            let stored = number_at(fanout, byte * 4).unwrap_or(0);
            if stored != count {
                self.report_wrong(&format!(
                    "commit-graph has incorrect fanout value: fanout[{byte}] = {stored} != {count}"
                ));
            }
        }
        *from = end.max(*from);
    }

    /// Compares a commit of the graph with the stored one; returns its generation. As in git, the date of a commit
    /// without one is not looked at.
    fn check_commit(&mut self, position: u32, id: &ObjectId, stored: &Commit) -> Result<u64, Fatal> {
        let graph = self.graph;
        let Ok(found) = graph.commit_at(position) else {
            self.report_wrong(&format!("failed to parse commit {id} from commit-graph"));
            return Ok(1);
        };
        if *found.tree != *stored.tree {
            let (found, stored) = (found.tree, stored.tree);
            let of_commit = format!("root tree OID for commit {id} in commit-graph");
            self.report_wrong(&format!("{of_commit} is {found} != {stored}"));
        }
        let newest = self.check_parents(id, found.parents, &stored.parents)?;
        let generation = found.generation;
        if generation == 0 {
            return Ok(0);
        }
        if let Some(mut newest) = newest {
            if graph.generations() == Generations::TopologicalLevel {
                newest = newest.min(MAX_LEVEL - 1);
            }
            if generation <= newest {
                let least = newest.saturating_add(1);
                self.report_wrong(&format!(
                    "commit-graph generation for commit {id} is {generation} < {least}"
                ));
            }
        }
        let seconds = u64::try_from(stored.committer_seconds).unwrap_or(0);
        if found.committer_seconds != seconds {
            let found = found.committer_seconds;
            self.report_wrong(&format!(
                "commit date for commit {id} in commit-graph is {found} != {seconds}"
            ));
        }
        Ok(generation)
    }

    /// Compares the parents of a commit; returns the largest generation of those that both have.
    fn check_parents(
        &mut self,
        id: &ObjectId,
        found: impl ExactSizeIterator<Item = u32>,
        stored: &[ObjectId],
    ) -> Result<Option<u64>, Fatal> {
        let graph = self.graph;
        let count = found.len();
        let mut newest: Option<u64> = None;
        for (position, stored) in found.zip(stored) {
            let parent = graph.id_at(position);
            if *parent != **stored {
                self.report_wrong(&format!("commit-graph parent for {id} is {parent} != {stored}"));
            }
            match graph.commit_at(position) {
                Ok(parent) => newest = newest.max(Some(parent.generation)),
                Err(_) => {
                    // Its own file is told of what can be told.
                    graph.fault_at(position).map(|fault| self.said(fault)).transpose()?;
                }
            }
        }
        match count.cmp(&stored.len()) {
            Ordering::Greater => {
                self.report_wrong(&format!("commit-graph parent list for commit {id} is too long"));
            }
            Ordering::Less => {
                self.report_wrong(&format!("commit-graph parent list for commit {id} terminates early"));
            }
            Ordering::Equal => {}
        }
        Ok(newest)
    }

    /// The line that git prints before it names a commit that has this fault; other faults end it.
    fn said(&self, fault: CommitFault) -> Result<String, Fatal> {
        match fault {
            CommitFault::Edges => Ok(format!("error: {fault}\n")),
            fault => {
                self.progress.stop();
                Err(Fatal::new(fault))
            }
        }
    }

    /// The commit as its object has it.
    fn stored(&mut self, id: &ObjectId) -> Option<Commit> {
        let object = self.reader.read(id).ok()?;
        if object.kind != Kind::Commit {
            return None;
        }
        parse_commit(&object.data, self.hash).ok()
    }

    fn report_wrong(&mut self, text: &str) {
        self.is_wrong = true;
        self.progress.stop();
        error_line!(self.call, "{text}");
    }
}
