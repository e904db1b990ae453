//! Moments as people write them (git-rev-parse, `--since`; the rest is watched): numbers and words in any order, each of
//! which changes what was known before it. As in git, what has no meaning is passed over, and so are zones.

use gix_date::{Time, Zoned};

use super::written::{DAY, DateFields, MONTHS, days, digit_count, numbers, value};

const HOUR: i64 = 3600;

const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

const NUMBERS: [&str; 10] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/// Units of a fixed length, in seconds.
const UNITS: [(&str, i64); 5] =
    [("second", 1), ("minute", 60), ("hour", HOUR), ("day", DAY), ("week", 7 * DAY)];

/// Words for hours.
const HOURS: [(&str, i64); 3] = [("noon", 12), ("midnight", 0), ("tea", 17)];

/// Longest number that has a meaning here.
const MAX_DIGITS: usize = 9;

/// How far ahead a day may be that is written without a year, in days.
const DAYS_AHEAD: i64 = 10;

/// What was read of a text. What is not known is as now.
struct ApproximateDate<'a> {
    now: &'a Zoned,
    /// The local clock: days since 1970, and seconds since midnight.
    today: i64,
    now_clock: i64,
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    clock: Option<i64>,
    /// The clock is that of a word, which means the last time that there was this hour.
    is_last_hour: bool,
    /// A number whose meaning depends on what follows, and its digits.
    number: Option<(i64, usize)>,
    /// Something had a meaning.
    is_moment: bool,
}

/// Seconds since 1970 of a local clock that shows this moment. `None` if nothing in the text has a meaning.
pub(super) fn approximate(text: &str, now: &Zoned) -> Option<i64> {
    let clock = now.timestamp().as_second() + i64::from(now.offset().seconds());
    let mut date = ApproximateDate {
        now,
        today: clock.div_euclid(DAY),
        now_clock: clock.rem_euclid(DAY),
        year: None,
        month: None,
        day: None,
        clock: None,
        is_last_hour: false,
        number: None,
        is_moment: false,
    };
    let mut rest = text.as_bytes();
    while let Some(first) = rest.first() {
        let taken = match first {
            b'0'..=b'9' => date.digits(rest),
            _ if first.is_ascii_alphabetic() => date.letters(rest),
            _ => 1,
        };
        rest = &rest[taken..];
    }
    date.place_number();
    let has_day = date.year.or(date.month).or(date.day).is_some();
    let is_ahead = date.clock.is_some_and(|clock| clock / HOUR > date.now_clock / HOUR);
    let days_ago = i64::from(date.is_last_hour && is_ahead && !has_day);
    date.is_moment.then(|| date.seconds() - days_ago * DAY)
}

