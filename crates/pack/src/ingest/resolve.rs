//! The second pass: applies deltas, starting from their bases, on several threads, and names the results.
//!
//! Every thread descends one family at a time, depth first. A base is dropped when its last delta is reached,
//! and the largest family of a base comes last, so few contents are alive at a time, however deep or wide a
//! family is. Contents beyond the cache's limit are dropped, too, and made again when needed. No lock is
//! taken per object; an idle thread gets half of the deltas of another thread's base.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use packrace_object::{Kind, Like, ObjectId, Unnamed, object_ids};
use packrace_store::publish::{Scratch, WrittenPack};
use packrace_store::{Snapshot, cache_bytes};

use super::checks::{Checks, Inspector};
use super::content::{Content, Maker, is_long};
use super::delta_buffer::DeltaBuffer;
use super::error::IngestReason;
use super::existing::ExistingReader;
use super::table::{Children, EntryNumber, EntryTable, Named, NamedDelta};
use super::unpacked::Unpacked;
use crate::progress::{Phase, ProgressSink};
use crate::threads::on_threads;

/// How many objects are named together; then how many bytes.
const BATCH_OBJECTS: usize = 16;
const BATCH_BYTES: usize = 4 << 20;

/// Roots that a thread takes at a time.
const ROOTS_AT_A_TIME: usize = 16;

/// After reading this many bytes of the pack, its pages are released: process statistics count them as the
/// process's memory, although the kernel can reclaim them at any time.
const LOOKED_AT_BYTES: usize = 16 << 20;

/// Deltas between two progress reports.
const REPORT_EVERY: u64 = 512;

/// Fewer deltas are resolved on one thread.
const WORTH_A_THREAD: u64 = 256;

/// The object from which a family descends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Root {
    /// A whole object of the pack.
    Entry(EntryNumber),
    /// An object of the repository.
    Existing(ObjectId),
}

/// The result of resolving.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) resolved: Vec<Named>,
    /// One per thread.
    pub(super) inspectors: Vec<Inspector>,
}

/// The state shared by all threads.
pub(super) struct Resolver<'a> {
    pub(super) pack: &'a WrittenPack,
    pub(super) short_deltas: &'a DeltaBuffer,
    pub(super) table: &'a EntryTable,
    pub(super) children: &'a Children,
    /// Sorted by base.
    pub(super) named: &'a [NamedDelta],
    /// Whether the deltas of a base given by id are claimed, indexed by the first of them.
    pub(super) claimed: &'a [AtomicBool],
    pub(super) scratch: Option<Scratch>,
    pub(super) unpacked: &'a Arc<Unpacked>,
    pub(super) existing: Option<Arc<Snapshot>>,
    /// Whether families may start at objects of the repository.
    pub(super) completes: bool,
    pub(super) cache_bytes: usize,
    pub(super) checks: Option<&'a Checks>,
    pub(super) progress: &'a dyn ProgressSink,
    /// The number of resolved deltas, of all deltas, and of deltas unresolved at the start.
    pub(super) done: &'a AtomicU64,
    pub(super) total: u64,
    pub(super) left: u64,
}

/// Families waiting for a thread.
struct Queue<'a> {
    roots: &'a [Root],
    next: AtomicUsize,
    /// The number of idle threads.
    hungry: AtomicUsize,
    shared: Mutex<SharedTasks>,
    given: Condvar,
    is_over: AtomicBool,
}

struct SharedTasks {
    tasks: Vec<Frame>,
    /// The number of threads that have work and may share it.
    busy: usize,
}

/// A base whose deltas are being resolved.
struct Frame {
    kind: Kind,
    content: Option<Arc<Content>>,
    /// How to make the content again: from the frame below or, without one, from a root, then delta by delta.
    /// `None` for a frame from another thread, and for contents made from it alone: those are kept.
    path: Option<Vec<Root>>,
    children: Range<u32>,
    named: Range<u32>,
}

impl Frame {
    fn left(&self) -> usize {
        self.children.len() + self.named.len()
    }
}

