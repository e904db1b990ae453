//! Severities and their settings (git-index-pack, `--strict`; git-config, `fsck.<msg-id>`).

use super::message::{MessageId, Severity};

/// The default maximum length of a tree entry's name, in bytes.
const MAX_NAME_BYTES: usize = 4096;

/// An invalid setting; the texts are git's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// The message does not exist.
    #[error("Unhandled message id: {0}")]
    UnknownMessage(String),
    /// The severity does not exist, or cannot be set.
    #[error("Unknown fsck message type: '{0}'")]
    UnknownSeverity(String),
    /// Objects with such headers are always rejected.
    #[error("Cannot demote {id} to {severity}")]
    CannotDemote {
        /// The message.
        id: String,
        /// The requested severity.
        severity: String,
    },
    /// A setting without a value.
    #[error("Missing '=': '{0}'")]
    NoValue(String),
    /// The number after `largePathname=<severity>:` is invalid.
    #[error("unable to parse max tree entry len: {0}")]
    NoLength(String),
}

/// The severity of each message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Severities {
    by_id: [Severity; MessageId::COUNT],
    is_strict: bool,
    max_name_bytes: usize,
}

impl Severities {
    /// Git's defaults for `git fsck`.
    pub fn lenient() -> Self {
        Self::new(false)
    }

    /// Git's defaults for received objects, and for `git fsck --strict`: warnings become errors, and
    /// group-writable files (`100664`) are reported.
    pub fn strict() -> Self {
        Self::new(true)
    }

    fn new(is_strict: bool) -> Self {
        let mut by_id = [Severity::Ignore; MessageId::COUNT];
        for id in MessageId::all() {
            by_id[id as usize] = match id.default_severity() {
                Severity::Warn if is_strict => Severity::Error,
                severity => severity,
            };
        }
        Severities { by_id, is_strict, max_name_bytes: MAX_NAME_BYTES }
    }

    /// Whether these started as [`Severities::strict`].
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// The severity of this message.
    pub fn of(&self, id: MessageId) -> Severity {
        self.by_id[id as usize]
    }

    /// The longest tree entry name that is not `largePathname`.
    pub fn max_name_bytes(&self) -> usize {
        self.max_name_bytes
    }

    /// Applies `<msg-id>=<severity>`; for `largePathname`, a maximum length may follow the severity
    /// (`warn:10`).
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), SettingError> {
        let id = MessageId::from_name(name)
            .ok_or_else(|| SettingError::UnknownMessage(text(&name.to_ascii_lowercase())))?;
        let mut word = value;
        if id == MessageId::LargePathname
            && let Some(colon) = value.iter().position(|byte| *byte == b':')
        {
            let length = &value[colon + 1..];
            self.max_name_bytes = parse_length(length).ok_or(SettingError::NoLength(text(length)))?;
            word = &value[..colon];
        }
        let severity = match word {
            b"error" => Severity::Error,
            b"warn" => Severity::Warn,
            b"ignore" => Severity::Ignore,
            _ => return Err(SettingError::UnknownSeverity(text(word))),
        };
        if id.default_severity() == Severity::Fatal && severity != Severity::Error {
            let id = text(&name.to_ascii_lowercase());
            return Err(SettingError::CannotDemote { id, severity: text(word) });
        }
        self.by_id[id as usize] = severity;
        Ok(())
    }

    /// Applies the value of `--strict=`: settings separated by commas, spaces or bars, with `=` or `:` after
    /// the name. Returns the paths of `skipList`, because nothing here reads files.
    pub fn set_all<'a>(&mut self, settings: &'a [u8]) -> Result<Vec<&'a [u8]>, SettingError> {
        let mut skip_lists = Vec::new();
        let words = settings.split(|byte| matches!(byte, b',' | b' ' | b'|'));
        for setting in words.filter(|word| !word.is_empty()) {
            let Some(at) = setting.iter().position(|byte| matches!(byte, b'=' | b':')) else {
                return Err(SettingError::NoValue(text(&setting.to_ascii_lowercase())));
            };
            let (name, value) = (&setting[..at], &setting[at + 1..]);
            match name.eq_ignore_ascii_case(b"skiplist") {
                true => skip_lists.push(value),
                false => self.set(name, value)?,
            }
        }
        Ok(skip_lists)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A number with one of git's units; a negative one means no limit.
fn parse_length(text: &[u8]) -> Option<usize> {
    let (digits, unit) = match text.split_last()? {
        (b'k' | b'K', rest) => (rest, 1 << 10),
        (b'm' | b'M', rest) => (rest, 1 << 20),
        (b'g' | b'G', rest) => (rest, 1 << 30),
        _ => (text, 1),
    };
    let number: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let length = i32::try_from(number.checked_mul(unit)?).ok()?;
    Some(usize::try_from(length).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(settings: &str, expect: &str) {
        let got = Severities::strict().set_all(settings.as_bytes()).map(|_| ()).map_err(|e| e.to_string());
        let expect = if expect.is_empty() { Ok(()) } else { Err(expect.to_owned()) };
        assert_eq!(got, expect, "{settings}");
    }

    /// What `git index-pack --strict=` 2.47 prints for each.
    #[test]
    fn settings_in_gits_words() {
        for good in [
            "",
            ",badDate=warn",
            "badDate:warn",
            "badDate=warn,,badEmail=warn",
            "badDate=warn badEmail=ignore",
            "|badDate=warn",
            "BADDATE=error",
            "nulInHeader=error",
            "largePathname=warn:10",
            "largePathname:warn:10k",
            "largePathname=error:-1",
            "largePathname=ignore:3",
            "SKIPLIST:/dev/null",
        ] {
            check(good, "");
        }
        check("=", "Unhandled message id: ");
        check("badDate=warn|x=y", "Unhandled message id: x");
        check("bad-Date=ignore", "Unhandled message id: bad-date");
        check("badDate", "Missing '=': 'baddate'");
        check("badDate =warn", "Missing '=': 'baddate'");
        check("badDate= warn", "Unknown fsck message type: ''");
        check("badDate=info", "Unknown fsck message type: 'info'");
        check("badDate=WARN", "Unknown fsck message type: 'WARN'");
        check("nulInHeader=fatal", "Unknown fsck message type: 'fatal'");
        check("badDate=ignore=1", "Unknown fsck message type: 'ignore=1'");
        check("badDate=warn:10", "Unknown fsck message type: 'warn:10'");
        check("largePathname=bad:1", "Unknown fsck message type: 'bad'");
        check("largePathname=warn:x", "unable to parse max tree entry len: x");
        check("largePathname=warn:", "unable to parse max tree entry len: ");
        check("nulInHeader=warn", "Cannot demote nulinheader to warn");
        check("unterminatedHeader=ignore", "Cannot demote unterminatedheader to ignore");
    }

    #[test]
    fn strictness_and_what_is_set_on_top() {
        let (lenient, mut strict) = (Severities::lenient(), Severities::strict());
        assert_eq!(lenient.of(MessageId::HasDot), Severity::Warn);
        assert_eq!(strict.of(MessageId::HasDot), Severity::Error);
        assert_eq!(strict.of(MessageId::BadFilemode), Severity::Info);
        assert_eq!(strict.max_name_bytes(), 4096);
        let paths = strict.set_all(b"hasdot=warn,skipList=a,largePathname=warn:10,skiplist=b").unwrap();
        assert_eq!(paths, [b"a", b"b"]);
        assert_eq!(strict.of(MessageId::HasDot), Severity::Warn);
        assert_eq!(strict.max_name_bytes(), 10);
    }
}
