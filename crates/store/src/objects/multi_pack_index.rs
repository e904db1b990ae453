//! The multi-pack-index of a pack directory, or a chain of several. It is not required; a damaged one is reported and
//! skipped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_format::multi_pack_index::{MultiPackIndex, MultiPackIndexChain, parse_chain_file};
use packrace_object::HashKind;
use packrace_os::count::Role;
use packrace_os::{FileIdentity, Mapped, trace};

use crate::objects::accelerators::{MAX_CHAIN_BYTES, map, say_ignored};
use crate::objects::helper_fault::multi_pack_index::{MultiPackIndexFault, check};
use crate::objects::objects_dir::{MIDX_CHAIN_DIR, MIDX_CHAIN_FILE};
use crate::objects::verified;

/// The most files of a chain that are used: each is mapped, and searched one after the other. Other packs are found by
/// their own indexes.
const MAX_LAYERS: usize = 256;

/// The multi-pack-index of a pack directory, or the chain of several; as in git, the single file is preferred.
#[derive(Debug, Clone)]
pub(crate) struct OpenMultiPackIndex {
    pub(crate) index: Arc<MultiPackIndexChain<Mapped>>,
    /// The file that names those of a chain.
    chain_file: Option<FileIdentity>,
}

impl OpenMultiPackIndex {
    /// `has_chain` says whether there is a directory for a chain.
    pub(crate) fn open(pack_dir: &Path, hash: HashKind, has_chain: bool) -> Option<Self> {
        let found = Self::open_untraced(pack_dir, hash, has_chain)?;
        for layer in found.index.layers() {
            trace::data("midx", "load/num_packs", layer.pack_count());
            trace::data("midx", "load/num_objects", layer.len());
        }
        Some(found)
    }

    fn open_untraced(pack_dir: &Path, hash: HashKind, has_chain: bool) -> Option<Self> {
        let path = pack_dir.join("multi-pack-index");
        let Some(bytes) = map(&path) else {
            return if has_chain { Self::open_chain(pack_dir, hash) } else { None };
        };
        let opened = MultiPackIndex::open(bytes.clone(), hash);
        let said = opened.inspect_err(|error| say_ignored(&path, &words(&bytes, &path, hash, error)));
        let index = said.ok()?;
        Some(OpenMultiPackIndex { index: Arc::new(index.into()), chain_file: None })
    }

    /// Opens the lowest files of the chain up to the first that is missing or damaged.
    fn open_chain(pack_dir: &Path, hash: HashKind) -> Option<Self> {
        let chain_file = chain_file(pack_dir)?;
        let (dir, list) = (pack_dir.join(MIDX_CHAIN_DIR), pack_dir.join(MIDX_CHAIN_FILE));
        let text = packrace_os::read_file(&list, Role::Index, MAX_CHAIN_BYTES);
        let text = text.inspect_err(|error| tracing::error!("{}: {error}", list.display())).ok()?;
        let Some(names) = parse_chain_file(&text, hash) else {
            tracing::error!("ignoring {}: a line is not a checksum", list.display());
            return None;
        };
        if names.len() > MAX_LAYERS {
            tracing::warn!("{} names more than {MAX_LAYERS} files: only the lowest are used", list.display());
        }
        let mut index = MultiPackIndexChain::empty();
        for name in names.into_iter().take(MAX_LAYERS) {
            let path = dir.join(format!("multi-pack-index-{name}.midx"));
            let Some(bytes) = map(&path) else {
                tracing::warn!("unable to find all multi-pack index files");
                break;
            };
            if let Err(error) = index.push(bytes.clone(), &name) {
                say_ignored(&path, &words(&bytes, &path, hash, &error));
                break;
            }
        }
        let found = OpenMultiPackIndex { index: Arc::new(index), chain_file: Some(chain_file) };
        (!found.index.layers().is_empty()).then_some(found)
    }

    /// Whether it is in the directory for chains.
    pub(crate) fn is_chain(&self) -> bool {
        self.chain_file.is_some()
    }

    /// Whether the file, or the list of the files of the chain, is unchanged.
    pub(crate) fn is_current(&self, pack_dir: &Path) -> bool {
        let single = packrace_os::identity(&pack_dir.join("multi-pack-index"), Role::Index).ok().flatten();
        match self.chain_file {
            Some(then) => single.is_none() && chain_file(pack_dir) == Some(then),
            None => single.is_some() && single == self.index.layers()[0].data().identity(),
        }
    }

    /// Whether it is the single file, or a chain whose list is unchanged: then all else that may have become of it
    /// shows in the directory of the packs.
    pub(crate) fn has_current_chain(&self, pack_dir: &Path) -> bool {
        self.chain_file.is_none_or(|then| chain_file(pack_dir) == Some(then))
    }
}

/// What is wrong with a file: in git's words, if git would not open it either.
fn words(bytes: &[u8], path: &Path, hash: HashKind, error: &dyn std::fmt::Display) -> String {
    match check(bytes, path, hash) {
        Ok(()) => error.to_string(),
        Err(MultiPackIndexFault::Unparsed(why) | MultiPackIndexFault::Ends(why, _)) => why,
    }
}

/// The multi-pack-index of a repository, or the chain of several.
#[derive(Debug)]
pub struct OwnMultiPackIndex {
    /// Its files.
    pub chain: MultiPackIndexChain<Mapped>,
    /// Whether they are in the directory for chains.
    pub is_chain: bool,
    pub(crate) dir: PathBuf,
}

impl OwnMultiPackIndex {
    /// The bitmap file of a layer, if there is one.
    pub fn bitmap_of(&self, layer: usize) -> Option<Mapped> {
        let checksum = self.chain.layers()[layer].checksum();
        map(&self.dir.join(format!("multi-pack-index-{checksum}.bitmap")))
    }

    /// The reverse index beside a layer, if there is one.
    pub fn reverse_of(&self, layer: usize) -> Option<Mapped> {
        let checksum = self.chain.layers()[layer].checksum();
        map(&self.dir.join(format!("multi-pack-index-{checksum}.rev")))
    }
}

/// Hashes the files, for a contradiction: a flipped bit gives an object another name or place. Too slow for each use.
pub(crate) fn verify(index: &MultiPackIndexChain<Mapped>) -> Result<(), packrace_format::Error> {
    let verify = |layer: &MultiPackIndex<Mapped>| {
        verified::once(std::slice::from_ref(layer.data()), || layer.verify_checksum())
    };
    index.layers().iter().try_for_each(verify)
}

/// The list of the files of a chain of multi-pack-indexes, if there is one.
pub(crate) fn chain_file(pack_dir: &Path) -> Option<FileIdentity> {
    packrace_os::identity(&pack_dir.join(MIDX_CHAIN_FILE), Role::Index).ok().flatten()
}