impl Resolver<'_> {
    /// Resolves the families of `roots`.
    pub(super) fn run(&self, roots: &[Root], threads: usize) -> Result<Outcome, IngestReason> {
        let threads = if self.left < WORTH_A_THREAD { 1 } else { threads.max(1) };
        let queue = Queue {
            roots,
            next: AtomicUsize::new(0),
            hungry: AtomicUsize::new(0),
            shared: Mutex::new(SharedTasks { tasks: Vec::new(), busy: threads }),
            given: Condvar::new(),
            is_over: AtomicBool::new(false),
        };
        let work = || {
            let result = DeltaWorker::new(self, &queue).run();
            if result.is_err() {
                queue.stop();
            }
            result
        };
        let mut outcome = Outcome::default();
        let mut failure = None;
        for result in on_threads(threads, work) {
            match result {
                Ok(mut part) => {
                    outcome.resolved.append(&mut part.resolved);
                    outcome.inspectors.append(&mut part.inspectors);
                }
                // The other threads were cancelled because of the thread that failed.
                Err(error) if matches!(failure, None | Some(IngestReason::Cancelled)) => {
                    failure = Some(error)
                }
                Err(_) => {}
            }
        }
        failure.map_or(Ok(outcome), Err)
    }

    /// Claims the deltas that name this object as their base. As in git, a pack that contains the base twice
    /// is refused; if the repository has the object as well, its deltas are resolved once.
    fn claim(&self, id: &ObjectId) -> Result<Range<u32>, IngestReason> {
        if self.named.is_empty() {
            return Ok(0..0);
        }
        let start = self.named.partition_point(|delta| delta.base < *id);
        let count = self.named[start..].partition_point(|delta| delta.base == *id);
        if count == 0 {
            return Ok(0..0);
        }
        if !self.claimed[start].swap(true, Relaxed) {
            return Ok(start as u32..(start + count) as u32);
        }
        if self.completes {
            return Ok(0..0);
        }
        let offset = self.table.entries[self.named[start].entry as usize].offset;
        Err(IngestReason::TwoBases { offset, base: *id })
    }
}

impl Queue<'_> {
    fn lock(&self) -> std::sync::MutexGuard<'_, SharedTasks> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.is_over.store(true, Relaxed);
        let _shared = self.lock();
        self.given.notify_all();
    }

    /// Waits for a family from another thread; `None` when all work is done.
    fn wait(&self) -> Option<Frame> {
        let mut shared = self.lock();
        shared.busy -= 1;
        self.hungry.fetch_add(1, Relaxed);
        loop {
            if let Some(task) = shared.tasks.pop() {
                shared.busy += 1;
                self.hungry.fetch_sub(1, Relaxed);
                return Some(task);
            }
            if shared.busy == 0 || self.is_over.load(Relaxed) {
                self.given.notify_all();
                return None;
            }
            shared = self.given.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give(&self, task: Frame) {
        self.lock().tasks.push(task);
        self.given.notify_one();
    }
}

/// An object without an id yet.
struct UnnamedObject {
    entry: EntryNumber,
    kind: Kind,
    content: Arc<Content>,
    /// Its delta base.
    base: Arc<Content>,
    /// Whether it has deltas, or may have some.
    is_base: bool,
}

impl UnnamedObject {
    /// Trees keep their length when a file changes, blobs seldom do. So only trees are hashed from the first
    /// difference on.
    fn unnamed(&self) -> Unnamed<'_> {
        let is_tree = self.kind == Kind::Tree;
        let like = Like { content: &self.base, midstates: &self.base.midstates };
        Unnamed {
            like: is_tree.then_some(like),
            notes: (is_tree && self.is_base).then_some(&self.content.midstates),
            ..Unnamed::new(self.kind, &self.content)
        }
    }
}

struct DeltaWorker<'a> {
    resolver: &'a Resolver<'a>,
    queue: &'a Queue<'a>,
    maker: Maker<'a>,
    reader: Option<ExistingReader>,
    stack: Vec<Frame>,
    /// The memory of all contents on the stack.
    stack_bytes: usize,
    /// Objects without an id yet.
    unnamed: Vec<UnnamedObject>,
    unnamed_bytes: usize,
    ids: Vec<ObjectId>,
    resolved: Vec<Named>,
    inspector: Option<Inspector>,
    unreported: u64,
    /// Room for an entry of a pack that is not mapped.
    packed: Vec<u8>,
    /// Bytes of the pack read since its pages were last released.
    looked_at_bytes: usize,
}

