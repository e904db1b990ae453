//! Files that speed up walks: commit-graphs. None is required; a damaged one is reported and skipped.

use std::path::Path;

use packrace_format::commit_graph::{CommitGraph, check_fits};
use packrace_object::{HashKind, ObjectId, oid};
use packrace_os::Mapped;
use packrace_os::count::Role;

use crate::error::Error;
use crate::objects::helper_fault;
use crate::objects::objects_dir::ObjectsDir;
use crate::objects::verified;

/// Longest list of the files of a chain: one hash per line.
pub(crate) const MAX_CHAIN_BYTES: u64 = 1 << 20;

/// The files of the first commit-graph in the object directories, base of the chain first.
pub(crate) fn commit_graph_files(dirs: &[ObjectsDir], hash: HashKind) -> Option<Vec<Mapped>> {
    (0..dirs.len()).find_map(|at| {
        let single = map(&dirs[at].path().join("info/commit-graph")).map(|file| vec![file]);
        single.or_else(|| {
            // The files found so far, starting at the base, are a valid chain.
            let chain = read_chain(dirs, at, hash).ok()??;
            Some(chain.layers).filter(|layers| !layers.is_empty())
        })
    })
}

/// Opens a commit-graph and verifies all of it, because a flipped bit would misdirect a walk.
pub(crate) fn open_commit_graph(files: &[Mapped], hash: HashKind) -> Option<CommitGraph<Mapped>> {
    let opened = CommitGraph::open(files.iter().cloned(), hash);
    match opened.and_then(|graph| verified::once(files, || graph.verify_checksum()).map(|()| graph)) {
        Ok(graph) => Some(graph),
        Err(error) => {
            let fault = files
                .iter()
                .find_map(|file| Some((file, helper_fault::commit_graph::check(file, hash).err()?)));
            match fault {
                Some((file, why)) => say_ignored(file.path().unwrap_or(Path::new("commit-graph")), &why),
                None => tracing::warn!("ignoring commit-graph: {error}"),
            }
            None
        }
    }
}

/// Says why a file is not used. Git's words may name it, and have several lines if one fault is due to another.
pub(crate) fn say_ignored(path: &Path, why: &str) {
    let shown = path.display().to_string();
    match why.contains(&shown) {
        true => tracing::error!("{why}"),
        false => tracing::error!("ignoring {shown}: {}", why.replace("\nerror: ", ": ")),
    }
}

/// A chain of commit-graph files.
#[derive(Debug, Default)]
pub(crate) struct GraphChain {
    /// The files that were found and are built on each other, base first.
    pub layers: Vec<Mapped>,
    /// How many of them, from the base on, are in other object directories.
    pub foreign_layers: usize,
    /// Whether the list names more.
    pub is_incomplete: bool,
    /// Whether the list is too short for a name.
    pub is_cut_off: bool,
}

/// The chain that the object directory with this number lists; its files may be in any of them. `None` if it lists none.
pub(crate) fn read_chain(
    dirs: &[ObjectsDir],
    own: usize,
    hash: HashKind,
) -> Result<Option<GraphChain>, Error> {
    let list = dirs[own].path().join("info/commit-graphs/commit-graph-chain");
    let text = match packrace_os::read_file(&list, Role::Index, MAX_CHAIN_BYTES) {
        Ok(text) if text.is_empty() => return Ok(None),
        Ok(text) => text,
        Err(error) if packrace_os::is_absent(&error) => return Ok(None),
        Err(error) => return Err(Error::io(list, error)),
    };
    let mut chain = GraphChain::default();
    if text.len() < hash.len_in_hex() {
        tracing::warn!("commit-graph chain file too small");
        (chain.is_incomplete, chain.is_cut_off) = (true, true);
        return Ok(Some(chain));
    }
    // As in git, what is too short for one more line is left alone.
    let count = (text.len() + 1) / (hash.len_in_hex() + 1);
    for line in text.split(|byte| *byte == b'\n').take(count) {
        let is_added = match ObjectId::from_hex(line).ok().filter(|id| id.kind() == hash) {
            None => {
                let line = String::from_utf8_lossy(line);
                tracing::warn!("invalid commit-graph chain: line '{line}' not a hash");
                false
            }
            Some(id) => chain.push(dirs, own, &id),
        };
        if !is_added {
            chain.is_incomplete = true;
            break;
        }
    }
    Ok(Some(chain))
}

impl GraphChain {
    /// Adds the file of this name; false, with a warning, if it is not there or is not built on those below.
    fn push(&mut self, dirs: &[ObjectsDir], own: usize, id: &oid) -> bool {
        let name = graph_name(id);
        let in_dir = |dir: &ObjectsDir| map(&dir.path().join("info/commit-graphs").join(&name));
        let here = in_dir(&dirs[own]);
        let is_foreign = here.is_none();
        let file = here.or_else(|| dirs.iter().find_map(in_dir));
        let fitting = file.filter(|file| match check_fits(file, &self.layers, id.kind()) {
            Ok(()) => true,
            Err(why) => {
                tracing::warn!("{why}");
                false
            }
        });
        let Some(file) = fitting else {
            tracing::warn!("unable to find all commit-graph files");
            return false;
        };
        if is_foreign && self.foreign_layers == self.layers.len() {
            self.foreign_layers += 1;
        }
        self.layers.push(file);
        true
    }
}

/// The name of a file of a chain.
pub(crate) fn graph_name(id: &oid) -> String {
    format!("graph-{id}.graph")
}

/// Maps an optional file.
pub(crate) fn map(path: &Path) -> Option<Mapped> {
    match Mapped::open(path, Role::Index) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::error!("{}: {}", path.display(), packrace_os::reason(&error));
            None
        }
    }
}
