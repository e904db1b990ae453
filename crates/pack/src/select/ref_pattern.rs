//! Groups refs by their names: delta islands and pseudo-merges.

use regex::bytes::{Regex, RegexBuilder};

/// The longest compiled form of one expression.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// The most captures that form a group's name.
const MAX_CAPTURES: usize = 14;

/// An extended regular expression, anchored at the start of a ref name.
#[derive(Debug, Clone)]
pub struct RefPattern(Regex);

impl RefPattern {
    /// Parses an expression; the error is a message for users.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let anchored = format!("^(?:{})", String::from_utf8_lossy(text));
        let built = RegexBuilder::new(&anchored).unicode(false).size_limit(MAX_REGEX_BYTES).build();
        built.map(RefPattern).map_err(|error| error.to_string())
    }

    /// The captures of the expression, if it matches the name of a ref.
    pub fn group_of(&self, name: &[u8]) -> Option<Vec<u8>> {
        let captures = self.0.captures(name)?;
        let caught = captures.iter().skip(1).take(MAX_CAPTURES).flatten();
        Some(caught.map(|capture| capture.as_bytes()).collect::<Vec<_>>().join(&b'-'))
    }
}