impl<'a> DeltaWorker<'a> {
    fn new(resolver: &'a Resolver<'a>, queue: &'a Queue<'a>) -> Self {
        DeltaWorker {
            resolver,
            queue,
            maker: Maker::new(resolver.scratch.clone(), resolver.unpacked.clone(), resolver.progress),
            reader: resolver
                .existing
                .as_ref()
                .map(|snapshot| ExistingReader::new(snapshot, cache_bytes::MANY_OBJECTS)),
            stack: Vec::new(),
            stack_bytes: 0,
            unnamed: Vec::new(),
            unnamed_bytes: 0,
            ids: Vec::new(),
            resolved: Vec::new(),
            inspector: resolver.checks.map(|checks| Inspector::new(checks, resolver.table.hash)),
            unreported: 0,
            packed: Vec::new(),
            looked_at_bytes: 0,
        }
    }

    fn run(mut self) -> Result<Outcome, IngestReason> {
        loop {
            let start = self.queue.next.fetch_add(ROOTS_AT_A_TIME, Relaxed);
            let Some(roots) = self.queue.roots.get(start..) else { break };
            for root in &roots[..roots.len().min(ROOTS_AT_A_TIME)] {
                self.enter_root(*root)?;
                self.empty_stack()?;
            }
        }
        while let Some(task) = self.queue.wait() {
            self.push(task);
            self.empty_stack()?;
        }
        self.name()?;
        self.report();
        let inspectors = self.inspector.take().into_iter().collect();
        Ok(Outcome { resolved: std::mem::take(&mut self.resolved), inspectors })
    }

    fn enter_root(&mut self, root: Root) -> Result<(), IngestReason> {
        let (children, named) = match root {
            Root::Entry(entry) => {
                let children = self.resolver.children.of(entry);
                (children, self.resolver.claim(&self.resolver.table.entries[entry as usize].id)?)
            }
            Root::Existing(id) => (0..0, self.resolver.claim(&id)?),
        };
        if children.is_empty() && named.is_empty() {
            return Ok(());
        }
        let (kind, content) = self.root_content(root)?;
        self.push(Frame { kind, content: Some(Arc::new(content)), path: Some(vec![root]), children, named });
        Ok(())
    }

    fn root_content(&mut self, root: Root) -> Result<(Kind, Content), IngestReason> {
        match root {
            Root::Entry(entry) => {
                let kind = self.resolver.table.whole_kind(entry).expect("families begin with whole objects");
                let (stream, size) =
                    self.resolver.table.stream(entry, self.resolver.pack, &mut self.packed)?;
                Ok((kind, self.maker.inflate(stream, size)?))
            }
            Root::Existing(id) => {
                let reader = self.reader.as_mut().expect("what exists was found in a snapshot");
                let object = reader.read(&id)?;
                Ok((object.kind, Content::in_memory(object.data)))
            }
        }
    }

    /// Resolves everything below the frames on the stack.
    fn empty_stack(&mut self) -> Result<(), IngestReason> {
        while let Some(top) = self.stack.last_mut() {
            let entry = match (top.children.next(), top.named.start) {
                (Some(position), _) => self.resolver.children.at(position),
                (None, at) if !top.named.is_empty() => {
                    top.named.start += 1;
                    self.resolver.named[at as usize].entry
                }
                _ => {
                    self.pop();
                    continue;
                }
            };
            self.resolve(entry)?;
            if self.queue.hungry.load(Relaxed) > 0 {
                self.share();
            }
            if self.queue.is_over.load(Relaxed) || self.resolver.progress.cancelled() {
                return Err(IngestReason::Cancelled);
            }
        }
        Ok(())
    }

