//! Dates as git reads them in `GIT_AUTHOR_DATE` and `GIT_COMMITTER_DATE` (git-commit-tree, "DATE FORMATS"; the
//! rest is watched): numbers, words and offsets in any order. As in git, what has no meaning is passed over.

use gix_date::Time;

/// Seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// The end of 2099: git takes no later year.
const LAST_SECOND: i64 = 4_102_444_799;

pub(super) const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The time zones that git knows, in hours. As in git, `AST` is an hour off.
const ZONES: [(&str, i32); 44] = [
    ("idlw", -12),
    ("nt", -11),
    ("cat", -10),
    ("hst", -10),
    ("hdt", -9),
    ("yst", -9),
    ("ydt", -8),
    ("pst", -8),
    ("pdt", -7),
    ("mst", -7),
    ("mdt", -6),
    ("cst", -6),
    ("cdt", -5),
    ("est", -5),
    ("edt", -4),
    ("ast", -3),
    ("adt", -2),
    ("wat", -1),
    ("gmt", 0),
    ("utc", 0),
    ("wet", 0),
    ("z", 0),
    ("bst", 1),
    ("cet", 1),
    ("fwt", 1),
    ("met", 1),
    ("mewt", 1),
    ("cest", 2),
    ("eet", 2),
    ("fst", 2),
    ("mest", 2),
    ("mesz", 2),
    ("eest", 3),
    ("wast", 7),
    ("cct", 8),
    ("wadt", 8),
    ("jst", 9),
    ("east", 10),
    ("gst", 10),
    ("eadt", 11),
    ("idle", 12),
    ("nzst", 12),
    ("nzt", 12),
    ("nzdt", 13),
];

/// Seconds since 1970, and minutes east of UTC, of a text that has year, month and time. Without a zone in the text,
/// `offset_of` says how many seconds east of UTC the local clock is when it shows these seconds since 1970.
pub fn date(text: &str, offset_of: impl FnOnce(i64) -> Option<i64>) -> Option<(i64, i32)> {
    let fields = DateFields::of(text);
    let (year, month, clock) = (fields.year?, fields.month?, fields.clock?);
    // As in git, a date without a day is two days before its month.
    let clock = days(year, month, fields.day.unwrap_or(-1)) * DAY + clock;
    let zone = match fields.zone {
        Some(zone) => zone,
        None => i32::try_from(offset_of(clock)? / 60).ok()?,
    };
    let seconds = if fields.is_utc { clock } else { clock - i64::from(zone) * 60 };
    (0..=LAST_SECOND).contains(&seconds).then_some((seconds, zone))
}

/// Days since 1970 of a date of the Gregorian calendar. The day may be outside of the month.
pub(super) fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that a leap day is the last one.
    let year = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

/// What a text says of a date.
#[derive(Debug, Default)]
pub(super) struct DateFields {
    pub(super) year: Option<i64>,
    pub(super) month: Option<i64>,
    pub(super) day: Option<i64>,
    /// Seconds since midnight.
    pub(super) clock: Option<i64>,
    /// Minutes east of UTC.
    pub(super) zone: Option<i32>,
    /// The text has seconds since 1970: they are not local.
    pub(super) is_utc: bool,
}

impl DateFields {
    fn of(text: &str) -> Self {
        let mut fields = Self::default();
        let mut rest = text.as_bytes();
        while let Some(first) = rest.first() {
            let taken = match first {
                b'0'..=b'9' => fields.number(rest),
                b'+' | b'-' => fields.offset(rest),
                _ if first.is_ascii_alphabetic() => fields.word(rest),
                _ => 1,
            };
            rest = &rest[taken..];
        }
        fields
    }

    /// Reads a number, and those that are joined to it. Returns how many bytes were read, as do those below.
    fn number(&mut self, text: &[u8]) -> usize {
        if let Some(taken) = self.time(text).or_else(|| self.day_of_year(text)) {
            return taken;
        }
        let digits = digit_count(text);
        let _ = self.lone_number(&text[..digits]);
        digits
    }

    /// `22:13` or `22:13:13`; a fraction is passed over.
    pub(super) fn time(&mut self, text: &[u8]) -> Option<usize> {
        let ([Some(hour), Some(minute), second], end) = numbers(text, b':') else { return None };
        self.clock = Some(clock_of(hour, minute, second.unwrap_or(0))?);
        // As in git: before a day is known, the dot may stand for a space.
        let has_fraction = self.day.is_some() && text.get(end) == Some(&b'.');
        Some(if has_fraction { end + 1 + digit_count(&text[end + 1..]) } else { end })
    }

