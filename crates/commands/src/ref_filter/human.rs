//! How much of a date people say (git-log, `--date=human`): the nearer, the less.

/// From so many days ago on, the weekday alone does not say which day it was.
const NEAR_DAYS: i64 = 5;

/// A day by the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    pub year: i64,
    pub month: usize,
    pub day: i64,
}

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HumanForm {
    /// How long ago it is.
    Relative,
    /// The weekday, the time, and the time zone if it is another one.
    Weekday,
    /// The day and the time.
    Day,
    /// The day and the year.
    Year,
}

impl HumanForm {
    /// Of a day in its own time zone, on this day in that of this machine.
    pub fn of(date: Day, today: Day) -> Self {
        if date.year != today.year {
            return HumanForm::Year;
        }
        if date.month != today.month {
            return HumanForm::Day;
        }
        match today.day - date.day {
            0 => HumanForm::Relative,
            ago if (1..NEAR_DAYS).contains(&ago) => HumanForm::Weekday,
            _ => HumanForm::Day,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let check = |(year, month, day): (i64, usize, i64), expect| {
            let today = Day { year: 2023, month: 11, day: 14 };
            assert_eq!(HumanForm::of(Day { year, month, day }, today), expect, "{year} {month} {day}");
        };
        check((2023, 11, 14), HumanForm::Relative);
        check((2023, 11, 13), HumanForm::Weekday);
        check((2023, 11, 10), HumanForm::Weekday);
        check((2023, 11, 9), HumanForm::Day);
        check((2023, 11, 15), HumanForm::Day);
        check((2023, 11, 30), HumanForm::Day);
        check((2023, 10, 31), HumanForm::Day);
        check((2023, 12, 14), HumanForm::Day);
        check((2022, 11, 14), HumanForm::Year);
        check((2024, 11, 14), HumanForm::Year);
    }
}
