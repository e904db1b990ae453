//! Attributes that pathspecs ask for: `:(attr:…)` (gitglossary, "pathspec").

use super::PathError;

/// The state of one attribute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum AttributeState {
    #[default]
    Unspecified,
    Set,
    Unset,
    Value(Vec<u8>),
}

/// Looks up the attributes of paths.
pub(crate) trait PathAttributes: std::fmt::Debug {
    /// Whether a path has all of these attributes. If they cannot be read, it has none, and there is a problem.
    fn have(&self, path: &[u8], is_dir: bool, conditions: &[Condition]) -> bool;

    /// Why attributes could not be read.
    fn take_problem(&self) -> Option<PathError>;
}

/// What the attribute of a path must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) name: String,
    pub(crate) state: AttributeState,
}

impl Condition {
    /// Parses conditions, of which each begins after a space.
    pub(super) fn parse_all(text: &[u8]) -> Result<Vec<Self>, PathError> {
        if text.is_empty() {
            return Err(PathError::Spec("attr spec must not be empty".to_owned()));
        }
        text.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).map(Condition::parse).collect()
    }

    fn parse(word: &[u8]) -> Result<Self, PathError> {
        let (name, state) = match word {
            [b'!', name @ ..] => (name, AttributeState::Unspecified),
            [b'-', name @ ..] => (name, AttributeState::Unset),
            word => match word.iter().position(|byte| *byte == b'=') {
                None => (word, AttributeState::Set),
                Some(at) => (&word[..at], AttributeState::Value(value(&word[at + 1..])?)),
            },
        };
        let shown = String::from_utf8_lossy(name).into_owned();
        match is_attribute_name(name) {
            true => Ok(Condition { name: shown, state }),
            false => Err(PathError::Spec(format!("invalid attribute name {shown}"))),
        }
    }
}

/// Whether git allows this name of an attribute.
pub(crate) fn is_attribute_name(name: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    !name.is_empty() && !name.starts_with(b"-") && name.iter().all(is_part)
}

/// A value without backslashes before its characters.
fn value(text: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut value = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(mut byte) = rest.next() {
        if *byte == b'\\' {
            let none = || "Escape character '\\' not allowed as last character in attr value".to_owned();
            byte = rest.next().ok_or_else(|| PathError::Spec(none()))?;
        }
        if !byte.is_ascii_alphanumeric() && !b",-_".contains(byte) {
            let shown = char::from(*byte);
            return Err(PathError::Spec(format!("cannot use '{shown}' for value matching")));
        }
        value.push(*byte);
    }
    Ok(value)
}
