//! Dates by a format of strftime, in the C locale, with the flags and widths of the GNU C library (strftime(3)).
//!
//! ```text
//! % [_ - 0 ^ #]… [width] [E O] conversion
//! ```

use super::calendar::{Civil, MONTHS, Moment, WEEKDAYS, Zone, put};
use super::local_time;
use crate::call::fatal::Fatal;

/// The widest field, as in Rust's formats; git pads to any width.
const MAX_WIDTH: usize = u16::MAX as usize;

/// What a clock shows.
pub(super) struct Clock<'a> {
    pub(super) moment: Moment,
    /// In seconds after 1970 began there.
    pub(super) shown: i64,
    pub(super) date: Civil,
    /// The name of this machine's time zone, if the clock shows its time.
    pub(super) local: Option<&'a str>,
}

/// Conversions that take the modifier `E`, and `O`: it changes nothing in the C locale.
const WITH_E: &[u8] = b"cCxXyYnpPrRsTtuzZ%";
const WITH_O: &[u8] = b"bBdeghGHIjklmMSuUVwWynpPrRsTtCzZ%";

const CONVERSIONS: &[u8] = b"aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%";

/// A part of a format.
enum Piece<'a> {
    Literal(&'a [u8]),
    Conversion(Spec),
    /// Not a conversion: stays as it is, in a field of this width.
    Unknown(Spec, &'a [u8]),
}

/// How a conversion is written.
#[derive(Debug, Clone, Copy, Default)]
struct Spec {
    conversion: u8,
    /// The last of `_`, `-` and `0`.
    pad: Option<u8>,
    /// `^`
    is_upper: bool,
    /// `#`
    is_swapped: bool,
    width: usize,
}

/// Takes the next piece off a format.
fn next<'a>(format: &mut &'a [u8]) -> Option<Piece<'a>> {
    let whole = *format;
    if *whole.first()? != b'%' {
        let end = whole.iter().position(|byte| *byte == b'%').unwrap_or(whole.len());
        *format = &whole[end..];
        return Some(Piece::Literal(&whole[..end]));
    }
    let mut spec = Spec::default();
    let mut at = 1;
    while let Some(flag) = whole.get(at).filter(|flag| b"_-0^#".contains(flag)) {
        match flag {
            b'^' => spec.is_upper = true,
            b'#' => spec.is_swapped = true,
            pad => spec.pad = Some(*pad),
        }
        at += 1;
    }
    while let Some(digit) = whole.get(at).filter(|digit| digit.is_ascii_digit()) {
        spec.width = spec.width.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
        at += 1;
    }
    let modifier = whole.get(at).copied().filter(|byte| b"EO".contains(byte));
    at += usize::from(modifier.is_some());
    let conversion = whole.get(at).copied();
    let end = (at + 1).min(whole.len());
    *format = &whole[end..];
    let is_known = conversion.is_some_and(|conversion| {
        let known = match modifier {
            Some(b'E') => WITH_E,
            Some(_) => WITH_O,
            None => CONVERSIONS,
        };
        known.contains(&conversion)
    });
    spec.conversion = conversion.unwrap_or_default();
    Some(if is_known { Piece::Conversion(spec) } else { Piece::Unknown(spec, &whole[..end]) })
}

/// Writes a date.
pub(super) fn write(format: &[u8], clock: &Clock<'_>, out: &mut Vec<u8>) -> Result<(), Fatal> {
    let expanded = expand(format, clock);
    let mut rest = &expanded[..];
    while let Some(piece) = next(&mut rest) {
        match piece {
            Piece::Literal(text) => out.extend_from_slice(text),
            Piece::Conversion(spec) | Piece::Unknown(spec, _) if spec.width > MAX_WIDTH => {
                let words = "date format is too wide: format:";
                return Err(Fatal::new(format!("{words}{}", String::from_utf8_lossy(format))));
            }
            Piece::Unknown(spec, text) => pad(text, spec, out),
            Piece::Conversion(spec) => convert(spec, clock, out),
        }
    }
    Ok(())
}

/// Writes what git writes itself, since C's functions do not know the time zone of a commit: `%s`, `%z` and `%Z`
/// without flags and width.
fn expand(format: &[u8], clock: &Clock<'_>) -> Vec<u8> {
    let mut expanded = Vec::with_capacity(format.len());
    let mut rest = format;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let (before, found) = rest.split_at(at);
        expanded.extend_from_slice(before);
        let (conversion, after) = found.split_at(found.len().min(2));
        match conversion {
            b"%s" => put(&mut expanded, format_args!("{}", clock.moment.seconds)),
            b"%z" => put(&mut expanded, format_args!("{}", Zone(clock.moment.zone))),
            b"%Z" if clock.local.is_none() => {}
            _ => expanded.extend_from_slice(conversion),
        }
        rest = after;
    }
    expanded.extend_from_slice(rest);
    expanded
}

