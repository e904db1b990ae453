//! Dates of commits and tags in the formats of `--date` (git-log, `--date=<format>`).

use super::calendar::{Civil, MONTHS, Moment, WEEKDAYS, Zone, put};
use super::human::HumanForm;
use super::local_time::{local, too_large};
use super::strftime;
use crate::call::fatal::Fatal;

/// The format of a date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateFormat {
    form: DateForm,
    /// Use this machine's time zone, not the author's.
    is_local: bool,
    /// Whether a format was given: dates without one sort by time.
    is_given: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum DateForm {
    Default,
    Relative,
    Iso,
    IsoStrict,
    Rfc,
    Short,
    Raw,
    Unix,
    Human,
    /// A strftime format.
    Custom(Vec<u8>),
}

fn unknown(what: &str, text: &[u8]) -> Fatal {
    Fatal::new(format!("{what}{}", String::from_utf8_lossy(text)))
}

impl DateFormat {
    /// Parses the text after the colon of a date atom. A format behind `auto:` is for terminals.
    pub fn parse(text: &[u8], is_terminal: bool) -> Result<Self, Fatal> {
        let text = match text.strip_prefix(b"auto:") {
            Some(b"") if is_terminal => return Err(unknown("unknown date format ", b"")),
            Some(form) if is_terminal => form,
            Some(_) => b"default",
            None => text,
        };
        let is_given = !text.is_empty();
        let done = |form, is_local| Ok(DateFormat { form, is_local, is_given });
        if text == b"local" {
            return done(DateForm::Default, true);
        }
        let split = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
        let (word, rest) = text.split_at(split);
        let (name, is_local) = match word.strip_suffix(b"-local") {
            Some(name) => (name, true),
            None => (word, false),
        };
        if name.starts_with(b"format") {
            let format = rest.strip_prefix(b":").filter(|_| name == b"format");
            let Some(format) = format else {
                return Err(unknown("date format missing colon separator: ", text));
            };
            return done(DateForm::Custom(format.to_vec()), is_local);
        }
        let form = match name {
            b"" if !is_local => DateForm::Default,
            b"default" => DateForm::Default,
            b"relative" => DateForm::Relative,
            b"iso" | b"iso8601" => DateForm::Iso,
            b"iso-strict" | b"iso8601-strict" => DateForm::IsoStrict,
            b"rfc" | b"rfc2822" => DateForm::Rfc,
            b"short" => DateForm::Short,
            b"raw" => DateForm::Raw,
            b"unix" => DateForm::Unix,
            b"human" => DateForm::Human,
            _ => return Err(unknown("unknown date format ", text)),
        };
        match rest {
            b"" => done(form, is_local),
            _ => Err(unknown("unknown date format ", text)),
        }
    }

    /// Whether no format was given.
    pub fn is_default(&self) -> bool {
        !self.is_given
    }

    /// Adds the date; `now` is in seconds since 1970.
    pub fn write(&self, moment: Moment, now: i64, out: &mut Vec<u8>) -> Result<(), Fatal> {
        match &self.form {
            DateForm::Unix => {
                put(out, format_args!("{}", moment.seconds));
                return Ok(());
            }
            DateForm::Relative => {
                relative(moment.seconds, now, out);
                return Ok(());
            }
            _ => {}
        }
        let stored = moment.seconds;
        let (moment, zone_name) = match self.is_local {
            true => local(moment.seconds).map(|(moment, name)| (moment, Some(name)))?,
            false => (moment, None),
        };
        if self.form == DateForm::Raw {
            put(out, format_args!("{} {}", moment.seconds, Zone(moment.zone)));
            return Ok(());
        }
        let seconds = civil_seconds(moment)?;
        let is_known = seconds <= LAST_SECOND;
        let moment = if is_known { moment } else { Moment { seconds: 0, zone: 0 } };
        let shown = if is_known { seconds } else { 0 };
        let date = Civil::of(shown);
        if self.form == DateForm::Human {
            return self.write_human(&date, moment.zone, stored, now, out);
        }
        if let DateForm::Custom(format) = &self.form {
            let clock = strftime::Clock { moment, shown, date, local: zone_name.as_deref() };
            return strftime::write(format, &clock, out);
        }
        self.write_civil(&date, moment, out);
        Ok(())
    }

