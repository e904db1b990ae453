use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use packrace_store::PackIx;

use crate::error::Error;
use crate::request_objects::{ObjectNo, RequestObjects};

/// A set of objects that several threads add to: a bit per packed object, and a short list for the rest.
#[derive(Debug)]
pub(crate) struct Marks {
    packed: Vec<AtomicU64>,
    packed_end: u32,
    /// Members outside the packs: `extra[i]` says whether `packed_end + i` is a member.
    extra: Mutex<Vec<bool>>,
}

impl Marks {
    pub(crate) fn new(packed_end: u32) -> Self {
        let words = (packed_end as usize).div_ceil(64);
        Marks {
            packed: std::iter::repeat_with(|| AtomicU64::new(0)).take(words).collect(),
            packed_end,
            extra: Mutex::default(),
        }
    }

    /// All objects in these packs.
    pub(crate) fn of_packs(request_objects: &RequestObjects, packs: &[PackIx]) -> Result<Marks, Error> {
        let marks = Marks::new(request_objects.packed_end());
        for pack in packs {
            let index = request_objects.snapshot().packs()[pack.0 as usize].index();
            for position in 0..index.len() {
                marks.insert(request_objects.require(index.id_at(position))?);
            }
        }
        Ok(marks)
    }

    /// Adds `ix`. If several threads add it, exactly one of them gets true.
    #[inline]
    pub(crate) fn insert(&self, ix: ObjectNo) -> bool {
        if ix.0 < self.packed_end {
            let word = &self.packed[ix.0 as usize / 64];
            let bit = 1u64 << (ix.0 % 64);
            // The plain load avoids the locked instruction for existing members, which most are.
            return word.load(Relaxed) & bit == 0 && word.fetch_or(bit, Relaxed) & bit == 0;
        }
        let at = (ix.0 - self.packed_end) as usize;
        let mut extra = self.extra.lock().expect("no panic while held");
        if extra.len() <= at {
            extra.resize(at + 1, false);
        }
        !std::mem::replace(&mut extra[at], true)
    }

    /// Removes `ix`.
    pub(crate) fn remove(&self, ix: ObjectNo) {
        if ix.0 < self.packed_end {
            self.packed[ix.0 as usize / 64].fetch_and(!(1u64 << (ix.0 % 64)), Relaxed);
            return;
        }
        let mut extra = self.extra.lock().expect("no panic while held");
        if let Some(is_in) = extra.get_mut((ix.0 - self.packed_end) as usize) {
            *is_in = false;
        }
    }

    #[inline]
    pub(crate) fn contains(&self, ix: ObjectNo) -> bool {
        if ix.0 < self.packed_end {
            return self.packed[ix.0 as usize / 64].load(Relaxed) & 1u64 << (ix.0 % 64) != 0;
        }
        let extra = self.extra.lock().expect("no panic while held");
        extra.get((ix.0 - self.packed_end) as usize).copied().unwrap_or(false)
    }

    /// A copy of the current members.
    pub(crate) fn snapshot(&self) -> Marks {
        Marks {
            packed: self.packed.iter().map(|word| AtomicU64::new(word.load(Relaxed))).collect(),
            packed_end: self.packed_end,
            extra: Mutex::new(self.extra.lock().expect("no panic while held").clone()),
        }
    }

    /// All packed objects that are not members.
    pub(crate) fn complement(&self) -> Marks {
        let others = Marks::new(self.packed_end);
        for (mine, theirs) in self.packed.iter().zip(&others.packed) {
            theirs.store(!mine.load(Relaxed), Relaxed);
        }
        if let Some(last) = others.packed.last() {
            let beyond = others.packed.len() * 64 - self.packed_end as usize;
            last.fetch_and(u64::MAX >> beyond, Relaxed);
        }
        others
    }

    /// Adds every member of `other`.
    pub(crate) fn unite(&self, other: &Marks) {
        for ix in other.members() {
            self.insert(ix);
        }
    }

    /// Removes every member of `other`.
    pub(crate) fn subtract(&self, other: &Marks) {
        for (mine, theirs) in self.packed.iter().zip(&other.packed) {
            mine.fetch_and(!theirs.load(Relaxed), Relaxed);
        }
        let theirs = other.extra.lock().expect("no panic while held");
        let mut mine = self.extra.lock().expect("no panic while held");
        for (mine, theirs) in mine.iter_mut().zip(theirs.iter()) {
            *mine &= !theirs;
        }
    }

