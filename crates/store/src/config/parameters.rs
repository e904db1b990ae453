//! The text of `GIT_CONFIG_PARAMETERS`, in which git passes `-c` to child processes.

use crate::error::{Error, Reason};

/// Splits `GIT_CONFIG_PARAMETERS` into overrides for [`crate::ConfigSources`].
///
/// Items are separated by spaces and quoted for a shell: `'name'='value'`, and from older versions
/// `'name=value'`. A name alone means true.
pub fn parse_config_parameters(text: &str) -> Result<Vec<(String, Option<String>)>, Error> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let (first, after) = unquote(rest)?;
        let item = match after.strip_prefix('=') {
            Some(value) if value.is_empty() || value.starts_with(is_space) => {
                rest = value;
                (first, None)
            }
            Some(value) => {
                let (value, after) = unquote(value)?;
                rest = after;
                (first, Some(value))
            }
            None => {
                rest = after;
                match first.split_once('=') {
                    Some((name, value)) if !value.is_empty() => (name.to_owned(), Some(value.to_owned())),
                    Some((name, _)) => (name.to_owned(), None),
                    None => (first, None),
                }
            }
        };
        if !rest.is_empty() && !rest.starts_with(is_space) {
            return Err(bogus());
        }
        rest = rest.trim_start_matches(is_space);
        found.push(item);
    }
    Ok(found)
}

/// The quoted word at the start of `text`, and the rest. A backslash between two quoted parts escapes the
/// next character.
fn unquote(text: &str) -> Result<(String, &str), Error> {
    let mut rest = text.strip_prefix('\'').ok_or_else(bogus)?;
    let mut word = String::new();
    loop {
        let (quoted, after) = rest.split_once('\'').ok_or_else(bogus)?;
        word.push_str(quoted);
        let Some(escaped) = after.strip_prefix('\\') else { return Ok((word, after)) };
        let (character, after) = escaped
            .chars()
            .next()
            .filter(|character| matches!(character, '\'' | '!'))
            .map(|character| (character, &escaped[1..]))
            .ok_or_else(bogus)?;
        word.push(character);
        rest = after.strip_prefix('\'').ok_or_else(bogus)?;
    }
}

fn is_space(character: char) -> bool {
    character.is_ascii_whitespace()
}

fn bogus() -> Error {
    Reason::Config("bogus format in GIT_CONFIG_PARAMETERS".into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&[(&str, Option<&str>)]>) {
        let expect = expect.map(|items| {
            let own = |(name, value): &(&str, Option<&str>)| (name.to_string(), value.map(str::to_owned));
            items.iter().map(own).collect::<Vec<_>>()
        });
        assert_eq!(parse_config_parameters(text).ok(), expect, "{text}");
    }

    #[test]
    fn both_styles() {
        check("", Some(&[]));
        check("'a.b'='c'", Some(&[("a.b", Some("c"))]));
        check("'user.x=1' 'a.q'='' 'b.c' ", Some(&[("user.x", Some("1")), ("a.q", Some("")), ("b.c", None)]));
        check(r"'a.b'='2 q'\''z'\!''", Some(&[("a.b", Some("2 q'z!"))]));
        check("'a=b.c'='d'", Some(&[("a=b.c", Some("d"))]));
    }

    #[test]
    fn bogus_texts() {
        for text in ["a.b=c", "'a.b", "'a.b'x", "'a.b'='c", r"'a.b'\x'c'", "'a.b''c'", r"'a'\", "'a.b'=c"] {
            check(text, None);
        }
    }
}
