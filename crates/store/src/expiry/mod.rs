//! Timestamps as users write them for git: `now`, `never`, `2.weeks.ago`, `2026-01-31`, `1700000000`,
//! `noon yesterday`.

use gix_date::{Time, Zoned};

use self::approximate::approximate;
use self::written::date;

mod approximate;
pub mod written;

/// Expiry time in seconds since 1970: `never` is 0, `now` and `all` are the end of time. `None` for an
/// invalid text.
pub fn expiry(text: &str) -> Option<i64> {
    match text {
        "never" | "false" => Some(0),
        "all" | "now" => Some(i64::MAX),
        // As in git: settings such as `gc.reflogExpire=0` are widely copied.
        "0" => Some(Zoned::now().timestamp().as_second()),
        _ => moment(text, &Zoned::now()),
    }
}

/// As above, for objects: as in git, what a clock that is ahead has stamped stays, also with `now`, and any other text that is
/// no time is the current one.
pub fn expiry_of_objects(text: &str) -> i64 {
    let now = Zoned::now();
    match text {
        "never" => 0,
        _ => moment(text, &now).unwrap_or(now.timestamp().as_second()),
    }
}

/// A moment other than the words above.
fn moment(text: &str, now: &Zoned) -> Option<i64> {
    let whole = || Some(date(text, |clock| local_offset(clock, now))?.0);
    whole().or_else(|| near(text, now))
}

/// The same of a text that is no whole date.
fn near(text: &str, now: &Zoned) -> Option<i64> {
    let clock = approximate(text, now)?;
    Some(clock - local_offset(clock, now)?)
}

