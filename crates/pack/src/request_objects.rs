use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};

use packrace_object::{HashKind, ObjectId, oid};
use packrace_store::{ObjectIx, ObjectReader, Snapshot};

use crate::error::{Error, ErrorKind, Reason};
use crate::loaded_commits::LoadedCommits;
pub(crate) use crate::object_no::ObjectNo;
use crate::progress::ProgressSink;

/// All objects that a request can reach, by number: those in the snapshot's packs, and the loose ones found
/// so far.
pub struct RequestObjects {
    snapshot: Arc<Snapshot>,
    /// Set when the first number is needed; packs need not be listed before that.
    packed_end: OnceLock<u32>,
    loose: Mutex<LooseNumbers>,
    /// Missing objects that a remote has promised; computed on first use.
    pub(crate) promised: Mutex<Option<Arc<HashSet<ObjectId>>>>,
    /// Missing objects that were asked for.
    missing: Mutex<BTreeSet<ObjectId>>,
    /// Commits that a negotiation has read, for the plan that follows.
    pub(crate) negotiated: Mutex<Option<LoadedCommits>>,
}

#[derive(Default)]
struct LooseNumbers {
    ids: Vec<ObjectId>,
    numbers: HashMap<ObjectId, u32>,
}

impl RequestObjects {
    /// The objects of `snapshot`.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        RequestObjects {
            packed_end: OnceLock::new(),
            snapshot,
            loose: Mutex::default(),
            promised: Mutex::default(),
            missing: Mutex::default(),
            negotiated: Mutex::default(),
        }
    }

    /// The snapshot that objects are read from.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The objects as found without a damaged multi-pack-index, for a request that failed with `error`; that error
    /// if no index is damaged, or if the caller asks these for [`missing_met`](Self::missing_met).
    pub(crate) fn without_damaged_index(
        &self,
        lists_missing: bool,
        error: Error,
    ) -> Result<Arc<Self>, Error> {
        if error.kind() != ErrorKind::Corrupt || lists_missing {
            return Err(error);
        }
        let without = self.snapshot.without_damaged_multi_pack_index()?;
        without.map(|snapshot| Arc::new(RequestObjects::new(snapshot))).ok_or(error)
    }

    pub(crate) fn hash(&self) -> HashKind {
        self.snapshot.hash_kind()
    }

    #[inline]
    pub(crate) fn packed_end(&self) -> u32 {
        *self.packed_end.get_or_init(|| self.snapshot.numbers_end())
    }

    /// Whether the object exists.
    pub fn contains(&self, id: &oid) -> Result<bool, Error> {
        Ok(self.find(id)?.is_some())
    }

    /// The number of the object with this id, if it exists.
    #[inline]
    pub(crate) fn find(&self, id: &oid) -> Result<Option<ObjectNo>, Error> {
        if let Some(ix) = self.snapshot.lookup(id) {
            return Ok(Some(ObjectNo(ix.0)));
        }
        self.find_loose(id)
    }

    /// The same for an object that must exist.
    #[inline]
    pub(crate) fn require(&self, id: &oid) -> Result<ObjectNo, Error> {
        self.find(id)?.ok_or_else(|| Reason::Missing(id.to_owned()).into())
    }

    /// Adds an object to [`missing_met`](Self::missing_met).
    pub fn list_missing(&self, id: &oid) {
        self.missing.lock().expect("no panic while held").insert(id.to_owned());
    }

    /// The missing objects that were left out until they are fetched (see
    /// [`MissingObjects::Listed`](crate::plan::MissingObjects::Listed)), sorted.
    pub fn missing_met(&self) -> Vec<ObjectId> {
        self.missing.lock().expect("no panic while held").iter().copied().collect()
    }

    /// Fetches [`missing_met`](Self::missing_met). Gives the objects with them.
    pub fn fetch_missing_met(&self, progress: &dyn ProgressSink) -> Result<Arc<Self>, Error> {
        match self.snapshot.fetch_missing(&self.missing_met()) {
            Ok(snapshot) => Ok(Arc::new(RequestObjects::new(snapshot))),
            Err(error) => match error.unfetched() {
                // As in git, nobody can have failed to send what nobody promised.
                Some(id) if !self.is_promised(&id, progress)? => Err(Reason::Missing(id).into()),
                _ => Err(error.into()),
            },
        }
    }

    /// Whether the object exists now, even if an earlier look-up missed it: it may have arrived during the
    /// session.
    pub fn contains_now(&self, id: &oid) -> Result<bool, Error> {
        if self.contains(id)? {
            return Ok(true);
        }
        Ok(self.number_loose(id, |snapshot| snapshot.has_now(id))?.is_some())
    }

    #[cold]
    fn find_loose(&self, id: &oid) -> Result<Option<ObjectNo>, Error> {
        self.number_loose(id, |snapshot| snapshot.has_loose(id))
    }

    /// Numbers a loose object, if it exists and has no number yet.
    fn number_loose(
        &self,
        id: &oid,
        is_there: impl FnOnce(&Snapshot) -> Result<bool, packrace_store::Error>,
    ) -> Result<Option<ObjectNo>, Error> {
        let mut loose = self.loose.lock().expect("no panic while held");
        if let Some(&number) = loose.numbers.get(id) {
            return Ok(Some(ObjectNo(number)));
        }
        if !is_there(&self.snapshot)? {
            return Ok(None);
        }
        let number = u32::try_from(loose.ids.len())
            .ok()
            .and_then(|count| self.packed_end().checked_add(count))
            .ok_or(Error::from(Reason::TooManyObjects))?;
        loose.ids.push(id.to_owned());
        loose.numbers.insert(id.to_owned(), number);
        Ok(Some(ObjectNo(number)))
    }

    /// The loose objects found so far.
    pub(crate) fn loose_met(&self) -> Vec<ObjectId> {
        self.loose.lock().expect("no panic while held").ids.clone()
    }

    /// The snapshot's number of a packed object.
    #[inline]
    pub(crate) fn packed(&self, ix: ObjectNo) -> Option<ObjectIx> {
        (ix.0 < self.packed_end()).then_some(ObjectIx(ix.0))
    }

    pub(crate) fn id(&self, ix: ObjectNo) -> ObjectId {
        match self.packed(ix) {
            Some(ix) => self.snapshot.id(ix).to_owned(),
            None => self.loose.lock().expect("no panic while held").ids[(ix.0 - self.packed_end()) as usize],
        }
    }

    /// Reads a whole object into `content`.
    pub(crate) fn read(
        &self,
        reader: &mut ObjectReader,
        ix: ObjectNo,
        content: &mut Vec<u8>,
    ) -> Result<packrace_object::Kind, Error> {
        if let Some(packed) = self.packed(ix) {
            return Ok(reader.read_at(packed, content)?);
        }
        let object = reader.read(&self.id(ix))?;
        *content = object.data;
        Ok(object.kind)
    }

    /// The kind of an object; reads the object only if the store has to.
    pub(crate) fn kind(
        &self,
        reader: &mut ObjectReader,
        ix: ObjectNo,
    ) -> Result<packrace_object::Kind, Error> {
        Ok(self.kind_and_size(reader, ix)?.0)
    }

    /// The same, with the object's length.
    pub(crate) fn kind_and_size(
        &self,
        reader: &mut ObjectReader,
        ix: ObjectNo,
    ) -> Result<(packrace_object::Kind, u64), Error> {
        Ok(reader.kind_and_size(&self.id(ix))?.ok_or_else(|| Reason::Missing(self.id(ix)))?)
    }
}
