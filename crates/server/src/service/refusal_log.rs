//! Limits how many refusals are logged. A flood is refused thousands of times a second: a line for each would
//! fill the disk and cost more than what was refused.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Most lines within [`SPAN`].
const MAX_LINES: u32 = 20;

const SPAN: Duration = Duration::from_secs(1);

/// Decides which lines are written. The metrics count all refusals.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog(Mutex<LogState>);

#[derive(Debug, Default)]
struct LogState {
    begun: Duration,
    lines: u32,
    left_out: u64,
}

impl RefusalLog {
    /// Whether to write a line now; if so, how many were left out since the last one.
    pub(crate) fn next(&self, now: Duration) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(state.begun) >= SPAN {
            (state.begun, state.lines) = (now, 0);
        }
        if state.lines == MAX_LINES {
            state.left_out += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_in_few_lines_and_the_next_one_says_how_many_were_left_out() {
        let log = RefusalLog::default();
        let told = |at: Duration, count: u32| (0..count).filter_map(|_| log.next(at)).collect::<Vec<_>>();
        assert_eq!(told(Duration::ZERO, 3), [0; 3]);
        assert_eq!(told(SPAN / 2, 1000), [0; MAX_LINES as usize - 3]);
        let mut next = vec![0; MAX_LINES as usize];
        next[0] = 1003 - u64::from(MAX_LINES);
        assert_eq!(told(SPAN, 100), next);
        assert_eq!(told(SPAN * 9, 1), [100 - u64::from(MAX_LINES)]);
    }
}