    /// Any object that is in both sets.
    pub(crate) fn common(&self, other: &Marks) -> Option<ObjectNo> {
        let words = self.packed.iter().zip(&other.packed).enumerate();
        let mut both = words.map(|(at, (mine, theirs))| (at, mine.load(Relaxed) & theirs.load(Relaxed)));
        if let Some((at, word)) = both.find(|(_, word)| *word != 0) {
            return Some(ObjectNo(at as u32 * 64 + word.trailing_zeros()));
        }
        self.extra().into_iter().find(|ix| other.contains(*ix))
    }

    /// The number of packed members in `range`.
    pub(crate) fn count_packed(&self, range: std::ops::Range<u32>) -> u64 {
        let words = range.start / 64..range.end.div_ceil(64);
        words.map(|at| u64::from(self.word_in(at, &range).count_ones())).sum()
    }

    /// All members: packed ones, then the others.
    pub(crate) fn members(&self) -> impl Iterator<Item = ObjectNo> + '_ {
        self.packed().chain(self.extra())
    }

    /// The packed members, ascending.
    pub(crate) fn packed(&self) -> impl Iterator<Item = ObjectNo> + '_ {
        self.packed_in(0..self.packed_end)
    }

    /// The packed members in `range`.
    pub(crate) fn packed_in(&self, range: std::ops::Range<u32>) -> impl Iterator<Item = ObjectNo> + '_ {
        (range.start / 64..range.end.div_ceil(64)).flat_map(move |at| {
            let mut word = self.word_in(at, &range);
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(ObjectNo(at * 64 + bit))
            })
        })
    }

    /// The word at `at`, without the bits outside `range`.
    fn word_in(&self, at: u32, range: &std::ops::Range<u32>) -> u64 {
        let mut word = self.packed[at as usize].load(Relaxed);
        if at * 64 < range.start {
            word &= u64::MAX << (range.start - at * 64);
        }
        if u64::from(at) * 64 + 64 > u64::from(range.end) {
            word &= u64::MAX >> (64 - range.end % 64);
        }
        word
    }

    /// The members outside the packs, ascending.
    pub(crate) fn extra(&self) -> Vec<ObjectNo> {
        let extra = self.extra.lock().expect("no panic while held");
        let members = extra.iter().enumerate().filter(|(_, is_in)| **is_in);
        members.map(|(at, _)| ObjectNo(self.packed_end + at as u32)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_and_extra_members() {
        let marks = Marks::new(130);
        let members = [0, 63, 64, 129, 130, 135];
        for ix in members {
            assert!(marks.insert(ObjectNo(ix)), "{ix}");
            assert!(!marks.insert(ObjectNo(ix)), "{ix} again");
        }
        for ix in 0..140 {
            assert_eq!(marks.contains(ObjectNo(ix)), members.contains(&ix), "{ix}");
        }
        assert_eq!(marks.packed().map(|ix| ix.0).collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert_eq!(marks.extra(), [ObjectNo(130), ObjectNo(135)]);
        for (range, expect) in
            [(0..130, 4), (1..64, 1), (63..65, 2), (64..64, 0), (65..129, 0), (129..130, 1)]
        {
            assert_eq!(marks.count_packed(range.clone()), expect, "{range:?}");
        }
        for ix in [63, 65, 135, 200] {
            marks.remove(ObjectNo(ix));
            assert!(!marks.contains(ObjectNo(ix)), "{ix}");
        }
        assert_eq!((marks.packed().count(), marks.extra()), (3, vec![ObjectNo(130)]));
        let others = marks.complement();
        assert_eq!((others.packed().count(), others.extra()), (127, Vec::new()));
        assert!(
            (0..130).all(|ix| marks.contains(ObjectNo(ix)) != others.contains(ObjectNo(ix)))
                && !others.contains(ObjectNo(131))
        );
        marks.insert(ObjectNo(63));
        marks.insert(ObjectNo(135));
        let other = Marks::new(130);
        assert_eq!(marks.common(&other), None);
        other.insert(ObjectNo(130));
        assert_eq!(marks.common(&other), Some(ObjectNo(130)));
        other.insert(ObjectNo(64));
        assert_eq!(marks.common(&other), Some(ObjectNo(64)));
        let copy = marks.snapshot();
        copy.subtract(&other);
        assert!(
            !copy.contains(ObjectNo(64))
                && !copy.contains(ObjectNo(130))
                && copy.contains(ObjectNo(135))
                && marks.contains(ObjectNo(64))
        );
    }
}
