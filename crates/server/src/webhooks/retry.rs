//! When a failed delivery is retried, and when it is given up. Time and randomness are arguments.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// Longest back-off, unless the receiver requests more.
const MAX_DELAY: Duration = Duration::from_secs(300);

/// Longest delay that a receiver may request.
pub(super) const MAX_ASKED_DELAY: Duration = Duration::from_secs(900);

/// The attempts at one event.
#[derive(Debug)]
pub(super) struct Attempts {
    first_delay: Duration,
    max_time: Duration,
    began: Duration,
    failures: u32,
}

impl Attempts {
    /// The first attempt is made now; the last is the first that fails once `max_time` has passed.
    pub(super) fn new(first_delay: Duration, max_time: Duration, now: Duration) -> Self {
        Attempts { first_delay, max_time, began: now, failures: 0 }
    }

    /// The delay before the next attempt: the back-off doubles each time and is shortened by up to half at
    /// random, so that hooks do not retry together. It is not shorter than the receiver requests, within
    /// bounds. `None` after the last attempt.
    pub(super) fn failed(&mut self, now: Duration, asked: Option<Duration>, random: u32) -> Option<Duration> {
        if now.saturating_sub(self.began) >= self.max_time {
            return None;
        }
        let whole = self.first_delay.saturating_mul(1 << self.failures.min(20)).min(MAX_DELAY);
        self.failures += 1;
        let less = (whole / 2).mul_f64(f64::from(random) / f64::from(u32::MAX));
        Some((whole - less).max(asked.unwrap_or_default().min(MAX_ASKED_DELAY)))
    }
}

/// The delay that `Retry-After` requests (RFC 9110, section 10.2.3): seconds, or a date.
pub(super) fn asked_delay(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTimeParser::new().parse_timestamp(text).ok()?;
    let now = Timestamp::try_from(now).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_a_bound() {
        let mut attempts = Attempts::new(SECOND, Duration::MAX, SECOND);
        let delays: Vec<u64> = (0..40).map(|_| attempts.failed(SECOND, None, 0).unwrap().as_secs()).collect();
        assert_eq!(delays[..10], [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert!(delays[10..].iter().all(|delay| *delay == 300));
        let mut attempts = Attempts::new(4 * SECOND, Duration::MAX, SECOND);
        assert_eq!(attempts.failed(SECOND, None, u32::MAX), Some(2 * SECOND));
        let middle = attempts.failed(SECOND, None, u32::MAX / 2).unwrap();
        assert!(middle > 5 * SECOND && middle < 7 * SECOND, "{middle:?}");
    }

    #[test]
    fn it_ends_when_its_time_has_passed() {
        let mut attempts = Attempts::new(SECOND, 60 * SECOND, 100 * SECOND);
        assert!(attempts.failed(159 * SECOND, None, 0).is_some());
        assert_eq!(attempts.failed(160 * SECOND, None, 0), None);
        // Once, and no more.
        assert_eq!(Attempts::new(SECOND, Duration::ZERO, SECOND).failed(SECOND, None, 0), None);
    }

    #[test]
    fn receivers_may_ask_for_more_time_but_not_for_ever() {
        let failed = |asked| Attempts::new(2 * SECOND, Duration::MAX, SECOND).failed(SECOND, Some(asked), 0);
        assert_eq!(failed(SECOND), Some(2 * SECOND));
        assert_eq!(failed(30 * SECOND), Some(30 * SECOND));
        assert_eq!(failed(Duration::MAX), Some(MAX_ASKED_DELAY));
    }

    #[test]
    fn retry_after() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_420);
        let check = |text: &str, expect: Option<u64>| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            assert_eq!(asked_delay(&headers, now), expect.map(Duration::from_secs), "{text}");
        };
        check("120", Some(120));
        check(" 0 ", Some(0));
        check("Wed, 21 Oct 2015 07:28:00 GMT", Some(60));
        check("Wed, 21 Oct 2015 07:00:00 GMT", Some(0));
        for bad in ["", "-1", "1.5", "soon", "99999999999999999999999"] {
            check(bad, None);
        }
        assert_eq!(asked_delay(&HeaderMap::new(), now), None);
    }
}
