//! The patterns of messages. Git's events of errors have the pattern besides the message, so that readers can group them.
//! Here, messages are made in many places, and the pattern is found again by its words.

use std::borrow::Cow;

/// Git's patterns of messages that are common. `%` and its letters stand for any text, and `*` at the end for the reason
/// that the system gives, which git has in its pattern, too. If two fit a message, the first is git's.
const PATTERNS: &[&str] = &[
    "%s: not a valid SHA1",
    "%s: not a valid old SHA1",
    "%s %s: invalid <new-oid>: %s",
    "%s %s: invalid <old-oid>: %s",
    "packfile name '%s' does not end with '.%s'",
    "unable to parse '%s' from command-line config",
    "update_ref failed for ref '%s': %s",
    "unknown option `%s'",
    "unknown switch `%c'",
    "unknown subcommand: `%s'",
    "missing value for '%s'",
    "failed to read delta base object %s at offset %lu from %s",
    "failed to validate delta base reference at offset %lu from %s",
    "bad boolean environment value '%s' for '%s'",
    "bad boolean config value '%s' for '%s'",
    "bad numeric config value '%s' for '%s' in file %s: %s",
    "bad numeric config value '%s' for '%s': %s",
    "bad config variable '%s' in file '%s' at line %d",
    "object %s is a %s, not a %s",
    "packfile %s index unavailable",
    "pathspec '%s' did not match any file(s) known to git",
    "pathspec '%s' did not match any files",
    "pathspec '%s' is beyond a symbolic link",
    "invalid date format: %s",
    "bad revision '%s'",
    "could not open '%s' for reading: *",
    "cannot change to '%s': *",
    "cannot exec '%s': *",
    "unable to create '%s': *",
    "not a git repository: '%s'",
    "%s expects an integer value with an optional k/m/g suffix",
    "%s expects a non-negative integer value with an optional k/m/g suffix",
    "option `%s' expects a numerical value",
    "Cannot open existing pack file '%s'",
    "Cannot open existing pack idx file for '%s'",
    "%s does not point to a valid object!",
    "in '%s' phase, update aborted by the reference-transaction hook",
    "cache entry has null sha1: %s",
    "short object ID %s is ambiguous",
    "options '%s' and '%s' cannot be used together",
    "option '%s' can only be used along with '%s'",
    "the option '%s' requires '%s'",
    "%s is not a valid reference",
    "'%s' - not a valid ref",
    "external filter '%s' failed %d",
    "external filter '%s' failed",
    "%s: clean filter '%s' failed",
    "adding embedded git repository: %s",
    "unknown date format %s",
    "value %s for %s not in range [%ld,%ld]",
    "could not find pack '%s'",
    "No such ref: %s",
    "ref %s is not a symbolic ref",
    "'%s' does not appear to be a git repository",
    "unknown hash algorithm '%s'",
    "not a valid object name %s",
    "malformed object name '%s'",
    "malformed object name %s",
    "log for '%.*s' only has %d entries",
    "log for '%.*s' only goes back to %s",
    "reflog could not be found: '%s'",
    "unknown ref storage format '%s'",
    "'%s' is not a stash-like commit",
    "unable to index file '%s'",
    "could not fetch %s from promisor remote",
    "git upload-pack: not our ref %s",
    "%s requires a value",
    "%s takes no value",
    "bad object %s",
    "invalid refspec '%s'",
    "unexpected line in %s: %.*s",
    "unknown command: %s",
    "delta chain depth %d is too deep, forcing %d",
    "in the working copy of '%s', CRLF will be replaced by LF the next time Git touches it",
    "in the working copy of '%s', LF will be replaced by CRLF the next time Git touches it",
];

/// The pattern of a message; the message itself if none is known.
pub(super) fn pattern_of(message: &str) -> Cow<'_, str> {
    let known = PATTERNS.iter().find_map(|pattern| fitting(pattern, message));
    known.map_or(Cow::Borrowed(message), Cow::Owned)
}

/// The pattern, if the message has its words in their order.
fn fitting(pattern: &str, message: &str) -> Option<String> {
    let (front, has_reason) = pattern.strip_suffix('*').map_or((pattern, false), |front| (front, true));
    let words = fixed_words(front);
    let (first, others) = words.split_first()?;
    let (last, inner) = others.split_last()?;
    let mut rest = message.strip_prefix(*first)?;
    for next in inner {
        (_, rest) = rest.split_once(*next)?;
    }
    match has_reason {
        true => rest.split_once(*last).map(|(_, reason)| format!("{front}{reason}")),
        false => rest.ends_with(*last).then(|| pattern.to_owned()),
    }
}

/// What is around the parts of a pattern that stand for any text.
fn fixed_words(pattern: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = pattern;
    while let Some((words, after)) = rest.split_once('%') {
        found.push(words);
        rest = after.trim_start_matches(['.', '*', 'l']).get(1..).unwrap_or_default();
    }
    found.push(rest);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_messages() {
        for (message, expect) in [
            ("zzz: not a valid SHA1", "%s: not a valid SHA1"),
            ("a: b: not a valid SHA1", "%s: not a valid SHA1"),
            ("not a valid SHA1", "not a valid SHA1"),
            ("bad revision 'it's'", "bad revision '%s'"),
            ("bad revision 'it's", "bad revision 'it's"),
            ("log for 'a b' only has 4 entries", "log for '%.*s' only has %d entries"),
            ("value 300 for option `x' not in range [-1,1]", "value %s for %s not in range [%ld,%ld]"),
            ("external filter 'f' failed 1", "external filter '%s' failed %d"),
            ("external filter 'f' failed", "external filter '%s' failed"),
            ("cannot exec 'a': Permission denied", "cannot exec '%s': Permission denied"),
            ("Could not read from remote repository.", "Could not read from remote repository."),
            ("unknown ref storage format 'x'", "unknown ref storage format '%s'"),
            ("", ""),
        ] {
            assert_eq!(pattern_of(message), expect, "{message}");
        }
    }

    #[test]
    fn each_fits_its_own_messages_only() {
        for pattern in PATTERNS {
            let (front, reason) = pattern.strip_suffix('*').map_or((*pattern, ""), |front| (front, "why"));
            let message = format!("{}{reason}", fixed_words(front).join("x"));
            assert_eq!(pattern_of(&message), format!("{front}{reason}"), "{message}");
        }
    }
}
