//! Numbers on the command line, as git reads them since 2.50: k, m and g multiply.

use std::fmt;
use std::ops::RangeInclusive;

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
    let number = multiplied(text).ok_or(NumberError::NotInteger)?;
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
    multiplied(text).and_then(|number| u64::try_from(number).ok()).ok_or(NumberError::NotUnsigned)
}

fn multiplied(text: &str) -> Option<i128> {
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1i128),
    };
    digits.parse::<i128>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        assert_eq!(integer("12"), Ok(12));
        assert_eq!(integer("-1"), Ok(-1));
        assert_eq!(integer("2k"), Ok(2048));
        assert_eq!(integer("1G"), Ok(1 << 30));
        assert_eq!(integer("2147483647"), Ok(i64::from(i32::MAX)));
        for text in ["x", "k", "1t", "1.5", "1kk", "ä"] {
            assert_eq!(integer(text), Err(NumberError::NotInteger), "{text}");
        }
        assert_eq!(integer(""), Err(NumberError::Empty));
        assert_eq!(
            integer("2g").unwrap_err().message("window"),
            "value 2g for option `window' not in range [-2147483648,2147483647]"
        );
    }

    #[test]
    fn numbers_of_bytes() {
        assert_eq!(bytes("3g"), Ok(3 << 30));
        for text in ["-1", "x", "1 k", "18446744073709551616", "9223372036854775807g"] {
            assert_eq!(bytes(text), Err(NumberError::NotUnsigned), "{text}");
        }
    }
}
