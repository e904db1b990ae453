//! Timestamps as users write them for git: `now`, `never`, `2.weeks.ago`, `2026-01-31`, `1700000000`.

/// Expiry time in seconds since 1970: `never` is 0, `now` and `all` are the end of time. `None` for an
/// invalid text.
pub fn expiry(text: &str) -> Option<i64> {
    match text {
        "never" | "false" => Some(0),
        "all" | "now" => Some(i64::MAX),
        _ => gix_date::parse(text, Some(gix_date::Zoned::now())).ok().map(|time| time.seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> i64 {
        expiry("0.seconds.ago").unwrap()
    }

    #[test]
    fn moments() {
        let check = |text, expect| assert_eq!(expiry(text), expect, "{text}");
        check("never", Some(0));
        check("now", Some(i64::MAX));
        check("all", Some(i64::MAX));
        check("1700000000", Some(1_700_000_000));
        check("@7", Some(7));
        check("2026-01-31 00:00:00 +0000", Some(1_769_817_600));
        check("foo", None);
        check("", None);
    }

    #[test]
    fn moments_before_now() {
        let check = |text, seconds: i64| {
            let off = now() - seconds - expiry(text).unwrap();
            assert!((-5..=5).contains(&off), "{text}: {off}");
        };
        check("2.weeks.ago", 14 * 86_400);
        check("2 weeks ago", 14 * 86_400);
        check("1.hour.ago", 3600);
        check("yesterday", 86_400);
    }
}
