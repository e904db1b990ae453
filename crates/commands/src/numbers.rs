//! Numbers on the command line, as git reads them since 2.50: as in C (`0x10`, `010`, `+8`), and k, m and g multiply.

use std::fmt;
use std::num::IntErrorKind;
use std::ops::RangeInclusive;

/// What may stand before a number.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\x0b', '\x0c', '\r'];

/// Why an argument is no such number. Git's words follow the name of the option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NumberError {
    /// There is nothing.
    Empty,
    /// It is no integer.
    NotInteger,
    /// It is no integer, or a negative one.
    NotUnsigned,
    /// Git could not store it.
    OutOfRange {
        /// What was typed.
        text: String,
        /// What could be stored.
        range: RangeInclusive<i64>,
    },
}

impl NumberError {
    /// The message about the value of this option.
    pub fn message(&self, option: &str) -> String {
        match self {
            NumberError::Empty => format!("option `{option}' expects a numerical value"),
            NumberError::NotInteger => {
                format!("option `{option}' expects an integer value with an optional k/m/g suffix")
            }
            NumberError::NotUnsigned => {
                format!(
                    "option `{option}' expects a non-negative integer value with an optional k/m/g suffix"
                )
            }
            NumberError::OutOfRange { text, range } => {
                format!("value {text} for option `{option}' not in range [{},{}]", range.start(), range.end())
            }
        }
    }
}

impl fmt::Display for NumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message(""))
    }
}

impl std::error::Error for NumberError {}

/// A number of 32 bits.
pub fn integer(text: &str) -> Result<i64, NumberError> {
    if text.is_empty() {
        return Err(NumberError::Empty);
    }
    let number = multiplied(text, i64::MAX.into()).ok_or(NumberError::NotInteger)?;
    let range = i64::from(i32::MIN)..=i64::from(i32::MAX);
    match i64::try_from(number).ok().filter(|number| range.contains(number)) {
        Some(number) => Ok(number),
        None => Err(NumberError::OutOfRange { text: text.to_owned(), range }),
    }
}

/// A number of bytes.
pub fn bytes(text: &str) -> Result<u64, NumberError> {
    if text.is_empty() {
        return Err(NumberError::Empty);
    }
    let number = multiplied(text, u64::MAX.into()).filter(|_| !text.contains('-'));
    // Git shows the upper end as a signed number.
    let out_of_range =
        |_| NumberError::OutOfRange { text: text.to_owned(), range: RangeInclusive::new(0, -1) };
    u64::try_from(number.ok_or(NumberError::NotUnsigned)?).map_err(out_of_range)
}

/// A decimal number without a unit.
pub fn decimal(text: &str) -> Result<i64, NumberError> {
    let digits = text.trim_start_matches(BLANKS);
    match digits.parse::<i64>() {
        Ok(number) => Ok(number),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Ok(i64::MAX),
        Err(_) => Err(NumberError::Empty),
    }
}

/// An integer as C reads it, and a unit. Of a number above `max` the unit does not matter, as in git.
fn multiplied(text: &str, max: i128) -> Option<i128> {
    let signed = text.trim_start_matches(BLANKS);
    let unsigned = signed.strip_prefix(['-', '+']).unwrap_or(signed);
    let (digits, radix) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&unsigned[2..], 16),
        [b'0', ..] => (unsigned, 8),
        _ => (unsigned, 10),
    };
    let unit = digits.trim_start_matches(|digit: char| digit.is_digit(radix));
    let digits = digits.strip_suffix(unit).filter(|digits| !digits.is_empty())?;
    let number = i128::from_str_radix(digits, radix).unwrap_or(i128::MAX);
    let factor = match unit {
        _ if number > max || unit.is_empty() => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    let number = number.saturating_mul(factor);
    Some(if signed.starts_with('-') { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        for (text, number) in [
            ("12", 12),
            ("-1", -1),
            ("2k", 2048),
            ("1G", 1 << 30),
            ("2147483647", i64::from(i32::MAX)),
            ("010", 8),
            ("-0x1", -1),
            ("0X1f", 31),
            ("0x1g", 1 << 30),
            (" \t+2", 2),
            ("-0", 0),
        ] {
            assert_eq!(integer(text), Ok(number), "{text}");
        }
        for text in
            ["x", "k", "1t", "1.5", "1kk", "ä", "08", "0x", "0xk", "0xg", "--1", "+-1", "2 ", " ", "0b1"]
        {
            assert_eq!(integer(text), Err(NumberError::NotInteger), "{text}");
        }
        assert_eq!(integer(""), Err(NumberError::Empty));
        for text in ["2g", "-3g", "99999999999999999999x", "0x80000000"] {
            assert_eq!(
                integer(text).unwrap_err().message("window"),
                format!("value {text} for option `window' not in range [-2147483648,2147483647]")
            );
        }
    }

    #[test]
    fn numbers_of_bytes() {
        assert_eq!(bytes("3g"), Ok(3 << 30));
        assert_eq!(bytes("0x10"), Ok(16));
        assert_eq!(bytes("17179869183g"), Ok(17_179_869_183 << 30));
        for text in ["-1", "-0", "x", "1 k"] {
            assert_eq!(bytes(text), Err(NumberError::NotUnsigned), "{text}");
        }
        for text in ["18446744073709551616", "17179869184g", "99999999999999999999x"] {
            assert_eq!(
                bytes(text).unwrap_err().message("depth"),
                format!("value {text} for option `depth' not in range [0,-1]")
            );
        }
    }

    #[test]
    fn decimal_numbers() {
        for (text, number) in [("010", 10), (" +7", 7), ("-7", -7), ("99999999999999999999", i64::MAX)] {
            assert_eq!(decimal(text), Ok(number), "{text}");
        }
        for text in ["", "x", "0x10", "7k", "7 "] {
            assert_eq!(decimal(text), Err(NumberError::Empty), "{text}");
        }
    }
}
