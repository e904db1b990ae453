//! Disk faults in mapped files: docs/decisions/0030-disk-faults.md.
//!
//! The kernel sends SIGBUS to a thread that touches an unavailable page of a mapped file: the file was
//! truncated, or its disk does not answer. After [`contain`], such a fault in one of our maps replaces
//! the whole map by zeros, marks it as damaged and lets the thread continue. Results computed from
//! zeros are invalid, so users of a map call [`Mapped::check`](crate::Mapped::check) before a result
//! counts as complete.
//!
//! ```text
//! touch ──▶ SIGBUS ──▶ handler: registry of live maps ── found ──▶ zeros over the map, damaged = true, go on
//!                                                     └─ not found ─▶ the action that was there before: the process dies
//! ```
//!
//! The handler takes no lock, allocates nothing and calls only mmap(2), sigaction(2) and raise(3).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{fmt, io, ptr};

/// Slots of the first slab; each further slab has twice as many.
const FIRST_SLAB_SLOTS: usize = 1024;

/// This many slabs hold more maps than an address space.
const SLABS: usize = 32;

/// How many names of damaged files are kept for later queries.
const MAX_REMEMBERED: usize = 16;

/// Slots of live maps, never freed, so that the handler can always read them.
static REGISTRY: [AtomicPtr<Slot>; SLABS] = [const { AtomicPtr::new(ptr::null_mut()) }; SLABS];

/// Free slots. Not read by the handler.
static FREE: Mutex<Free> = Mutex::new(Free { slots: Vec::new(), slabs: 0 });

/// The action for SIGBUS before [`contain`].
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// The number of maps found damaged.
static DAMAGED_MAPS: AtomicU64 = AtomicU64::new(0);

/// See [`Scope::Process`].
static ENDS_PROCESS: AtomicBool = AtomicBool::new(false);

/// Files whose maps were damaged and have been dropped.
static REMEMBERED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The scope of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Only work that needs the file: a server.
    Work,
    /// The whole process, after the current work: from the first fault on, no file gets a name
    /// ([`check_process`]).
    Process,
}

/// A mapped file was truncated, overwritten or unreadable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The file, if it has a name.
    pub path: Option<PathBuf>,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: ", path.display())?,
            None => f.write_str("an unnamed file: ")?,
        }
        f.write_str("the file was truncated, changed or could not be read while it was in use")
    }
}

impl std::error::Error for Damaged {}

impl From<Damaged> for io::Error {
    fn from(damaged: Damaged) -> Self {
        io::Error::other(damaged)
    }
}

/// Contains faults in mapped files from now on, in all threads. Without this call they kill the process. A second
/// call only changes the scope.
#[allow(unsafe_code)]
pub fn contain(scope: Scope) -> io::Result<()> {
    ENDS_PROCESS.store(scope == Scope::Process, Ordering::Relaxed);
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: all zeros are a valid `sigaction`, and each pointer is to one or null. `on_fault` has the signature
    // that SA_SIGINFO requires, and does only what is allowed in a handler. `BEFORE` is set before it can run.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        if BEFORE.set(before).is_err() {
            return Ok(());
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        if libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The number of maps found damaged so far. If unchanged, no map was damaged in between.
#[inline]
pub fn damaged_maps() -> u64 {
    DAMAGED_MAPS.load(Ordering::Acquire)
}

/// A file that was found damaged, if any and if its name is known.
pub fn first_damaged() -> Option<Damaged> {
    if damaged_maps() == 0 {
        return None;
    }
    let remembered = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner).first().cloned();
    let live =
        || slots().find(|slot| slot.is_damaged()).and_then(|slot| slot.name().as_deref().map(Path::to_owned));
    Some(Damaged { path: remembered.or_else(live) })
}

/// Fails after a fault in a process that serves nobody else ([`Scope::Process`]): its output since then may
/// come from zeros and must not be published.
pub fn check_process() -> io::Result<()> {
    if damaged_maps() == 0 || !ENDS_PROCESS.load(Ordering::Relaxed) {
        return Ok(());
    }
    Err(first_damaged().unwrap_or(Damaged { path: None }).into())
}

/// Touches every page of `bytes` after the kernel could not read them (EFAULT). Damaged maps among them are
/// marked, as by any other access; returns the one at their start. Touches nothing without [`contain`].
pub fn touch(bytes: &[u8]) -> Option<Damaged> {
    BEFORE.get()?;
    let page = rustix::param::page_size();
    let to_boundary = bytes.as_ptr().align_offset(page).min(bytes.len());
    let pages = (to_boundary..bytes.len()).step_by(page);
    let sum =
        bytes.first().into_iter().chain(pages.map(|at| &bytes[at])).fold(0, |sum: u8, byte| sum ^ *byte);
    std::hint::black_box(sum);
    // The owner of the bytes keeps the map alive.
    let (slot, ..) = find(bytes.as_ptr().addr()).filter(|(slot, ..)| slot.is_damaged())?;
    Some(Damaged { path: slot.name().as_deref().map(Path::to_owned) })
}

/// Whether a write failed because the kernel could not read the data.
pub fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFAULT)
}

/// A slot for one live map.
///
/// The version is odd while the slot is being changed; a read that sees an odd or changed version is
/// void. The handler needs no second read: a thread that has just touched a map borrows it, so its slot
/// cannot change.
#[derive(Debug)]
pub(crate) struct Slot {
    version: AtomicU64,
    /// The start of the map; 0 if the slot is free.
    start: AtomicUsize,
    length: AtomicUsize,
    is_damaged: AtomicBool,
    /// The name of its file. Not read by the handler.
    name: Mutex<Option<Arc<Path>>>,
}

