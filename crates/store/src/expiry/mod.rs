//! Timestamps as users write them for git: `now`, `never`, `2.weeks.ago`, `2026-01-31`, `1700000000`,
//! `noon yesterday`.

use gix_date::{Time, Zoned};

use self::written::{DAY, DateFields, WEEKDAYS, date, days};

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

/// As above, for options of commands that make packs. As in git, `now` and `all` are the current time there: what a clock that
/// is ahead has stamped stays.
pub fn expiry_of_objects(text: &str) -> Option<i64> {
    expiry(if matches!(text, "now" | "all") { "0" } else { text })
}

/// A moment other than the words above.
fn moment(text: &str, now: &Zoned) -> Option<i64> {
    let whole = || Some(date(text, |clock| local_offset(clock, now))?.0);
    let counted = || Some(gix_date::parse(text, Some(now.clone())).ok()?.seconds);
    whole().or_else(|| near(text, now)).or_else(counted)
}

/// A day, a time or both: what is missing is as now. As in git, zones do not count here. The day is a date,
/// `yesterday` or `last friday`; the time may also be `noon`, `midnight` or `tea`, which is that of yesterday if
/// there was none today.
fn near(text: &str, now: &Zoned) -> Option<i64> {
    let mut rest = text.to_ascii_lowercase();
    let clock = now.timestamp().as_second() + i64::from(now.offset().seconds());
    let (today, since_midnight) = (clock.div_euclid(DAY), clock.rem_euclid(DAY));
    let word =
        [("noon", 12), ("midnight", 0), ("tea", 17)].into_iter().find(|(word, _)| take(&mut rest, word));
    let is_today = take(&mut rest, "today");
    let days_ago = if take(&mut rest, "yesterday") {
        Some(1)
    } else if take(&mut rest, "last") {
        let wanted = WEEKDAYS.iter().position(|name| take(&mut rest, name) || take(&mut rest, &name[..3]))?;
        // Day 0 is a Thursday, which is 3 days after a Monday.
        Some((today + 3 - i64::try_from(wanted).ok()? - 1).rem_euclid(7) + 1)
    } else {
        None
    };
    let fields = DateFields::of(&rest);
    let time = fields.clock.or(word.map(|(_, hour)| hour * 3600)).or(is_today.then_some(0));
    let is_nothing = fields.month.is_none() && days_ago.is_none() && time.is_none();
    if fields.has_more || is_nothing {
        return None;
    }
    let day = match (fields.month, days_ago) {
        (Some(month), None) => {
            let this_month = i64::from(now.month());
            let last = i64::from(now.year()) - i64::from(month > this_month);
            days(fields.year.unwrap_or(last), month, fields.day.unwrap_or(now.day().into()))
        }
        // A number that is no part of a date.
        _ if fields.day.is_some() || fields.year.is_some() => return None,
        (Some(_), Some(_)) => return None,
        (None, Some(days_ago)) => today - days_ago,
        (None, None) if is_today || fields.clock.is_some() => today,
        (None, None) => today - i64::from(time.is_some_and(|time| time / 3600 > since_midnight / 3600)),
    };
    let clock = day * DAY + time.unwrap_or(since_midnight);
    Some(clock - local_offset(clock, now)?)
}

/// Removes a word, if it is there.
fn take(text: &mut String, word: &str) -> bool {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let is_whole = |at: &usize| {
        let (before, after) = (&text[..*at], &text[at + word.len()..]);
        !is_letter(before.chars().next_back()) && !is_letter(after.chars().next())
    };
    let found = text.match_indices(word).map(|(at, _)| at).find(is_whole);
    if let Some(at) = found {
        text.replace_range(at..at + word.len(), " ");
    }
    found.is_some()
}

/// How many seconds east of UTC the local clock is when it shows these seconds since 1970.
fn local_offset(clock: i64, now: &Zoned) -> Option<i64> {
    let clock = Time::new(clock, 0).to_zoned().ok()?.datetime();
    Some(now.time_zone().to_zoned(clock).ok()?.offset().seconds().into())
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
        for text in
            ["", "7", "2005", "friday", "EST", "last", "last month", "2 weeks", "foo 10:00", "noonday"]
        {
            check(text, None);
        }
        assert_eq!(at("tea", &morning).as_deref(), Some("2009-08-18 17:00"));
        assert_eq!(at("tea today", &morning).as_deref(), Some("2009-08-19 17:00"));
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
        assert!((now() - 5..=now()).contains(&expiry_of_objects("now").unwrap()));
    }
}
