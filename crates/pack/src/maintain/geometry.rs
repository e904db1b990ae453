//! Which packs to roll up into one, so that each pack has at least `factor` times the objects of the next
//! smaller one (git-repack, "--geometric").

/// How many packs to roll up, smallest first, so that every pack then has at least `factor` times the objects
/// of the one before it. `objects` are their numbers of objects, ascending.
pub fn packs_to_roll_up(objects: &[u32], factor: u32) -> usize {
    let factor = u64::from(factor);
    let grows = |small: u64, large: u32| u64::from(large) >= small.saturating_mul(factor);
    // Keep the largest packs as long as they are in progression.
    let mut first_kept = objects.len();
    while first_kept > 0
        && (first_kept == objects.len() || grows(objects[first_kept - 1].into(), objects[first_kept]))
    {
        first_kept -= 1;
    }
    if first_kept == 0 {
        return 0;
    }
    // The rolled-up pack may now be too large for the next one.
    let mut rolled_up: u64 = objects[..first_kept].iter().map(|count| u64::from(*count)).sum();
    while first_kept < objects.len() && !grows(rolled_up, objects[first_kept]) {
        rolled_up += u64::from(objects[first_kept]);
        first_kept += 1;
    }
    first_kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(objects: &[u32], factor: u32, expect: usize) {
        assert_eq!(packs_to_roll_up(objects, factor), expect, "{objects:?} by {factor}");
    }

    #[test]
    fn progressions() {
        check(&[], 2, 0);
        check(&[5], 2, 0);
        check(&[5, 10], 2, 0);
        check(&[5, 9], 2, 2);
        check(&[1, 2, 4, 8], 2, 0);
        check(&[1, 1, 4, 8], 2, 2);
        check(&[1, 1, 3, 8], 2, 4);
        check(&[1, 1, 3, 9], 2, 4);
        check(&[1, 1, 3, 10], 2, 3);
        check(&[1, 1, 1, 100], 2, 3);
        check(&[1, 1, 1, 100, 150], 2, 5);
        check(&[5, 5], 1, 0);
        check(&[0, 0, 0], 2, 0);
        check(&[u32::MAX, u32::MAX, u32::MAX], u32::MAX, 3);
    }

    /// After rolling up, the packs are in progression.
    #[test]
    fn the_result_is_a_progression() {
        let mut random = packrace_testkit::Random::new(11);
        for _ in 0..2000 {
            let count = random.next_u64() % 9;
            let mut objects: Vec<u32> =
                (0..count).map(|_| (random.next_u64() % (1 << (random.next_u64() % 16))) as u32).collect();
            objects.sort_unstable();
            let factor = 1 + (random.next_u64() % 4) as u32;
            let rolled_up = packs_to_roll_up(&objects, factor);
            assert_ne!(rolled_up, 1, "{objects:?}");
            let mut after = objects[rolled_up..].to_vec();
            if rolled_up > 0 {
                after.insert(0, objects[..rolled_up].iter().sum());
            }
            assert!(after.windows(2).all(|pair| pair[1] >= pair[0] * factor), "{objects:?} by {factor}");
            assert_eq!(packs_to_roll_up(&after, factor), 0);
        }
    }
}