/// Adds a text in a field of the width.
fn pad(text: &[u8], spec: Spec, out: &mut Vec<u8>) {
    let filling = if spec.pad == Some(b'0') { b'0' } else { b' ' };
    out.extend(std::iter::repeat_n(filling, spec.width.saturating_sub(text.len())));
    out.extend_from_slice(text);
}

/// Adds one conversion.
fn convert(spec: Spec, clock: &Clock<'_>, out: &mut Vec<u8>) {
    let date = &clock.date;
    if let Some((value, digits, is_blank)) = number(spec.conversion, date) {
        let padding = spec.pad.unwrap_or(if is_blank { b'_' } else { b'0' });
        let text = match padding {
            b'-' => value.to_string(),
            b'_' => format!("{value:digits$}"),
            _ => format!("{value:0width$}", width = digits.max(spec.width)),
        };
        return pad(text.as_bytes(), Spec { pad: None, ..spec }, out);
    }
    let text = match spec.conversion {
        b's' if clock.local.is_some() => clock.moment.seconds.to_string(),
        b's' => local_time::standard_time(clock.shown).to_string(),
        b'z' => return zone(spec, clock.local.map_or(0, |_| clock.moment.zone), out),
        b'Z' => clock.local.unwrap_or("GMT").to_owned(),
        conversion => text(conversion, date),
    };
    let text = match spec.conversion {
        b'Z' if spec.is_swapped => text.to_lowercase(),
        b'p' | b'P' if spec.is_swapped => text.to_lowercase(),
        b'P' => text,
        b'a' | b'A' | b'b' | b'B' | b'h' if spec.is_swapped => text.to_uppercase(),
        _ if spec.is_upper => text.to_uppercase(),
        _ => text,
    };
    pad(text.as_bytes(), spec, out);
}

/// Adds a time zone: the width counts before the sign, and again behind it.
fn zone(spec: Spec, zone: i32, out: &mut Vec<u8>) {
    pad(if zone < 0 { b"-" } else { b"+" }, spec, out);
    let (value, digits) = (zone.unsigned_abs(), spec.width.max(4));
    match spec.pad {
        Some(b'-') if spec.width == 0 => put(out, format_args!("{value}")),
        Some(b'-' | b'_') => put(out, format_args!("{value:digits$}")),
        _ => put(out, format_args!("{value:0digits$}")),
    }
}

/// The value of a numeric conversion, its digits, and whether blanks fill them.
fn number(conversion: u8, date: &Civil) -> Option<(i64, usize, bool)> {
    let Civil { year, month, day, hour, minute, second, .. } = *date;
    let weekday = date.weekday as i64;
    let (value, digits) = match conversion {
        b'C' => (year.div_euclid(100), 2),
        b'd' | b'e' => (day, 2),
        b'g' => (date.iso_week().0.rem_euclid(100), 2),
        b'G' => (date.iso_week().0, 1),
        b'H' | b'k' => (hour, 2),
        b'I' | b'l' => (date.hour12(), 2),
        b'j' => (date.day_of_year + 1, 3),
        b'm' => (month as i64, 2),
        b'M' => (minute, 2),
        b'S' => (second, 2),
        b'u' => (if weekday == 0 { 7 } else { weekday }, 1),
        b'U' => ((date.day_of_year + 7 - weekday) / 7, 2),
        b'V' => (date.iso_week().1, 2),
        b'w' => (weekday, 1),
        b'W' => ((date.day_of_year + 7 - (weekday + 6) % 7) / 7, 2),
        b'y' => (year.rem_euclid(100), 2),
        b'Y' => (year, 1),
        _ => return None,
    };
    Some((value, digits, b"ekl".contains(&conversion)))
}

/// The text of any other conversion.
fn text(conversion: u8, date: &Civil) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = *date;
    let (weekday, name) = (WEEKDAYS[date.weekday], MONTHS[month - 1]);
    let time = format!("{hour:02}:{minute:02}:{second:02}");
    let of_day = if hour < 12 { "AM" } else { "PM" };
    match conversion {
        b'a' => weekday[..3].to_owned(),
        b'A' => weekday.to_owned(),
        b'b' | b'h' => name[..3].to_owned(),
        b'B' => name.to_owned(),
        b'c' => format!("{} {} {day:2} {time} {year}", &weekday[..3], &name[..3]),
        b'D' | b'x' => format!("{month:02}/{day:02}/{:02}", year.rem_euclid(100)),
        b'F' => format!("{year}-{month:02}-{day:02}"),
        b'n' => "\n".to_owned(),
        b'p' => of_day.to_owned(),
        b'P' => of_day.to_lowercase(),
        b'r' => format!("{:02}:{minute:02}:{second:02} {of_day}", date.hour12()),
        b'R' => format!("{hour:02}:{minute:02}"),
        b't' => "\t".to_owned(),
        b'T' | b'X' => time,
        _ => "%".to_owned(),
    }
}
