//! Selects events.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::access::Pattern;

/// Fields that only the administrator may see.
const HIDDEN: [&str; 3] = ["peer", "door", "session"];

/// Removes the fields that readers must not see.
pub(crate) fn hide_from_readers(event: &mut Map<String, Value>) {
    HIDDEN.iter().for_each(|key| drop(event.remove(*key)));
}

/// Patterns of repositories; without any, all match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryFilter {
    patterns: Vec<Pattern>,
}

/// The fields of a line that filters use.
#[derive(Debug, Deserialize)]
pub(crate) struct LineRepositories<'a> {
    #[serde(borrow)]
    pub(crate) repository: Cow<'a, str>,
    /// The new name.
    #[serde(borrow, default)]
    pub(crate) to: Option<Cow<'a, str>>,
}

impl<'a> LineRepositories<'a> {
    /// Parses a line of the journal; `None` if it is invalid.
    pub(crate) fn of(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// The names before and after the event.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        [Some(&self.repository), self.to.as_ref()].into_iter().flatten().map(|name| name.as_bytes())
    }
}

impl RepositoryFilter {
    /// Patterns as in access rules: `*` stops at slashes, `**` does not, and `.git` at the end is optional.
    pub fn new(patterns: &[impl AsRef<str>]) -> Result<Self, String> {
        let patterns =
            patterns.iter().map(|text| Pattern::of_repositories(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(RepositoryFilter { patterns })
    }

    /// Whether a line of the journal is about one of these repositories.
    pub fn matches_line(&self, line: &[u8]) -> bool {
        if self.patterns.is_empty() {
            return true;
        }
        let Some(line) = LineRepositories::of(line) else { return false };
        line.names().any(|name| self.patterns.iter().any(|pattern| pattern.matches_repository(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_about_its_repositories() {
        let check = |patterns: &[&str], line: &str, expect: bool| {
            let filter = RepositoryFilter::new(patterns).unwrap();
            assert_eq!(filter.matches_line(line.as_bytes()), expect, "{patterns:?} {line}");
        };
        let push = r#"{"seq":1,"repository":"team/a\"b.git","refs":[]}"#;
        check(&[], push, true);
        check(&["team/*"], push, true);
        check(&["team/a\"b"], push, true);
        check(&["other", "*"], push, false);
        check(&["b"], r#"{"seq":1,"repository":"a.git","to":"b.git"}"#, true);
        check(&["**"], "nonsense", false);
        assert!(RepositoryFilter::new(&["/a"]).is_err());
    }
}