/// How many seconds east of UTC the local clock is when it shows these seconds since 1970.
fn local_offset(clock: i64, now: &Zoned) -> Option<i64> {
    let clock = Time::new(clock, 0).to_zoned().ok()?.datetime();
    Some(now.time_zone().to_zoned(clock).ok()?.offset().seconds().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts, and what git takes them for on a Wednesday, 19:20.
    const MOMENTS: [(&str, &str); 48] = [
        ("0", "2009-08-19 19:20"),
        ("1", "2009-08-01 19:20"),
        (" 31 ", "2009-08-31 19:20"),
        ("+5", "2009-08-05 19:20"),
        ("@1", "2009-08-01 19:20"),
        ("1.d", "2009-08-01 19:20"),
        ("1st", "2009-08-01 19:20"),
        ("32", "2032-08-19 19:20"),
        ("38", "2009-08-19 19:20"),
        ("99", "1999-08-19 19:20"),
        ("010", "2009-08-19 19:20"),
        ("2005", "2005-08-19 19:20"),
        ("2100", "2009-08-19 19:20"),
        ("20050407", "2009-08-19 19:20"),
        ("2005-04", "2005-08-04 19:20"),
        ("2100-01-01", "2009-01-01 19:20"),
        ("1/2", "2009-01-02 19:20"),
        ("2/13", "2009-02-13 19:20"),
        ("1.2", "2009-02-01 19:20"),
        ("9/7", "2009-07-09 19:20"),
        ("8/29", "2009-08-29 19:20"),
        ("8/30", "2030-08-08 19:20"),
        ("5 6 7", "2007-06-05 19:20"),
        ("19 12", "2008-12-19 19:20"),
        ("12 19", "2019-08-12 19:20"),
        ("3am", "2009-08-19 03:00"),
        ("30am", "2009-08-19 06:00"),
        ("3:15pm", "2009-08-19 15:15"),
        ("am", "2009-08-19 07:20"),
        ("3am yesterday", "2009-08-18 03:00"),
        ("noon 1 day ago", "2009-08-18 12:00"),
        ("1 week ago 23:00", "2009-08-12 23:00"),
        ("friday 3am", "2009-08-19 03:00"),
        ("foo 10:00", "2009-08-19 10:00"),
        ("last", "2009-08-01 19:20"),
        ("last month", "2009-07-19 19:20"),
        ("last 2 days", "2009-07-30 19:20"),
        ("2 fridays ago", "2009-08-07 19:20"),
        ("3 tues", "2009-08-04 19:20"),
        ("1.day.2.hours.ago", "2009-08-18 17:20"),
        ("1 year 2 months", "2008-06-19 19:20"),
        ("31 march 1 month ago", "2009-03-03 19:20"),
        ("six months ago", "2009-02-19 19:20"),
        ("1 day ago 5", "2009-08-18 19:20"),
        ("5 1 day ago", "2009-08-04 19:20"),
        ("29 february", "2009-03-01 19:20"),
        ("april 7 2005 3pm", "2005-04-07 15:00"),
        ("december", "2008-12-19 19:20"),
    ];

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
        check("2026-01-31 00:00:00 +0000", Some(1_769_817_600));
        check("foo", None);
        for text in ["01/31/2026", "1-31-2026", "31-01-2026", "31.01.2026", "2026/01/31", "2026.1.31"] {
            assert_eq!(expiry(&format!("{text} 10:00")), expiry("2026-01-31 10:00"), "{text}");
        }
        for text in ["07.04.2005.15:15:00.-0700", "2005-04-07.15:15:00.-0700", "04/07/2005 15:15:00 -0700"] {
            check(text, Some(1_112_912_100));
        }
        check("", None);
    }

    #[test]
    fn moments_near_now() {
        // A Wednesday, 19:20, and the morning before.
        let [evening, morning] =
            [1_250_709_600, 1_250_673_600].map(|at| Time::new(at, 0).to_zoned().unwrap());
        let at = |text: &str, now: &Zoned| {
            let time = Time::new(near(text, now)?, 0).to_zoned().unwrap();
            Some(time.strftime("%F %H:%M").to_string())
        };
        let check = |text, expect| assert_eq!(at(text, &evening).as_deref(), expect, "{text}");
        check("noon", Some("2009-08-19 12:00"));
        check("Noon yesterday", Some("2009-08-18 12:00"));
        check("yesterday.midnight", Some("2009-08-18 00:00"));
        check("23:00 yesterday", Some("2009-08-18 23:00"));
        check("yesterday", Some("2009-08-18 19:20"));
        check("23:00", Some("2009-08-19 23:00"));
        check("today", Some("2009-08-19 00:00"));
        check("last friday", Some("2009-08-14 19:20"));
        check("last wed at noon", Some("2009-08-12 12:00"));
        check("Apr 7 2005", Some("2005-04-07 19:20"));
        check("07.04.2005.noon", Some("2005-04-07 12:00"));
        check("Sep 7", Some("2008-09-07 19:20"));
        check("April", Some("2009-04-19 19:20"));
        check("10:00 7 Apr +0200", Some("2009-04-07 10:00"));
        for (text, expect) in MOMENTS {
            check(text, Some(expect));
        }
        for text in ["", "friday", "EST", "foo", "days", "noonday", "ago", "zero days", "las mon"] {
            check(text, None);
        }
        assert_eq!(at("tea", &morning).as_deref(), Some("2009-08-18 17:00"));
        assert_eq!(at("tea today", &morning).as_deref(), Some("2009-08-19 17:00"));
        assert_eq!(at("noon yesterday", &morning).as_deref(), Some("2009-08-18 12:00"));
        assert_eq!(at("3pm", &morning).as_deref(), Some("2009-08-19 15:00"));
        assert_eq!(at("pm", &morning).as_deref(), Some("2009-08-19 21:20"));
        assert_eq!(at("tea 19 Aug", &morning).as_deref(), Some("2009-08-19 17:00"));
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
        for text in ["now", "all", "false", "0", "", "foo"] {
            assert!((now() - 5..=now()).contains(&expiry_of_objects(text)), "{text}");
        }
        assert_eq!(expiry_of_objects("never"), 0);
    }
}
