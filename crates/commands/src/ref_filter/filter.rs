//! Ref patterns of git-for-each-ref.

use gix_glob::wildmatch;

/// Patterns; a ref's name must match one of them.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    patterns: Vec<Vec<u8>>,
    folds_case: bool,
}

impl Patterns {
    pub fn new(patterns: &[Vec<u8>], folds_case: bool) -> Self {
        Patterns { patterns: patterns.to_vec(), folds_case }
    }

    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a pattern matches: the whole name, a prefix up to a slash, or by wildcards.
    pub fn match_name(&self, name: &[u8]) -> bool {
        self.patterns.iter().any(|pattern| self.is_match(pattern, name))
    }

    fn is_match(&self, pattern: &[u8], name: &[u8]) -> bool {
        if let Some(rest) = name.strip_prefix(pattern)
            && !pattern.is_empty()
            && (rest.is_empty() || rest[0] == b'/' || pattern.ends_with(b"/"))
        {
            return true;
        }
        let mut mode = wildmatch::Mode::NO_MATCH_SLASH_LITERAL;
        if self.folds_case {
            mode |= wildmatch::Mode::IGNORE_CASE;
        }
        (self.folds_case || literal_len(pattern) < pattern.len())
            && gix_glob::wildmatch(pattern.into(), name.into(), mode)
    }

    /// Prefixes of all names that can match: sorted, none a prefix of another. One empty prefix if all names
    /// can match.
    pub fn prefixes(&self) -> Vec<Vec<u8>> {
        if self.patterns.is_empty() || self.folds_case {
            return vec![Vec::new()];
        }
        let mut all: Vec<&[u8]> =
            self.patterns.iter().map(|pattern| &pattern[..literal_len(pattern)]).collect();
        all.sort_unstable();
        let mut found: Vec<Vec<u8>> = Vec::new();
        for prefix in all {
            if !found.last().is_some_and(|last| prefix.starts_with(last)) {
                found.push(prefix.to_vec());
            }
        }
        found
    }
}

/// The length of a pattern before its first wildcard.
fn literal_len(pattern: &[u8]) -> usize {
    pattern.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\')).unwrap_or(pattern.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |pattern: &str, name: &str, folds_case, expect| {
            let patterns = Patterns::new(&[pattern.as_bytes().to_vec()], folds_case);
            assert_eq!(patterns.match_name(name.as_bytes()), expect, "{pattern} {name}");
            if expect {
                let mut prefixes = patterns.prefixes().into_iter();
                assert!(prefixes.any(|prefix| name.as_bytes().starts_with(&prefix)), "{pattern} {name}");
            }
        };
        check("refs/heads", "refs/heads/main", false, true);
        check("refs/heads/", "refs/heads/main", false, true);
        check("refs/heads/main", "refs/heads/main", false, true);
        check("refs/heads/main/", "refs/heads/main", false, false);
        check("refs/hea", "refs/heads/main", false, false);
        check("refs/*", "refs/heads/main", false, false);
        check("refs/*/main", "refs/heads/main", false, true);
        check("refs/**", "refs/heads/main", false, true);
        check("**/main", "refs/heads/main", false, true);
        check("refs/heads/[a-n]*", "refs/heads/main", false, true);
        check("refs/heads/m\\ain", "refs/heads/main", false, true);
        check("refs/heads/MAIN", "refs/heads/main", false, false);
        check("refs/heads/MAIN", "refs/heads/main", true, true);
        check("REFS", "refs/heads/main", true, false);
        check("", "refs/heads/main", false, false);
    }

    #[test]
    fn prefixes_do_not_overlap() {
        let check = |patterns: &[&str], expect: &[&str]| {
            let patterns: Vec<Vec<u8>> = patterns.iter().map(|text| text.as_bytes().to_vec()).collect();
            let expect: Vec<Vec<u8>> = expect.iter().map(|text| text.as_bytes().to_vec()).collect();
            assert_eq!(Patterns::new(&patterns, false).prefixes(), expect, "{patterns:?}");
        };
        check(&[], &[""]);
        check(&["refs/tags/v*", "refs/heads"], &["refs/heads", "refs/tags/v"]);
        check(&["refs/tags/v1", "refs/tags", "refs/tags*"], &["refs/tags"]);
        check(&["*", "refs"], &[""]);
    }
}
