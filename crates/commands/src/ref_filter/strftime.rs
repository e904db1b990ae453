//! Dates by a format of strftime, in the C locale, with the flags and widths of the GNU C library (strftime(3)).
//!
//! ```text
//! % [_ - 0 ^ #]… [width] [E O] conversion
//! ```

use super::calendar::{Civil, MONTHS, Moment, WEEKDAYS, Zone, put};

/// The widest field; git pads to any width.
const MAX_WIDTH: usize = 4096;

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

impl Spec {
    fn has_flags(self) -> bool {
        self.pad.is_some() || self.is_upper || self.is_swapped || self.width > 0
    }
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

/// Whether a format can be written as git does: `%s`, `%z` and `%Z` only without flags and width, and no field is
/// very wide.
pub(super) fn is_supported(mut format: &[u8]) -> bool {
    std::iter::from_fn(|| next(&mut format)).all(|piece| match piece {
        Piece::Literal(_) => true,
        Piece::Conversion(spec) => {
            spec.width <= MAX_WIDTH && !(spec.has_flags() && b"szZ".contains(&spec.conversion))
        }
        Piece::Unknown(spec, _) => spec.width <= MAX_WIDTH,
    })
}

/// Writes a date; `abbreviation` is the name of its time zone.
pub(super) fn write(mut format: &[u8], moment: Moment, date: &Civil, abbreviation: &str, out: &mut Vec<u8>) {
    while let Some(piece) = next(&mut format) {
        match piece {
            Piece::Literal(text) => out.extend_from_slice(text),
            Piece::Unknown(spec, text) => pad(text, spec, out),
            Piece::Conversion(spec) => match spec.conversion {
                b's' => put(out, format_args!("{}", moment.seconds)),
                b'z' => put(out, format_args!("{}", Zone(moment.zone))),
                b'Z' => out.extend_from_slice(abbreviation.as_bytes()),
                _ => convert(spec, date, out),
            },
        }
    }
}

/// Adds a text in a field of the width.
fn pad(text: &[u8], spec: Spec, out: &mut Vec<u8>) {
    let filling = if spec.pad == Some(b'0') { b'0' } else { b' ' };
    out.extend(std::iter::repeat_n(filling, spec.width.saturating_sub(text.len())));
    out.extend_from_slice(text);
}

/// Expands one conversion.
fn convert(spec: Spec, date: &Civil, out: &mut Vec<u8>) {
    if let Some((value, digits, is_blank)) = number(spec.conversion, date) {
        let padding = spec.pad.unwrap_or(if is_blank { b'_' } else { b'0' });
        let text = match padding {
            b'-' => value.to_string(),
            b'_' => format!("{value:digits$}"),
            _ => format!("{value:0width$}", width = digits.max(spec.width)),
        };
        return pad(text.as_bytes(), Spec { pad: None, ..spec }, out);
    }
    let text = text(spec.conversion, date);
    let text = match spec.conversion {
        b'p' | b'P' if spec.is_swapped => text.to_lowercase(),
        b'P' => text,
        b'a' | b'A' | b'b' | b'B' | b'h' if spec.is_swapped => text.to_uppercase(),
        _ if spec.is_upper => text.to_uppercase(),
        _ => text,
    };
    pad(text.as_bytes(), spec, out);
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
