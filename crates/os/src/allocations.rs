//! Counts allocations, for budgets: a test or a bench makes [`Counting`] its global allocator.
//!
//! ```
//! use packrace_os::allocations::{Counting, counted};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! let (bytes, allocations) = counted(|| Vec::<u8>::with_capacity(100));
//! assert!(bytes.capacity() >= 100 && allocations >= 1);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static HELD_BYTES: AtomicI64 = AtomicI64::new(0);
static MOST_HELD_BYTES: AtomicI64 = AtomicI64::new(0);

fn count(more_bytes: i64) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    let held = HELD_BYTES.fetch_add(more_bytes, Relaxed) + more_bytes;
    MOST_HELD_BYTES.fetch_max(held, Relaxed);
}

/// The system's allocator, with every allocation and reallocation counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise is the required one.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: the caller's promise is the required one.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise is the required one.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes as i64 - layout.size() as i64);
        // SAFETY: the caller's promise is the required one.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

/// Runs `work` and returns how often the process allocated meanwhile, on any thread; 0 if [`Counting`] is not the
/// global allocator.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = ALLOCATIONS.load(Relaxed);
    let result = work();
    (result, ALLOCATIONS.load(Relaxed) - before)
}

/// Runs `work` and returns the peak of bytes allocated by the process above the level before it, on any thread; 0
/// if [`Counting`] is not the global allocator. One measurement at a time.
pub fn most_held<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD_BYTES.load(Relaxed);
    MOST_HELD_BYTES.store(before, Relaxed);
    let result = work();
    (result, u64::try_from(MOST_HELD_BYTES.load(Relaxed) - before).unwrap_or(0))
}