    /// Applies a delta to the base on top of the stack; pushes the result if it is a base, too.
    fn resolve(&mut self, entry: EntryNumber) -> Result<(), IngestReason> {
        let base = self.content_of(self.stack.len() - 1)?;
        let top = self.stack.last().expect("the caller has looked");
        let (kind, is_last) = (top.kind, top.left() == 0);
        let mut path = Some(Vec::new());
        if is_last {
            // Later frames can be made again from the path of this base.
            path = self.pop_path();
        }
        let content = Arc::new(self.apply(entry, &base)?);
        let children = self.resolver.children.of(entry);
        let named = if self.resolver.table.is_unnamed(entry) {
            let content = content.clone();
            let is_base = !children.is_empty() || !self.resolver.named.is_empty();
            self.await_name(UnnamedObject { entry, kind, content, base, is_base })?
        } else {
            self.recycle(base);
            self.resolver.claim(&self.resolver.table.entries[entry as usize].id)?
        };
        if children.is_empty() && named.is_empty() {
            self.recycle(content);
        } else {
            if let Some(path) = &mut path {
                path.push(Root::Entry(entry));
            }
            self.push(Frame { kind, content: Some(content), path, children, named });
        }
        Ok(())
    }

    /// Queues a result, to name it together with others. If the pack has deltas with a base given by id, the
    /// result is named at once: only its id leads to its deltas.
    fn await_name(&mut self, pending: UnnamedObject) -> Result<Range<u32>, IngestReason> {
        self.unreported += 1;
        if self.unreported == REPORT_EVERY {
            self.report();
        }
        self.unnamed_bytes += pending.content.len() + pending.base.len();
        self.unnamed.push(pending);
        let is_full = self.unnamed.len() == BATCH_OBJECTS || self.unnamed_bytes > BATCH_BYTES;
        if is_full || !self.resolver.named.is_empty() {
            let id = self.name()?;
            return self.resolver.claim(&id);
        }
        Ok(0..0)
    }

    fn apply(&mut self, entry: EntryNumber, base: &[u8]) -> Result<Content, IngestReason> {
        let result = match self.resolver.short_deltas.get(entry) {
            Some(delta) => self.maker.apply_delta(base, delta)?,
            None => {
                let (stream, size) =
                    self.resolver.table.stream(entry, self.resolver.pack, &mut self.packed)?;
                self.looked_at_bytes += stream.len();
                if self.looked_at_bytes > LOOKED_AT_BYTES {
                    self.looked_at_bytes = 0;
                    self.resolver.pack.mapped().inspect(|map| map.let_go());
                }
                self.maker.apply(base, stream, size)?
            }
        };
        let offset = self.resolver.table.entries[entry as usize].offset;
        result.ok_or_else(|| IngestReason::bad_object(offset, "failed to apply delta"))
    }

    /// Names all queued objects; returns the last id.
    fn name(&mut self) -> Result<ObjectId, IngestReason> {
        let hash = self.resolver.table.hash;
        let objects: Vec<Unnamed<'_>> = self.unnamed.iter().map(UnnamedObject::unnamed).collect();
        self.ids.clear();
        for objects in objects.chunk_by(|one, next| !is_long(one) && !is_long(next)) {
            let start = self.ids.len();
            let named = match objects {
                [long] if is_long(long) => {
                    self.maker.id_of_long(hash, long)?.map(|id| self.ids.push(id)).map_err(|_| 0)
                }
                _ => object_ids(hash, objects, &mut self.ids).map_err(|(number, _)| number),
            };
            named.map_err(|number| {
                let entry = self.unnamed[start + number].entry;
                IngestReason::CollisionAttack(self.resolver.table.entries[entry as usize].offset)
            })?;
        }
        self.unnamed_bytes = 0;
        let last = self.ids.last().copied().unwrap_or(hash.null());
        for (pending, id) in self.unnamed.drain(..).zip(&self.ids) {
            let UnnamedObject { entry, kind, content, base, .. } = pending;
            if let Some(inspector) = &mut self.inspector {
                inspector.inspect(kind, id, &content)?;
            }
            self.resolved.push(Named { entry, id: *id });
            for content in [content, base].into_iter().filter_map(Arc::into_inner) {
                self.maker.recycle(content);
            }
        }
        Ok(last)
    }