impl ApproximateDate<'_> {
    /// Reads a number, and those that are joined to it. Returns how many bytes were read, as does the next.
    fn digits(&mut self, text: &[u8]) -> usize {
        self.is_moment = true;
        self.place_number();
        let mut fields = DateFields { day: self.day, ..DateFields::default() };
        if let Some(taken) = fields.time(text).or_else(|| fields.day_of_year(text)) {
            (self.year, self.month) = (fields.year.or(self.year), fields.month.or(self.month));
            (self.day, self.clock) = (fields.day, fields.clock.or(self.clock));
            return taken;
        }
        if let Some(taken) = self.day_of_month(text) {
            return taken;
        }
        let digits = digit_count(text);
        self.number = value(&text[..digits]).filter(|_| digits <= MAX_DIGITS).map(|value| (value, digits));
        digits
    }

    fn letters(&mut self, text: &[u8]) -> usize {
        let length = text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let word = String::from_utf8_lossy(&text[..length]).to_ascii_lowercase();
        self.is_moment |= self.word(&word).is_some();
        length
    }

    /// `04/07`, `4-7` or `07.04`, unless that is still to come; day and month change places if it is, or no date.
    fn day_of_month(&mut self, text: &[u8]) -> Option<usize> {
        let separator = *text.get(digit_count(text)).filter(|byte| b"-/.".contains(byte))?;
        let ([Some(one), Some(two), None], end) = numbers(text, separator) else { return None };
        let year = i64::from(self.now.year());
        let is_past = |[month, day]: &[i64; 2]| {
            (1..=12).contains(month)
                && (1..=31).contains(day)
                && days(year, *month, *day) <= self.today + DAYS_AHEAD
        };
        let orders = if separator == b'.' { [[two, one], [one, two]] } else { [[one, two], [two, one]] };
        let [month, day] = orders.into_iter().find(is_past)?;
        (self.year, self.month, self.day) = (self.year.or(Some(year)), Some(month), Some(day));
        Some(end)
    }

    /// Of a number that nothing explains: it is a day, else a month, else a year.
    fn place_number(&mut self) {
        let Some((number, digits)) = self.number.take() else { return };
        match digits {
            4 if (1970..=2099).contains(&number) => self.year = self.year.or(Some(number)),
            1 | 2 if (1..=31).contains(&number) && self.day.is_none() => self.day = Some(number),
            1 | 2 if (1..=12).contains(&number) && self.month.is_none() => self.month = Some(number),
            1 | 2 if number >= 70 => self.year = self.year.or(Some(1900 + number)),
            1 | 2 if (1..38).contains(&number) => self.year = self.year.or(Some(2000 + number)),
            _ => {}
        }
    }

    /// Reads a word in lower case. `None` if it has no meaning.
    fn word(&mut self, word: &str) -> Option<()> {
        let is_month = |name: &&str| word.len() >= 3 && name.starts_with(word);
        if let Some(month) = MONTHS.iter().position(is_month) {
            self.place_number();
            self.month = i64::try_from(month + 1).ok();
        } else if let Some(number) = NUMBERS.iter().position(|name| *name == word) {
            self.number = Some((i64::try_from(number + 1).ok()?, 1));
        } else if let Some((_, hour)) = HOURS.iter().find(|(name, _)| *name == word) {
            self.clock = Some(hour * HOUR);
            self.is_last_hour = true;
        } else {
            match word {
                "now" => self.set(self.today * DAY + self.now_clock)?,
                "last" => self.number = Some((1, 1)),
                "today" => {
                    self.day = self.day.or(Some(self.now.day().into()));
                    self.clock = self.clock.or(Some(0));
                }
                "yesterday" => self.set(self.seconds() - DAY)?,
                "am" | "pm" => {
                    let typed = self.number.take().filter(|(hour, _)| *hour > 0).map(|(hour, _)| hour * HOUR);
                    let clock = typed.or(self.clock).unwrap_or(self.now_clock) % (DAY / 2);
                    self.clock = Some(if word == "pm" { clock + DAY / 2 } else { clock });
                }
                _ => self.counted(word)?,
            }
        }
        Some(())
    }

    /// Goes back by as many of these as the number before says.
    fn counted(&mut self, word: &str) -> Option<()> {
        let (count, _) = self.number.filter(|(count, _)| *count > 0)?;
        let name = word.strip_suffix('s').unwrap_or(word);
        let is_weekday = |weekday: &&str| name.len() >= 3 && weekday.starts_with(name);
        let from = self.seconds();
        let earlier = if let Some((_, seconds)) = UNITS.iter().find(|(unit, _)| *unit == name) {
            from - count * seconds
        } else if let Some(weekday) = WEEKDAYS.iter().position(is_weekday) {
            // Day 0 is a Thursday, which is 3 days after a Monday.
            let since = (from.div_euclid(DAY) + 3 - i64::try_from(weekday).ok()? - 1).rem_euclid(7) + 1;
            from - (since + 7 * (count - 1)) * DAY
        } else {
            let back = match name {
                "month" => count,
                "year" => 12 * count,
                _ => return None,
            };
            let (year, month, day) = self.date();
            let months = year * 12 + month - 1 - back;
            let day = days(months.div_euclid(12), months.rem_euclid(12) + 1, day);
            day * DAY + from.rem_euclid(DAY)
        };
        self.number = None;
        self.set(earlier)
    }

    /// Year, month and day as far as they are known. A month alone is never one that is still to come.
    fn date(&self) -> (i64, i64, i64) {
        let this_month = i64::from(self.now.month());
        let month = self.month.unwrap_or(this_month);
        let last = i64::from(self.now.year()) - i64::from(month > this_month);
        (self.year.unwrap_or(last), month, self.day.unwrap_or(self.now.day().into()))
    }

    fn seconds(&self) -> i64 {
        let (year, month, day) = self.date();
        days(year, month, day) * DAY + self.clock.unwrap_or(self.now_clock)
    }

    fn set(&mut self, seconds: i64) -> Option<()> {
        let there = Time::new(seconds, 0).to_zoned().ok()?;
        self.year = Some(there.year().into());
        self.month = Some(there.month().into());
        self.day = Some(there.day().into());
        self.clock = Some(seconds.rem_euclid(DAY));
        Some(())
    }
}