#[derive(Debug)]
struct Free {
    slots: Vec<&'static Slot>,
    /// The number of slabs.
    slabs: usize,
}

impl Slot {
    const fn new() -> Self {
        Slot {
            version: AtomicU64::new(0),
            start: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            is_damaged: AtomicBool::new(false),
            name: Mutex::new(None),
        }
    }

    /// Registers a map. Its bytes must not be read before.
    pub(crate) fn claim(start: usize, length: usize, name: Option<&Arc<Path>>) -> &'static Slot {
        let slot = {
            let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
            if free.slots.is_empty() {
                free.add_slab();
            }
            free.slots.pop().expect("a slab has slots")
        };
        slot.is_damaged.store(false, Ordering::Relaxed);
        *slot.name() = name.cloned();
        slot.set(start, length);
        slot
    }

    fn name(&self) -> MutexGuard<'_, Option<Arc<Path>>> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a map that is still mapped but no longer read. Then the slot can be reused.
    pub(crate) fn forget(&'static self) {
        let name = self.name().take();
        if self.is_damaged() {
            remember(name.as_deref());
        }
        self.set(0, 0);
    }

    /// Returns the slot after the map is gone.
    pub(crate) fn give_back(&'static self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).slots.push(self);
    }

    #[inline]
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Acquire)
    }

    /// Marks the map without changing its content.
    pub(crate) fn mark(&self) {
        if !self.is_damaged.swap(true, Ordering::AcqRel) {
            DAMAGED_MAPS.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn set(&self, start: usize, length: usize) {
        // Only the owner of the slot changes it.
        self.version.fetch_add(1, Ordering::SeqCst);
        self.start.store(start, Ordering::SeqCst);
        self.length.store(length, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The map, if it contains this address.
    fn map_of(&self, address: usize) -> Option<(usize, usize)> {
        let before = self.version.load(Ordering::SeqCst);
        let (start, length) = (self.start.load(Ordering::SeqCst), self.length.load(Ordering::SeqCst));
        let is_one = before.is_multiple_of(2) && self.version.load(Ordering::SeqCst) == before;
        let is_inside = start != 0 && address >= start && address - start < length;
        (is_one && is_inside).then_some((start, length))
    }
}

impl Free {
    fn add_slab(&mut self) {
        let slots = FIRST_SLAB_SLOTS << self.slabs;
        let slab: &'static [Slot] = Vec::leak((0..slots).map(|_| Slot::new()).collect());
        REGISTRY[self.slabs].store(slab.as_ptr().cast_mut(), Ordering::Release);
        self.slabs += 1;
        self.slots.extend(slab);
    }
}

/// Remembers the name of a damaged file.
fn remember(path: Option<&Path>) {
    let mut remembered = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) =
        path.filter(|path| remembered.len() < MAX_REMEMBERED && !remembered.iter().any(|p| p == path))
    {
        remembered.push(path.to_owned());
    }
}

/// The live map that contains an address.
fn find(address: usize) -> Option<(&'static Slot, usize, usize)> {
    slots().find_map(|slot| slot.map_of(address).map(|(start, length)| (slot, start, length)))
}

/// All slots. Also called by the handler.
fn slots() -> impl Iterator<Item = &'static Slot> {
    let slabs = REGISTRY.iter().map(|slab| slab.load(Ordering::Acquire)).take_while(|slab| !slab.is_null());
    slabs.enumerate().flat_map(|(number, slab)| {
        // SAFETY: a slab of this number has this many slots, and is leaked.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(slab.cast_const(), FIRST_SLAB_SLOTS << number)
        }
    })
}

/// Replaces a whole map by zeros in one call: replacing a single page would split the map in three, and most
/// systems limit a process to 65,530 maps; a large truncated file would raise a signal for each of its pages.
#[allow(unsafe_code)]
fn put_zeros(start: usize, length: usize) -> bool {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let length = length.next_multiple_of(rustix::param::page_size());
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the range is that of a live map of ours, and stays a map of the same length with the same
    // protection until its owner unmaps it. A holder of a slice of it sees its bytes change, as after a write
    // to the file: the content of a mapped file is never trusted unchecked, and lengths stay.
    unsafe { mmap_anonymous(start as *mut _, length, ProtFlags::READ, flags) }.is_ok()
}

#[allow(unsafe_code)]
extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`. Codes above 0 are the kernel's own, and then there is an
    // address.
    let (is_fault, address) = unsafe { ((*info).si_code > 0, (*info).si_addr() as usize) };
    let found = if is_fault { find(address) } else { None };
    if let Some((slot, start, length)) = found {
        // Before the zeros: a thread that reads one finds the mark.
        slot.mark();
        if put_zeros(start, length) {
            return;
        }
    }
    // Not one of ours: the previous action runs when the instruction faults again.
    // SAFETY: `BEFORE` was set before this handler was, by sigaction(2) itself. Both calls are allowed in a handler.
    unsafe {
        if let Some(before) = BEFORE.get() {
            libc::sigaction(signal, before, ptr::null_mut());
        }
        if !is_fault {
            // If another process sent the signal, no instruction faults again.
            libc::raise(signal);
        }
    }
}

#[cfg(test)]
mod tests;
