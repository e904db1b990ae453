//! Dates by the calendar.

use std::io::Write as _;

use super::human::Day;

/// A time as written in a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970.
    pub seconds: u64,
    /// As written: `+0130` is 130.
    pub zone: i32,
}

/// Adds a text.
pub(super) fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("memory takes all");
}

/// Formats 130 as `+0130`.
pub(super) struct Zone(pub(super) i32);

impl std::fmt::Display for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { '-' } else { '+' };
        write!(f, "{sign}{:04}", self.0.unsigned_abs())
    }
}

pub(super) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A calendar date and time.
pub(super) struct Civil {
    pub(super) year: i64,
    pub(super) month: usize,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    /// 0 is Sunday.
    pub(super) weekday: usize,
    /// 0 is January 1.
    pub(super) day_of_year: i64,
}

impl Civil {
    /// At so many seconds after 1970 began.
    pub(super) fn of(seconds: i64) -> Self {
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = date_of(days);
        Civil {
            year,
            month,
            day,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            weekday: (days + 4).rem_euclid(7) as usize,
            day_of_year: days - days_before(year),
        }
    }

    pub(super) fn day(&self) -> Day {
        Day { year: self.year, month: self.month, day: self.day }
    }

    /// The hour from 1 to 12.
    pub(super) fn hour12(&self) -> i64 {
        if self.hour % 12 == 0 { 12 } else { self.hour % 12 }
    }

    /// The year and week by ISO 8601: week 1 has the year's first Thursday.
    pub(super) fn iso_week(&self) -> (i64, i64) {
        let weekday = (self.weekday as i64 + 6) % 7;
        let week = (self.day_of_year - weekday + 10) / 7;
        let weeks = |year: i64| {
            let first = (days_before(year) + 3).rem_euclid(7);
            let is_leap = days_before(year + 1) - days_before(year) == 366;
            if first == 3 || (first == 2 && is_leap) { 53 } else { 52 }
        };
        match week {
            0 => (self.year - 1, weeks(self.year - 1)),
            53 if weeks(self.year) == 52 => (self.year + 1, 1),
            week => (self.year, week),
        }
    }
}

/// Days from 1970-01-01 to January 1 of a year.
fn days_before(year: i64) -> i64 {
    let before = year - 1;
    before * 365 + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400) - 719_162
}

/// The date `days` after 1970-01-01.
fn date_of(days: i64) -> (i64, usize, i64) {
    let mut year = 1970 + days.div_euclid(366);
    // With 97 leap days in 400 years, the guess above is low, by only a few years per century.
    let mut step = (days - days_before(year)) / 366;
    while step > 0 {
        year += step;
        step = (days - days_before(year)) / 366;
    }
    while days_before(year + 1) <= days {
        year += 1;
    }
    while days_before(year) > days {
        year -= 1;
    }
    let february = days_before(year + 1) - days_before(year) - 337;
    let mut rest = days - days_before(year);
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while month < 11 && rest >= lengths[month] {
        rest -= lengths[month];
        month += 1;
    }
    (year, month + 1, rest + 1)
}
