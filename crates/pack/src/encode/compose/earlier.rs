//! What a pass of the delta search knows of the one before it.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// The deltas of the first pass. Each goes from a candidate to an earlier one, also in the order of the second pass:
/// objects of the same path keep their order. So there are no loops.
pub(super) struct EarlierDeltas {
    /// The base, by candidate.
    bases: Vec<Option<u32>>,
    /// Chains below each candidate, as the second pass changes them.
    depths: Vec<AtomicU16>,
    /// The longest chain on each candidate.
    heights: Vec<u16>,
}

impl EarlierDeltas {
    /// `heights` are those of stored deltas, `bases` those that the first pass found.
    pub(super) fn new(mut heights: Vec<u16>, bases: Vec<Option<u32>>) -> Self {
        for (at, base) in bases.iter().enumerate().rev() {
            if let Some(base) = base {
                heights[*base as usize] = heights[*base as usize].max(heights[at].saturating_add(1));
            }
        }
        let depths = std::iter::repeat_with(AtomicU16::default).take(bases.len()).collect();
        let earlier = EarlierDeltas { bases, depths, heights };
        (0..earlier.bases.len() as u32).for_each(|at| _ = earlier.depth_of(at));
        earlier
    }

    /// Whether a delta was found for a candidate.
    pub(super) fn has_delta(&self, at: u32) -> bool {
        self.bases[at as usize].is_some()
    }

    /// The length of the chain below a candidate, unless this pass makes it a delta.
    pub(super) fn depth_of(&self, at: u32) -> u16 {
        let base = self.bases[at as usize].map(|base| self.depths[base as usize].load(Relaxed));
        let depth = base.map_or(0, |depth| depth.saturating_add(1));
        self.set_depth(at, depth);
        depth
    }

    pub(super) fn set_depth(&self, at: u32, depth: u16) {
        self.depths[at as usize].store(depth, Relaxed);
    }

    pub(super) fn height_of(&self, at: u32) -> u16 {
        self.heights[at as usize]
    }
}
