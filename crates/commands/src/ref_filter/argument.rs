//! Arguments of atoms, and messages about wrong ones.

use crate::call::fatal::Fatal;

/// Splits at the colon; an empty argument counts as none.
pub fn split_argument(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == b':') {
        Some(at) => (&text[..at], Some(&text[at + 1..]).filter(|argument| !argument.is_empty())),
        None => (text, None),
    }
}

/// A number in C syntax, in 32 bits.
pub fn number(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim_ascii_start();
    text.parse::<i32>().ok().map(i64::from)
}

pub fn unrecognized(name: &str, argument: &[u8]) -> Fatal {
    fatal(&format!("unrecognized %({name}) argument: "), argument)
}

pub fn fatal(text: &str, bytes: &[u8]) -> Fatal {
    Fatal::new(format!("{text}{}", String::from_utf8_lossy(bytes)))
}
