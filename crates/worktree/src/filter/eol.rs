//! Line endings (gitattributes, "End-of-line conversion"; git-config, `core.autocrlf`, `core.eol`, `core.safecrlf`).

use std::borrow::Cow;

use gix_filter::eol::{AttributesDigest, Configuration, Stats};

use super::attributes::Asked;
use crate::paths::AttributeState;

/// How to handle content that would not survive a round trip (`core.safecrlf`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Safety {
    Ignored,
    Warned,
    Refused,
}

/// Content that a checkout would not restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changes {
    LfToCrlf,
    CrlfToLf,
}

impl Changes {
    pub(super) fn warning(self, path: &str) -> String {
        let (from, to) = self.words();
        format!(
            "warning: in the working copy of '{path}', {from} will be replaced by {to} the next time Git touches it"
        )
    }

    pub(super) fn refusal(self, path: &str) -> String {
        let (from, to) = self.words();
        format!("{from} would be replaced by {to} in {path}")
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Changes::LfToCrlf => ("LF", "CRLF"),
            Changes::CrlfToLf => ("CRLF", "LF"),
        }
    }
}

/// How to convert a path's line endings.
pub(super) fn digest(asked: &Asked, config: Configuration) -> AttributesDigest {
    use AttributesDigest::{Binary, Text, TextAuto, TextAutoCrlf, TextAutoInput, TextCrlf, TextInput};
    let of = |state: &AttributeState| match state {
        AttributeState::Set => Some(Text),
        AttributeState::Unset => Some(Binary),
        AttributeState::Value(value) if value == b"input" => Some(TextInput),
        AttributeState::Value(value) if value == b"auto" => Some(TextAuto),
        AttributeState::Unspecified | AttributeState::Value(_) => None,
    };
    let by_text = of(&asked.text).or_else(|| of(&asked.crlf));
    let eol = match &asked.eol {
        AttributeState::Value(value) if value == b"lf" => Some(TextInput),
        AttributeState::Value(value) if value == b"crlf" => Some(TextCrlf),
        _ => None,
    };
    match (by_text, eol) {
        (Some(Binary), _) => Binary,
        (Some(TextAuto), Some(TextInput)) => TextAutoInput,
        (Some(TextAuto), Some(_)) => TextAutoCrlf,
        (_, Some(eol)) => eol,
        (None, None) => config.auto_crlf.into(),
        (Some(Text), None) => config.to_eol().into(),
        (Some(other), None) => other,
    }
}

/// Converts CRLF to LF if requested. `has_crlf_staged` returns whether the index has text with CRLF at the
/// path, which then stays unchanged unless it is explicitly marked as text.
pub(super) fn to_git<'a, E>(
    content: Cow<'a, [u8]>,
    digest: AttributesDigest,
    config: Configuration,
    has_crlf_staged: impl FnOnce() -> Result<bool, E>,
) -> Result<(Cow<'a, [u8]>, Option<Changes>), E> {
    if digest == AttributesDigest::Binary || content.is_empty() {
        return Ok((content, None));
    }
    let stats = Stats::from_bytes(&content);
    let mut is_converted = stats.crlf > 0;
    if digest.is_auto_text() {
        if stats.is_binary() {
            return Ok((content, None));
        }
        is_converted = is_converted && !has_crlf_staged()?;
    }
    let mut after = stats;
    if is_converted {
        after.lone_lf += after.crlf;
        after.crlf = 0;
    }
    if after.will_convert_lf_to_crlf(digest, config) {
        after.crlf += after.lone_lf;
        after.lone_lf = 0;
    }
    let changes = match () {
        () if stats.crlf > 0 && after.crlf == 0 => Some(Changes::CrlfToLf),
        () if stats.lone_lf > 0 && after.lone_lf == 0 => Some(Changes::LfToCrlf),
        () => None,
    };
    if !is_converted {
        return Ok((content, changes));
    }
    let mut converted = Vec::with_capacity(content.len() - stats.crlf);
    let mut rest = &content[..];
    while let Some(at) = rest.iter().position(|byte| *byte == b'\r') {
        let is_pair = rest.get(at + 1) == Some(&b'\n');
        converted.extend_from_slice(&rest[..at + usize::from(!is_pair)]);
        rest = &rest[at + 1..];
    }
    converted.extend_from_slice(rest);
    Ok((Cow::Owned(converted), changes))
}

/// Converts LF to CRLF if requested.
pub(super) fn to_worktree(
    content: Cow<'_, [u8]>,
    digest: AttributesDigest,
    config: Configuration,
) -> Cow<'_, [u8]> {
    let stats = match digest.to_eol(config) {
        Some(gix_filter::eol::Mode::CrLf) => Stats::from_bytes(&content),
        _ => return content,
    };
    if !stats.will_convert_lf_to_crlf(digest, config) {
        return content;
    }
    let mut converted = Vec::with_capacity(content.len() + stats.lone_lf);
    let mut before = 0;
    for byte in content.iter() {
        if *byte == b'\n' && before != b'\r' {
            converted.push(b'\r');
        }
        converted.push(*byte);
        before = *byte;
    }
    Cow::Owned(converted)
}

/// Whether a blob is text that contains CRLF.
pub(super) fn is_text_with_crlf(content: &[u8]) -> bool {
    let stats = Stats::from_bytes(content);
    stats.crlf > 0 && !stats.is_binary()
}
