//! Which files of a chain are merged into a new one (git-commit-graph, "--split").

use super::GraphWriteError;

/// When a file on top of a chain absorbs the file below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Merging {
    /// If the lower file has at most this many times the commits of the upper file.
    pub size_multiple: u64,
    /// If the upper file has more commits than this; 0 means no limit.
    pub max_commits: u32,
}

impl Default for Merging {
    fn default() -> Self {
        Merging { size_multiple: 2, max_commits: 0 }
    }
}

/// How many files of a chain stay below a new one with `new` commits; the others are merged into it. `layers`
/// are the numbers of commits in the files, base first. The first `fixed` files belong to another object
/// directory and always stay. A multiple that is out of range is an error.
pub fn layers_to_keep(
    layers: &[u32],
    fixed: usize,
    new: u32,
    merging: Merging,
) -> Result<usize, GraphWriteError> {
    let mut kept = layers.len();
    let mut top = u64::from(new);
    while kept > fixed {
        let below = u64::from(layers[kept - 1]);
        let is_too_large = merging.max_commits > 0 && top > u64::from(merging.max_commits);
        let most = merging.size_multiple.checked_mul(top);
        let most = most.ok_or(GraphWriteError::SizeOverflow(merging.size_multiple, top))?;
        if below > most && !is_too_large {
            break;
        }
        top += below;
        kept -= 1;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_double_down_the_chain() {
        let check = |layers: &[u32], fixed, new, size_multiple, max_commits, expect| {
            let merging = Merging { size_multiple, max_commits };
            assert_eq!(layers_to_keep(layers, fixed, new, merging), Ok(expect), "{layers:?} + {new}");
        };
        check(&[], 0, 5, 2, 0, 0);
        check(&[11], 0, 5, 2, 0, 1);
        check(&[10], 0, 5, 2, 0, 0);
        check(&[100, 20, 10], 0, 5, 2, 0, 1);
        check(&[71, 20, 10], 0, 5, 2, 0, 1);
        check(&[70, 20, 10], 0, 5, 2, 0, 0);
        check(&[70, 20, 10], 1, 5, 2, 0, 1);
        check(&[100], 0, 5, 2, 4, 0);
        check(&[100], 0, 5, 2, 5, 1);
        check(&[100], 0, 5, 20, 0, 0);
        // The largest multiple that can be asked for.
        check(&[u32::MAX, u32::MAX], 0, u32::MAX, (1 << 31) - 1, 0, 0);
        check(&[], 0, 5, u64::MAX, 0, 0);
        check(&[100], 0, 1, u64::MAX, 0, 0);
        let merging = Merging { size_multiple: u64::MAX, max_commits: 1 };
        assert_eq!(
            layers_to_keep(&[1], 0, 2, merging),
            Err(GraphWriteError::SizeOverflow(u64::MAX, 2)),
            "before the number of commits counts"
        );
    }
}
