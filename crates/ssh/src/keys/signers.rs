//! Lines of a user key file: the allowed signers format of `ssh-keygen` (ssh-keygen(1)).
//!
//! ```text
//! # NAME [OPTIONS] KIND KEY [COMMENT]
//! alice ssh-ed25519 AAAAC3… alice@laptop
//! bob valid-before="20270101Z" ecdsa-sha2-nistp256 AAAAE2…
//! ```
//!
//! A name is a single user, not a list or pattern. The supported options are `valid-after` and
//! `valid-before`, in UTC; others are refused.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::UserKey;

/// Longest user name.
const MAX_NAME_BYTES: usize = 255;

/// A line with a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SignerLine<'a> {
    pub(super) name: &'a str,
    pub(super) validity: Validity,
    pub(super) key: UserKey,
}

/// When a key is valid, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) after: i64,
    pub(super) before: i64,
}

impl Validity {
    pub(super) const ALWAYS: Validity = Validity { after: i64::MIN, before: i64::MAX };

    pub(super) fn holds(&self, now: i64) -> bool {
        self.after <= now && now < self.before
    }
}

/// Whether this is a valid user name, or why not.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_bad =
        |letter: char| letter.is_control() || letter.is_whitespace() || "\",!*?:/\\".contains(letter);
    match name {
        "" => Err("user name is empty".to_owned()),
        _ if name.len() > MAX_NAME_BYTES => Err(format!("user name is longer than {MAX_NAME_BYTES} bytes")),
        _ if name.starts_with(['@', '-']) || name.contains(is_bad) => {
            Err(format!("{name:?} is not a single user name"))
        }
        _ => Ok(()),
    }
}

/// Parses a line; `None` if it has no key.
pub(super) fn parse(line: &str) -> Result<Option<SignerLine<'_>>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, rest) = split_word(line).ok_or("no key after the user name")?;
    check_name(name)?;
    let (validity, key) = match split_word(rest) {
        Some((word, _)) if is_kind(word) => (Validity::ALWAYS, rest),
        _ => {
            let end = options_end(rest).ok_or("no key after the options")?;
            (options(&rest[..end])?, rest[end..].trim_start())
        }
    };
    Ok(Some(SignerLine { name, validity, key: UserKey::parse(key)? }))
}

/// Splits off the first word.
fn split_word(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = text.split_once([' ', '\t'])?;
    Some((word, rest.trim_start()))
}

/// Whether a word is a key kind, not an option.
fn is_kind(word: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-"].iter().any(|beginning| word.starts_with(beginning))
}

/// The end of the options: the first space outside quotes.
fn options_end(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    text.char_indices().find_map(|(at, letter)| {
        is_quoted ^= letter == '"';
        (!is_quoted && (letter == ' ' || letter == '\t')).then_some(at)
    })
}

fn options(text: &str) -> Result<Validity, String> {
    let mut validity = Validity::ALWAYS;
    for option in text.split(',') {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        match name.to_ascii_lowercase().as_str() {
            "valid-after" => validity.after = time(value)?,
            "valid-before" => validity.before = time(value)?,
            _ => return Err(format!("{name:?} is neither a known option nor a key type")),
        }
    }
    Ok(validity)
}

/// Parses `YYYYMMDDZ`, `YYYYMMDDHHMMZ` or `YYYYMMDDHHMMSSZ` to seconds since 1970.
fn time(text: &str) -> Result<i64, String> {
    let bad = || format!("{text:?} is not a time in UTC such as 20270101Z or 202701011200Z");
    let digits = text.strip_suffix('Z').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let digits = digits.ok_or_else(bad)?;
    let whole = match digits.len() {
        8 => format!("{digits}000000"),
        12 => format!("{digits}00"),
        14 => digits.to_owned(),
        _ => return Err(bad()),
    };
    let parsed = DateTime::strptime("%Y%m%d%H%M%S", &whole).map_err(|_| bad())?;
    let zoned = parsed.to_zoned(TimeZone::UTC).map_err(|_| bad())?;
    Ok(zoned.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

    #[track_caller]
    fn check(line: &str, expect: Result<Option<(&str, Validity)>, &str>) {
        let parsed = parse(line);
        let found = parsed.as_ref().map(|line| line.as_ref().map(|line| (line.name, line.validity)));
        assert_eq!(found.map_err(String::as_str), expect, "{line}");
        if let Ok(Some(line)) = &parsed {
            assert_eq!(line.key.line(), KEY);
        }
    }

    #[test]
    fn lines() {
        let always = Validity::ALWAYS;
        check("", Ok(None));
        check("  # alice", Ok(None));
        check(&format!("alice {KEY}"), Ok(Some(("alice", always))));
        check(
            &format!("\talice@example.com  {KEY} laptop of alice\r"),
            Ok(Some(("alice@example.com", always))),
        );
        let until = Validity { before: 1_798_761_600, ..always };
        check(&format!("bob valid-before=\"20270101Z\" {KEY}"), Ok(Some(("bob", until))));
        check(&format!("bob valid-before=20270101000000Z {KEY}"), Ok(Some(("bob", until))));
        let both = Validity { after: 60, before: 86_400 };
        check(
            &format!("bob Valid-After=\"197001010001Z\",valid-before=19700102Z {KEY}"),
            Ok(Some(("bob", both))),
        );
        assert!(both.holds(60) && !both.holds(59) && !both.holds(86_400));
    }

    #[test]
    fn mistakes() {
        let bad_name = |name: &str| format!("{name:?} is not a single user name");
        for name in ["alice,bob", "*", "!alice", "@team", "-x", "a:b", "../a", "a\"b"] {
            check(&format!("{name} {KEY}"), Err(&bad_name(name)));
        }
        check("alice", Err("no key after the user name"));
        check("alice  ", Err("no key after the user name"));
        check("alice cert-authority", Err("no key after the options"));
        let unknown = |name: &str| format!("{name:?} is neither a known option nor a key type");
        check(&format!("alice cert-authority {KEY}"), Err(&unknown("cert-authority")));
        check(&format!("alice namespaces=\"git\" {KEY}"), Err(&unknown("namespaces")));
        check(&format!("a b {KEY}"), Err(&unknown("b")));
        for time in ["2027", "20270101", "20271301Z", "2027010Z", "x", "", "-9990101Z", "２０２７０１Z"]
        {
            let why = format!("{time:?} is not a time in UTC such as 20270101Z or 202701011200Z");
            check(&format!("alice valid-before=\"{time}\" {KEY}"), Err(&why));
        }
        let dsa = "ssh-dss AAAAB3NzaC1kc3M=";
        assert!(parse(&format!("alice {dsa}")).is_err());
        for end in 6..KEY.len() - 1 {
            let line = format!("alice {}", &KEY[..end]);
            assert!(parse(&line).is_err(), "{line}");
        }
    }

    #[test]
    fn no_bytes_are_too_much() {
        let line = format!("bob valid-before=\"20270101Z\" {KEY}");
        for at in 0..line.len() {
            for letter in ["\"", "\u{0}", "=", ",", " ", "ä", ""] {
                let changed = format!("{}{letter}{}", &line[..at], &line[at + 1..]);
                let _ = parse(&changed);
            }
        }
    }
}