    /// `seconds` is the moment itself, also where `date` stands for one that no calendar knows.
    fn write_human(
        &self,
        date: &Civil,
        zone: i32,
        seconds: u64,
        now: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), Fatal> {
        let (here, _) = local(now.max(0).unsigned_abs())?;
        let today = Civil::of(civil_seconds(here)?);
        let (weekday, month) = (&WEEKDAYS[date.weekday][..3], &MONTHS[date.month - 1][..3]);
        let Civil { year, day, hour, minute, .. } = *date;
        match HumanForm::of(date.day(), today.day()) {
            HumanForm::Relative => relative(seconds, now, out),
            // Years have 32 bits in C.
            HumanForm::Year => put(out, format_args!("{month} {day} {}", year as i32)),
            HumanForm::Day => put(out, format_args!("{weekday} {month} {day} {hour:02}:{minute:02}")),
            HumanForm::Weekday => {
                put(out, format_args!("{weekday} {hour:02}:{minute:02}"));
                if !self.is_local && zone != here.zone {
                    put(out, format_args!(" {}", Zone(zone)));
                }
            }
        }
        Ok(())
    }

    fn write_civil(&self, date: &Civil, moment: Moment, out: &mut Vec<u8>) {
        let Civil { year, month, day, hour, minute, second, .. } = *date;
        let (weekday, zone) = (&WEEKDAYS[date.weekday][..3], Zone(moment.zone));
        let (month_name, number) = (&MONTHS[month - 1][..3], month);
        match &self.form {
            DateForm::Default => {
                put(
                    out,
                    format_args!("{weekday} {month_name} {day} {hour:02}:{minute:02}:{second:02} {year}"),
                );
                if !self.is_local {
                    put(out, format_args!(" {zone}"));
                }
            }
            DateForm::Iso => put(
                out,
                format_args!("{year:04}-{number:02}-{day:02} {hour:02}:{minute:02}:{second:02} {zone}"),
            ),
            DateForm::IsoStrict => {
                put(out, format_args!("{year:04}-{number:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"));
                let (sign, size) = (if moment.zone < 0 { '-' } else { '+' }, moment.zone.unsigned_abs());
                match size {
                    0 => out.push(b'Z'),
                    _ => put(out, format_args!("{sign}{:02}:{:02}", size / 100, size % 100)),
                }
            }
            DateForm::Rfc => put(
                out,
                format_args!("{weekday}, {day} {month_name} {year} {hour:02}:{minute:02}:{second:02} {zone}"),
            ),
            DateForm::Short => put(out, format_args!("{year:04}-{number:02}-{day:02}")),
            DateForm::Raw | DateForm::Unix | DateForm::Relative | DateForm::Human | DateForm::Custom(_) => {}
        }
    }
}

/// The last second of the last year that C's calendar functions support.
const LAST_SECOND: i64 = 67_768_036_191_676_799;

/// Seconds since 1970 by a local clock in its time zone.
fn civil_seconds(moment: Moment) -> Result<i64, Fatal> {
    let Moment { seconds, zone } = moment;
    let offset = i64::from(zone / 100) * 3600 + i64::from(zone % 100) * 60;
    let there = match offset {
        0.. => seconds
            .checked_add(offset.unsigned_abs())
            .ok_or_else(|| Fatal::new(format!("Timestamp+tz too large: {seconds} {}", Zone(zone))))?,
        _ => seconds
            .checked_sub(offset.unsigned_abs())
            .ok_or_else(|| Fatal::new(format!("Timestamp before Unix epoch: {seconds} {zone:+04}")))?,
    };
    i64::try_from(there).map_err(|_| too_large(there))
}