    /// The content of a frame; made again if it was dropped.
    fn content_of(&mut self, frame: usize) -> Result<Arc<Content>, IngestReason> {
        let mut from = frame;
        while self.stack[from].content.is_none() && from > 0 {
            from -= 1;
        }
        let mut content = self.stack[from].content.clone();
        let first = if content.is_some() { from + 1 } else { from };
        for at in first..=frame {
            for step in self.stack[at].path.clone().into_iter().flatten() {
                content = Some(Arc::new(match (content, step) {
                    (Some(base), Root::Entry(entry)) => self.apply(entry, &base)?,
                    (_, root) => self.root_content(root)?.1,
                }));
            }
        }
        let content = content.expect("the lowest frame has a content or a root");
        if self.stack[frame].content.is_none() {
            self.stack_bytes += content.memory_bytes();
            self.stack[frame].content = Some(content.clone());
            self.let_go();
        }
        Ok(content)
    }

    fn push(&mut self, frame: Frame) {
        self.stack_bytes += frame.content.as_ref().map_or(0, |content| content.memory_bytes());
        self.stack.push(frame);
        self.let_go();
    }

    /// Drops contents that are not needed soon, lowest first, until the rest is within the limit.
    fn let_go(&mut self) {
        let top = self.stack.len() - 1;
        for frame in &mut self.stack[..top] {
            if self.stack_bytes <= self.resolver.cache_bytes {
                return;
            }
            if frame.path.is_some()
                && let Some(content) = frame.content.take()
            {
                self.stack_bytes -= content.memory_bytes();
            }
        }
    }

    fn pop(&mut self) {
        let Some(frame) = self.stack.pop() else { return };
        if let Some(content) = frame.content {
            self.stack_bytes -= content.memory_bytes();
            self.recycle(content);
        }
    }

    /// Pops the top of the stack; returns how its content was made from the frames below.
    fn pop_path(&mut self) -> Option<Vec<Root>> {
        let path = self.stack.last_mut().and_then(|frame| frame.path.take());
        self.pop();
        path
    }

    /// Reuses the buffer if no other reference exists.
    fn recycle(&mut self, content: Arc<Content>) {
        if let Some(content) = Arc::into_inner(content) {
            self.maker.recycle(content);
        }
    }

    /// Gives an idle thread half of the deltas of the lowest base that has several.
    fn share(&mut self) {
        let Some(at) = self.stack.iter().position(|frame| frame.children.len() > 1) else { return };
        let Ok(content) = self.content_of(at) else { return };
        let frame = &mut self.stack[at];
        let middle = frame.children.start + frame.children.len() as u32 / 2;
        let children = frame.children.start..middle;
        frame.children.start = middle;
        let task = Frame { kind: frame.kind, content: Some(content), path: None, children, named: 0..0 };
        self.queue.give(task);
    }

    fn report(&mut self) {
        let done = self.resolver.done.fetch_add(self.unreported, Relaxed) + self.unreported;
        self.unreported = 0;
        self.resolver.progress.report(Phase::Resolving, done, self.resolver.total);
    }
}

impl Drop for DeltaWorker<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The result is lost, so other threads need not go on.
            self.queue.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use packrace_object::{HashKind, object_id};

    use super::*;

    /// Names a base and a delta of it together, and returns what was recorded of both.
    fn check(kind: Kind) -> [String; 2] {
        let hash = HashKind::Sha1;
        let bytes = vec![1; 5000];
        let mut changed = bytes.clone();
        changed[4500] = 2;
        let root = Arc::new(Content::in_memory(vec![0; 5000]));
        let base = Arc::new(Content::in_memory(bytes));
        let last = Arc::new(Content::in_memory(changed));
        let pending = |content: &Arc<Content>, base: &Arc<Content>, is_base| UnnamedObject {
            entry: 0,
            kind,
            content: content.clone(),
            base: base.clone(),
            is_base,
        };
        let pair = [pending(&base, &root, true), pending(&last, &base, false)];
        assert_eq!(pair[1].unnamed().like.is_some(), kind == Kind::Tree);
        let mut ids = Vec::new();
        object_ids(hash, &pair.each_ref().map(UnnamedObject::unnamed), &mut ids).unwrap();
        assert_eq!(ids, [&base, &last].map(|content| object_id(hash, kind, content).unwrap()));
        [&base, &last].map(|content| format!("{:?}", content.midstates))
    }

    #[test]
    fn trees_are_hashed_from_where_they_differ() {
        let nothing = "Midstates(None)";
        assert_eq!(check(Kind::Tree), ["Midstates(Some(4))", nothing]);
        assert_eq!(check(Kind::Blob), [nothing, nothing]);
    }
}