    /// `2005-04-07`, `2005.04.07`, `04/07/2005` or `07.04.2005`; month and day change places if there is no such month.
    pub(super) fn day_of_year(&mut self, text: &[u8]) -> Option<usize> {
        let separator = *text.get(digit_count(text)).filter(|byte| b"-/.".contains(byte))?;
        let ([Some(one), Some(two), Some(three)], end) = numbers(text, separator) else { return None };
        let orders = match separator {
            _ if one > 70 => [[one, two, three], [one, three, two]],
            b'.' => [[three, two, one], [three, one, two]],
            _ => [[three, one, two], [three, two, one]],
        };
        let is_date = |month: i64, day: i64| (1..=12).contains(&month) && (1..=31).contains(&day);
        let [year, month, day] = orders.into_iter().find(|[_, month, day]| is_date(*month, *day))?;
        let year = match year {
            0..=37 => 2000 + year,
            70..=99 => 1900 + year,
            1970..=2099 => year,
            _ => return None,
        };
        (self.year, self.month, self.day) = (Some(year), Some(month), Some(day));
        Some(end)
    }

    /// A number on its own. `None` if it has no meaning.
    fn lone_number(&mut self, digits: &[u8]) -> Option<()> {
        let number = value(digits)?;
        let has_date = self.year.is_some() || self.month.is_some() || self.day.is_some();
        match digits.len() {
            _ if (100_000_000..=LAST_SECOND).contains(&number) && !has_date => {
                let there = Time::new(number, 0).to_zoned().ok()?;
                self.year = Some(there.year().into());
                self.month = Some(there.month().into());
                self.day = Some(there.day().into());
                self.clock = Some(number % DAY);
                self.is_utc = true;
            }
            8 => {
                let (year, month, day) = (number / 10_000, number / 100 % 100, number % 100);
                let is_date =
                    (1970..=2099).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
                (self.year, self.month, self.day) =
                    is_date.then_some((Some(year), Some(month), Some(day)))?;
            }
            6 => self.clock = Some(clock_of(number / 10_000, number / 100 % 100, number % 100)?),
            4 if (1970..=2099).contains(&number) => self.year = Some(number),
            4 if number <= 1400 && self.zone.is_none() => {
                self.zone = Some(i32::try_from(number / 100 * 60 + number % 100).ok()?);
            }
            _ if (1..=31).contains(&number) && self.day.is_none() => self.day = Some(number),
            2 if number >= 70 && self.year.is_none() => self.year = Some(1900 + number),
            2 if number < 10 && self.year.is_none() => self.year = Some(2000 + number),
            _ if (1..=12).contains(&number) && self.month.is_none() => self.month = Some(number),
            _ => return None,
        }
        Some(())
    }

    /// `+0200`, `+02` or `+02:00`.
    fn offset(&mut self, text: &[u8]) -> usize {
        let start = 1 + text[1..].iter().take_while(|byte| **byte == b' ').count();
        let ([number, minute, ..], end) = numbers(&text[start..], b':');
        let digits = digit_count(&text[start..]);
        let zone = match (digits, number, minute) {
            (0, ..) => return start,
            (4, Some(number), _) => Some((number / 100, number % 100)),
            (2, Some(hour), None) => Some((hour, 0)),
            (2, Some(hour), Some(minute)) => {
                (digit_count(&text[start + digits + 1..]) == 2).then_some((hour, minute))
            }
            _ => None,
        };
        let zone = zone.filter(|(hour, minute)| *hour < 24 && *minute < 60);
        if let Some(zone) = zone.and_then(|(hour, minute)| i32::try_from(hour * 60 + minute).ok()) {
            self.zone = Some(if text[0] == b'-' { -zone } else { zone });
        }
        start + end
    }

    /// The name of a month, a day or a zone; `T` before a time; `am` and `pm` after one.
    fn word(&mut self, text: &[u8]) -> usize {
        let length = text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let word: String = text[..length].iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect();
        let digits = digit_count(&text[1..]);
        if text[..length] == *b"T"
            && matches!(digits, 2 | 4 | 6)
            && text.get(1 + digits) != Some(&b':')
            && let Some(number) = value(&text[1..1 + digits])
        {
            let number = number
                * match digits {
                    2 => 10_000,
                    4 => 100,
                    _ => 1,
                };
            self.clock = clock_of(number / 10_000, number / 100 % 100, number % 100).or(self.clock);
            return 1 + digits;
        }
        // As in git, a name does not end in digits.
        if !text.get(length).is_some_and(u8::is_ascii_digit) {
            self.name(&word);
        }
        length
    }

