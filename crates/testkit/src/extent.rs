//! Matrices that are too large for every test run: a sample always runs, the whole only on request.

/// How much of a matrix a test covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A fixed, evenly chosen part.
    Sample,
    /// All of it.
    Whole,
}

impl Extent {
    /// Picks one of two amounts.
    pub fn pick<T>(self, sample: T, whole: T) -> T {
        match self {
            Extent::Sample => sample,
            Extent::Whole => whole,
        }
    }

    /// Every how many-th of `count` cases to take so that a sample has at most `most`. Cases often come in
    /// twos, threes or fours, which a sample must all cover: so the step is no multiple of two or three.
    pub fn step(self, count: usize, most: usize) -> usize {
        let least = count.div_ceil(most).max(1);
        let sample = (least..).find(|step| step % 2 != 0 && step % 3 != 0).expect("there is always one");
        self.pick(sample, 1)
    }
}

/// Tests of matrices. Each becomes two: `name::sample` runs with all tests; `name::whole` is ignored because
/// it is slow, and runs with `--ignored`.
///
/// ```text
/// sampled! {
///     fn every_state(extent) { check_states(extent); }
/// }
/// ```
#[macro_export]
macro_rules! sampled {
    ($($(#[$attribute:meta])* fn $name:ident($extent:ident) $body:block)*) => {$(
        $(#[$attribute])*
        mod $name {
            #[allow(unused_imports, reason = "a body may need nothing from around")]
            use super::*;

            fn go_through($extent: $crate::Extent) $body

            #[test]
            fn sample() {
                go_through($crate::Extent::Sample);
            }

            #[test]
            #[ignore = "slow: the whole matrix"]
            fn whole() {
                go_through($crate::Extent::Whole);
            }
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_over_everything() {
        for count in [0, 1, 7, 100] {
            assert_eq!((0..count).step_by(Extent::Whole.step(count, 3)).count(), count);
            let taken = (0..count).step_by(Extent::Sample.step(count, 3)).count();
            assert!(taken <= 3 && (taken > 0 || count == 0), "{taken} of {count}");
        }
        assert_eq!([1, 2, 6, 24, 26].map(|count| Extent::Sample.step(count, 1)), [1, 5, 7, 25, 29]);
        assert_eq!([Extent::Sample, Extent::Whole].map(|extent| extent.pick(1, 2)), [1, 2]);
    }
}