/// How long ago, in words.
fn relative(seconds: u64, now: i64, out: &mut Vec<u8>) {
    let mut say = |count: i64, unit: &str| {
        let plural = if count == 1 { "" } else { "s" };
        put(out, format_args!("{count} {unit}{plural} ago"));
    };
    let ago = i64::try_from(seconds).ok().and_then(|seconds| now.checked_sub(seconds));
    let Some(ago) = ago.filter(|ago| *ago >= 0) else {
        return put(out, format_args!("in the future"));
    };
    if ago < 90 {
        return say(ago, "second");
    }
    let minutes = (ago + 30) / 60;
    if minutes < 90 {
        return say(minutes, "minute");
    }
    let hours = (minutes + 30) / 60;
    if hours < 36 {
        return say(hours, "hour");
    }
    let days = (hours + 12) / 24;
    if days < 14 {
        return say(days, "day");
    }
    if days < 70 {
        return say((days + 3) / 7, "week");
    }
    if days < 365 {
        return say((days + 15) / 30, "month");
    }
    if days < 1825 {
        let months = (days * 24 + 365) / 730;
        let (years, months) = (months / 12, months % 12);
        if months == 0 {
            return say(years, "year");
        }
        let plural = if years == 1 { "" } else { "s" };
        put(out, format_args!("{years} year{plural}, "));
        let plural = if months == 1 { "" } else { "s" };
        return put(out, format_args!("{months} month{plural} ago"));
    }
    say((days + 183) / 365, "year");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: &str, seconds: u64, zone: i32, now: i64) -> String {
        let mut out = Vec::new();
        let format = DateFormat::parse(format.as_bytes(), false).unwrap();
        match format.write(Moment { seconds, zone }, now, &mut out) {
            Ok(()) => String::from_utf8(out).unwrap(),
            Err(fatal) => fatal.message,
        }
    }

    #[test]
    fn forms() {
        let check =
            |format, expect: &str| assert_eq!(text(format, 1_112_912_598, 130, 0), expect, "{format}");
        check("", "Thu Apr 7 23:53:18 2005 +0130");
        check("short", "2005-04-07");
        check("iso8601", "2005-04-07 23:53:18 +0130");
        check("iso-strict", "2005-04-07T23:53:18+01:30");
        check("rfc", "Thu, 7 Apr 2005 23:53:18 +0130");
        check("raw", "1112912598 +0130");
        check("unix", "1112912598");
        check("format:%j %U %V %W %G %g %e|%I %k %l %P %%", "097 14 14 14 2005 05  7|11 23 11 pm %");
        check("relative", "in the future");
        check("format:%65535z", &format!("{:>65535}{:065535}", "+", 0));
        check("format:%65536d", "date format is too wide: format:%65536d");
    }

    #[test]
    fn edges_of_time() {
        let check = |seconds, zone, expect: &str| assert_eq!(text("default", seconds, zone, 0), expect);
        check(0, 0, "Thu Jan 1 00:00:00 1970 +0000");
        check(951_782_400, 0, "Tue Feb 29 00:00:00 2000 +0000");
        check(4_107_542_399, 0, "Sun Feb 28 23:59:59 2100 +0000");
        check(253_402_300_800, 0, "Sat Jan 1 00:00:00 10000 +0000");
        check(5, -100, "Timestamp before Unix epoch: 5 -100");
        check(u64::MAX - 4, 100, "Timestamp+tz too large: 18446744073709551611 +0100");
        check(1 << 63, 0, "Timestamp too large for this system: 9223372036854775808");
        check(LAST_SECOND as u64 + 1, 0, "Thu Jan 1 00:00:00 1970 +0000");
        assert!(text("default", LAST_SECOND as u64, 0, 0).starts_with("Wed Dec 31 23:59:59 "));
    }

    #[test]
    fn weeks() {
        let check = |seconds, expect: &str| assert_eq!(text("format:%G-%V %a", seconds, 0, 0), expect);
        check(1_104_537_600, "2004-53 Sat");
        check(1_230_768_000, "2009-01 Thu");
        check(1_230_595_200, "2009-01 Tue");
        check(1_262_304_000, "2009-53 Fri");
    }

    #[test]
    fn how_long_ago() {
        let check = |ago: i64, expect: &str| assert_eq!(text("relative", 0, 0, ago), expect, "{ago}");
        check(0, "0 seconds ago");
        check(1, "1 second ago");
        check(89, "89 seconds ago");
        check(90, "2 minutes ago");
        check(18_000, "5 hours ago");
        check(432_000, "5 days ago");
        check(1_728_000, "3 weeks ago");
        check(13_000_000, "5 months ago");
        check(37_500_000, "1 year, 2 months ago");
        check(31_536_000, "1 year ago");
        check(630_000_000, "20 years ago");
    }

    #[test]
    fn what_is_refused() {
        let check = |format: &str, expect: &str| {
            assert_eq!(DateFormat::parse(format.as_bytes(), true).unwrap_err().message, expect);
        };
        check("x", "unknown date format x");
        check("short:x", "unknown date format short:x");
        check("-local", "unknown date format -local");
        check("format", "date format missing colon separator: format");
        check("human:x", "unknown date format human:x");
        check("auto", "unknown date format auto");
        check("auto:", "unknown date format ");
        check("auto:x", "unknown date format x");
        check("auto:auto:iso", "unknown date format auto:iso");
    }
}
