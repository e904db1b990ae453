//! Timestamps as users write them for git: `now`, `never`, `2.weeks.ago`, `2026-01-31`, `1700000000`.

/// Expiry time in seconds since 1970: `never` is 0, `now` and `all` are the end of time. `None` for an
/// invalid text.
pub fn expiry(text: &str) -> Option<i64> {
    match text {
        "never" | "false" => Some(0),
        "all" | "now" => Some(i64::MAX),
        // As in git: settings such as `gc.reflogExpire=0` are widely copied.
        "0" => Some(gix_date::Zoned::now().timestamp().as_second()),
        _ => {
            let seconds = |text: &str| gix_date::parse(text, Some(gix_date::Zoned::now())).ok();
            let time = seconds(text).or_else(|| seconds(&in_iso_order(text)?))?;
            Some(time.seconds)
        }
    }
}

/// As above, for options of commands that make packs. As in git, `now` and `all` are the current time there: what a clock that
/// is ahead has stamped stays.
pub fn expiry_of_objects(text: &str) -> Option<i64> {
    expiry(if matches!(text, "now" | "all") { "0" } else { text })
}

/// A date whose year is written with four digits, first or last: the month comes first in `01/31/2026` and
/// `01-31-2026`, the day in `31.01.2026`. As in git, they change places if there is no such month. A time and a zone may follow,
/// with dots for spaces.
fn in_iso_order(text: &str) -> Option<String> {
    let separator = text.chars().find(|letter| matches!(letter, '/' | '-' | '.'))?;
    let mut numbers = text.splitn(3, separator);
    let [one, two, last] = [numbers.next()?, numbers.next()?, numbers.next()?];
    let (three, time) =
        last.split_at(last.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(last.len()));
    let (year, first, second) = if one.len() == 4 { (one, two, three) } else { (three, one, two) };
    let [first, second]: [u32; 2] = [first.parse().ok()?, second.parse().ok()?];
    let is_day_first = first > 12 || (separator == '.' && one.len() < 4 && second <= 12);
    let (month, day) = if is_day_first { (second, first) } else { (first, second) };
    let is_date = year.len() == 4 && (time.is_empty() || time.starts_with(['.', ' ']));
    let time = time.replace('.', " ");
    is_date.then(|| format!("{year}-{month:02}-{day:02}{}", time.trim_end()))
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
        check("01-32-2026", None);
        check("1-2-3-2026", None);
        for text in ["01/31/2026", "1-31-2026", "31-01-2026", "31.01.2026", "2026/01/31", "2026.1.31"] {
            check(text, expiry("2026-01-31"));
        }
        check("02/01/2026", expiry("2026-02-01"));
        for text in ["07.04.2005.15:15:00.-0700", "2005-04-07.15:15:00.-0700", "04/07/2005 15:15:00 -0700"] {
            check(text, Some(1_112_912_100));
        }
        check("07.04.2005.noon", None);
        check("07.04.2005é", None);
        check("01.02.2026", expiry("2026-02-01"));
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
        check("0", 0);
        assert!((now() - 5..=now()).contains(&expiry_of_objects("now").unwrap()));
    }
}
