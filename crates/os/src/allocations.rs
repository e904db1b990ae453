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
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, every allocation and reallocation counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

// SAFETY: every call is handed to the system's allocator as it came.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

/// Runs `work` and tells how often the process allocated meanwhile, on any thread; 0 where [`Counting`] is not the
/// global allocator.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = ALLOCATIONS.load(Relaxed);
    let result = work();
    (result, ALLOCATIONS.load(Relaxed) - before)
}
