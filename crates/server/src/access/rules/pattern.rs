//! Patterns of paths and of ref names: those of `.gitignore`, without its rules about leading slashes.

use gix_glob::wildmatch;
use gix_glob::wildmatch::Mode;

/// The most wildcards in one pattern.
const MAX_WILDCARDS: usize = 16;

/// A pattern: `*` and `?` stop at slashes, `**` does not, `[…]` is a class, and a slash at the end matches
/// all below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: Vec<u8>,
    /// How many bytes at its start match literally.
    literal: usize,
}

impl Pattern {
    /// A pattern of repository paths.
    pub(crate) fn of_repositories(text: &str) -> Result<Self, String> {
        match text.starts_with('/') {
            true => Err(format!("'{text}' starts with a slash: paths are relative to the served folder")),
            false => Pattern::new(text),
        }
    }

    /// A pattern of full ref names.
    pub(crate) fn of_refs(text: &str) -> Result<Self, String> {
        match text.starts_with("refs/") || text.starts_with("**") {
            true => Pattern::new(text),
            false => Err(format!("'{text}' is not a ref pattern: full ref names start with refs/")),
        }
    }

    fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains('\0') {
            return Err("pattern is empty or has a NUL".to_owned());
        }
        let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
        let mut bytes = text.as_bytes().to_vec();
        if bytes.iter().filter(|byte| is_special(byte)).count() > MAX_WILDCARDS {
            return Err(format!("'{text}' has more than {MAX_WILDCARDS} wildcards"));
        }
        if bytes.ends_with(b"/") {
            bytes.extend_from_slice(b"**");
        }
        let literal = bytes.iter().position(is_special).unwrap_or(bytes.len());
        Ok(Pattern { text: bytes, literal })
    }

    /// The bytes that every match begins with.
    pub(super) fn literal(&self) -> &[u8] {
        &self.text[..self.literal]
    }

    /// Whether it matches a name.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        match self.literal == self.text.len() {
            true => self.text == name,
            false => wildmatch(self.text.as_slice().into(), name.into(), Mode::NO_MATCH_SLASH_LITERAL),
        }
    }

    /// Whether it matches the path of a repository, with or without `.git` at its end.
    pub(crate) fn matches_repository(&self, path: &[u8]) -> bool {
        self.matches(path) || path.strip_suffix(b".git").is_some_and(|path| self.matches(path))
    }
}
