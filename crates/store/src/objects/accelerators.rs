//! Files that speed up walks: commit-graphs. None is required; a damaged one is reported and skipped.

use std::path::Path;

use packrace_format::commit_graph::CommitGraph;
use packrace_object::HashKind;
use packrace_os::Mapped;
use packrace_os::count::Role;

use crate::objects::objects_dir::ObjectsDir;
use crate::objects::verified;

/// Longest list of the files of a chain: one hash per line.
pub(crate) const MAX_CHAIN_BYTES: u64 = 1 << 20;

/// The files of the first commit-graph in the object directories, base of the chain first.
pub(crate) fn commit_graph_files(dirs: &[ObjectsDir]) -> Option<Vec<Mapped>> {
    dirs.iter().find_map(|dir| {
        let info = dir.path().join("info");
        let single = map(&info.join("commit-graph")).map(|file| vec![file]);
        single.or_else(|| chain(&info, dirs))
    })
}

/// Opens a commit-graph and verifies all of it, because a flipped bit would misdirect a walk.
pub(crate) fn open_commit_graph(files: &[Mapped], hash: HashKind) -> Option<CommitGraph<Mapped>> {
    let opened = CommitGraph::open(files.iter().cloned(), hash);
    match opened.and_then(|graph| verified::once(files, || graph.verify_checksum()).map(|()| graph)) {
        Ok(graph) => Some(graph),
        Err(error) => {
            tracing::warn!("ignoring commit-graph: {error}");
            None
        }
    }
}

/// The files that `commit-graphs/commit-graph-chain` names, base first; each may be in any object directory.
fn chain(info: &Path, dirs: &[ObjectsDir]) -> Option<Vec<Mapped>> {
    let list = info.join("commit-graphs/commit-graph-chain");
    let text = packrace_os::read_file(&list, Role::Index, MAX_CHAIN_BYTES).ok()?;
    let text = String::from_utf8(text).ok()?;
    let mut files = Vec::new();
    for name in text.lines() {
        if !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            tracing::error!("{} names no commit-graph: {name}", list.display());
            return None;
        }
        let file = dirs.iter().find_map(|dir| {
            let path = dir.path().join(format!("info/commit-graphs/graph-{name}.graph"));
            map(&path)
        });
        // The files found so far, starting at the base, are a valid chain.
        let Some(file) = file else {
            tracing::warn!("unable to find all commit-graph files");
            break;
        };
        files.push(file);
    }
    (!files.is_empty()).then_some(files)
}

/// Maps an optional file.
pub(crate) fn map(path: &Path) -> Option<Mapped> {
    match Mapped::open(path, Role::Index) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::error!("{}: {error}", path.display());
            None
        }
    }
}