    /// Takes the meaning of a word in lower case, if it has one.
    fn name(&mut self, word: &str) {
        const HALF: i64 = DAY / 2;
        let begins = |name: &str| word.len() >= 3 && name.starts_with(word);
        let zone = ZONES.iter().find(|(name, _)| *name == word);
        if let Some(month) = MONTHS.iter().position(|name| begins(name)) {
            self.month = i64::try_from(month + 1).ok();
        } else if let Some((_, hours)) = zone {
            self.zone = self.zone.or(Some(hours * 60));
        } else if word == "am" {
            self.clock = self.clock.map(|clock| clock % HALF);
        } else if word == "pm" {
            self.clock = self.clock.map(|clock| clock % HALF + HALF);
        }
    }
}

pub(super) fn digit_count(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

pub(super) fn value(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Up to three numbers with this separator, and how many bytes they have.
pub(super) fn numbers(text: &[u8], separator: u8) -> ([Option<i64>; 3], usize) {
    let mut found = [None; 3];
    let mut end = 0;
    for (at, number) in found.iter_mut().enumerate() {
        if at > 0 && text.get(end) != Some(&separator) {
            break;
        }
        let start = if at == 0 { 0 } else { end + 1 };
        let digits = digit_count(&text[start..]);
        if digits == 0 {
            break;
        }
        *number = value(&text[start..start + digits]);
        end = start + digits;
    }
    (found, end)
}

/// Seconds since midnight. As in git, there may be an hour 24 and a leap second.
fn clock_of(hour: i64, minute: i64, second: i64) -> Option<i64> {
    (hour <= 24 && minute <= 59 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a local clock that is five hours west.
    fn check(text: &str, expect: Option<(i64, i32)>) {
        assert_eq!(date(text, |_| Some(-5 * 3600)), expect, "{text}");
    }

    #[test]
    fn forms() {
        for text in [
            "1112911993",
            "2005-04-07T22:13:13Z",
            "2005-04-07 22:13:13.019 UTC",
            "20050407T221313Z",
            "20050407 221313 gmt",
            "Thu, 07 Apr 2005 22:13:13 +0000",
            "Thu Apr  7 22:13:13 2005 0000",
            "2005.04.07 22:13:13 +00:00",
            "07.04.2005.22:13:13.+00",
            "04/07/05 22:13:13 - 0000",
            "10:13:13 pm 7th April 2005 WET",
        ] {
            assert_eq!(date(text, |_| Some(0)), Some((1_112_911_993, 0)), "{text}");
        }
        check("1112911993", Some((1_112_911_993, -300)));
        check("2005-04-07T22:13:13", Some((1_112_911_993 + 5 * 3600, -300)));
        check("2005-04-07T22:13:13,5+02", Some((1_112_904_793, 120)));
        check("7 Apr 2005 22:13:13 PDT", Some((1_112_937_193, -420)));
        check("UTC+0200 7/4/2005 22:13:13", Some((1_120_507_993, 120)));
        check("31/12/2005 22:13 CET", Some((1_136_063_580, 60)));
        check("10:00 Apr 2005 Z", Some((1_112_176_800, 0)));
        check("30 Feb 2005 24:00 Z", Some((1_109_808_000, 0)));
        check("1970-01-01 01:00 +0100", Some((0, 60)));
        check("2099-12-31 23:59:59Z", Some((4_102_444_799, 0)));
    }

    #[test]
    fn zones_that_are_none() {
        for text in ["+0060", "+2400", "+5", "+053", "+05:3", "foo", "(x)", "EST5"] {
            check(&format!("1112911993 {text}"), Some((1_112_911_993, -300)));
        }
        check("1112911993 CEST EST", Some((1_112_911_993, 120)));
        check("1112911993 +0100 -0200 EST", Some((1_112_911_993, -120)));
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "",
            "1",
            "1 +0000",
            "-1 +0000",
            "99999999999 +0000",
            "99999999999999999999 +0000",
            "4102444800 +0000",
            "1969-12-31T23:59:59Z",
            "1970-01-01 00:59 +0100",
            "2099-12-31 23:59:59 -0100",
            "2005-04-07",
            "2005-13-32 10:00",
            "10:00",
            "7 Ap 2005 10:00",
            "7Apr2005 10:00",
            "7-Apr-2005 10:00",
            "now",
            "\u{e9}",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn days_of_the_calendar() {
        let check = |(year, month, day), expect| assert_eq!(days(year, month, day), expect);
        check((1970, 1, 1), 0);
        check((2000, 2, 29), 11_016);
        check((2000, 3, 1), 11_017);
        check((2005, 4, 7), 12_880);
        check((2099, 12, 31), 47_481);
    }
}
