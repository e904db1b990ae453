//! Converts regular expressions to our patterns, if those can express them.

/// The most patterns for one expression.
const MAX_GLOBS: usize = 32;

/// Characters that match themselves in expressions and in patterns.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_/@%:,=~!<>#&;'\" ".contains(c)
}

/// How an expression matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchEnd {
    /// From the beginning to anywhere: refs.
    Anywhere,
    /// The whole name: repositories.
    AtEnd,
}

/// The patterns that match exactly what `regex` matches from the beginning on; `None` if there are none.
pub(super) fn of_regex(regex: &str, end: MatchEnd) -> Option<Vec<String>> {
    let (regex, end) = match regex.strip_suffix('$') {
        Some(whole) if !whole.ends_with('\\') => (whole, MatchEnd::AtEnd),
        _ => (regex, end),
    };
    // The rest of the name does not matter, but it may have to be nonempty.
    let (regex, tail) = match [("..*", true), (".+", true), (".*", false)]
        .into_iter()
        .find_map(|(tail, needs)| Some((regex.strip_suffix(tail)?, needs)))
    {
        Some((before, _)) if before.ends_with('\\') => return None,
        Some((before, true)) => (before, Tail::Something),
        Some((before, false)) => (before, Tail::Anything),
        None if end == MatchEnd::AtEnd => (regex, Tail::Nothing),
        None => (regex, Tail::Anything),
    };
    let globs = sequence(regex)?;
    let with_tail = |glob: String| match (tail, glob.ends_with('/')) {
        (Tail::Nothing, _) => vec![glob],
        (_, true) => vec![format!("{glob}**")],
        (Tail::Anything, false) => vec![format!("{glob}*"), format!("{glob}*/**")],
        (Tail::Something, false) => vec![format!("{glob}?*"), format!("{glob}*/**")],
    };
    let globs: Vec<String> = globs.into_iter().flat_map(with_tail).collect();
    (globs.len() <= MAX_GLOBS).then_some(globs)
}

#[derive(Debug, Clone, Copy)]
enum Tail {
    Nothing,
    Anything,
    Something,
}

/// A sequence of characters, `.`, classes and `(a|b)`, without quantifiers except after `[^/]`.
fn sequence(regex: &str) -> Option<Vec<String>> {
    let mut globs = vec![String::new()];
    let mut rest = regex;
    while let Some(c) = rest.chars().next() {
        let (atoms, length) = atom(c, rest)?;
        rest = &rest[length..];
        globs = globs.iter().flat_map(|glob| atoms.iter().map(move |atom| format!("{glob}{atom}"))).collect();
        if globs.len() > MAX_GLOBS || globs[0].len() > 4096 {
            return None;
        }
    }
    // Two stars would match slashes.
    let is_known = |glob: &String| !glob.contains("**") && !glob.contains("*?*");
    globs.iter().all(is_known).then_some(globs)
}

/// The alternatives for the first element of `rest`, and its length.
fn atom(c: char, rest: &str) -> Option<(Vec<String>, usize)> {
    let one = |text: &str, length| Some((vec![text.to_owned()], length));
    match c {
        // Any character, including a slash.
        '.' if !is_quantified(&rest[1..]) => Some((vec!["?".to_owned(), "/".to_owned()], 1)),
        '\\' => match rest[1..].chars().next()? {
            'd' if !is_quantified(&rest[2..]) => one("[0-9]", 2),
            escaped @ ('.' | '-' | '/' | '_' | '@' | '+') if !is_quantified(&rest[2..]) => {
                one(&escaped.to_string(), 2)
            }
            _ => None,
        },
        '[' => {
            let length = rest.find(']')? + 1;
            let class = &rest[..length];
            if class == "[^/]" {
                return match rest[length..].chars().next() {
                    Some('*') => one("*", length + 1),
                    Some('+') => one("?*", length + 1),
                    Some('?' | '{') => None,
                    _ => one("?", length),
                };
            }
            let inside = &class[1..length - 1];
            let is_class = !inside.is_empty()
                && inside.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
                && is_range(inside);
            (is_class && !is_quantified(&rest[length..])).then(|| (vec![class.to_owned()], length))
        }
        '(' => {
            let length = rest.find(')')? + 1;
            let choices: Vec<String> = rest[1..length - 1].split('|').map(str::to_owned).collect();
            let are_plain = choices.iter().all(|choice| !choice.is_empty() && choice.chars().all(is_plain));
            (are_plain && !is_quantified(&rest[length..])).then_some((choices, length))
        }
        c if is_plain(c) && !is_quantified(&rest[c.len_utf8()..]) => one(&c.to_string(), c.len_utf8()),
        _ => None,
    }
}

fn is_quantified(rest: &str) -> bool {
    rest.starts_with(['*', '+', '?', '{'])
}

/// Whether each `-` in a class is first, last or between two characters of one kind in ascending order.
fn is_range(inside: &str) -> bool {
    let bytes = inside.as_bytes();
    let is_between = |at: usize| {
        let (from, to) = (bytes[at - 1], bytes[at + 1]);
        let kinds: [fn(&u8) -> bool; 3] =
            [u8::is_ascii_digit, u8::is_ascii_lowercase, u8::is_ascii_uppercase];
        from <= to && kinds.iter().any(|kind| kind(&from) && kind(&to))
    };
    (0..bytes.len())
        .filter(|at| bytes[*at] == b'-')
        .all(|at| at == 0 || at + 1 == bytes.len() || is_between(at))
}

/// Whether a repository pattern can match `NAME.git` but not `NAME`, which is no repository of gitolite.
pub(super) fn takes_git_suffix(glob: &str) -> bool {
    if glob.ends_with("/**") {
        return false;
    }
    let name = glob.rsplit('/').next().unwrap_or(glob);
    let is_literal = !name.contains(['*', '?', '[']);
    let may_end_in_t = name.ends_with(['*', '?', ']', 't']);
    let has_dot = name.contains(['.', '?']) || name.matches('*').count() > 1;
    !is_literal && may_end_in_t && has_dot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_become_patterns_or_nothing() {
        use MatchEnd::{Anywhere, AtEnd};
        let check = |regex: &str, end, expect: &[&str]| {
            let globs = of_regex(regex, end).unwrap_or_default();
            assert_eq!(globs, expect, "{regex}");
        };
        check("refs/.*", Anywhere, &["refs/**"]);
        check("refs/heads/master", Anywhere, &["refs/heads/master*", "refs/heads/master*/**"]);
        check("refs/heads/master$", Anywhere, &["refs/heads/master"]);
        check("refs/heads/dev/", Anywhere, &["refs/heads/dev/**"]);
        check("refs/tags/v[0-9]", Anywhere, &["refs/tags/v[0-9]*", "refs/tags/v[0-9]*/**"]);
        check("refs/heads/v\\.1$", Anywhere, &["refs/heads/v.1"]);
        check("refs/heads/v.1$", Anywhere, &["refs/heads/v?1", "refs/heads/v/1"]);
        check("refs/heads/(a|b)/", Anywhere, &["refs/heads/a/**", "refs/heads/b/**"]);
        check("foo/..*", AtEnd, &["foo/**"]);
        check("foo-.*", AtEnd, &["foo-*", "foo-*/**"]);
        check("a/[^/]+", AtEnd, &["a/?*"]);
        for refused in [
            "refs/heads/a|b",
            "refs/heads/(a",
            "a+$",
            "a*b",
            "[^a]",
            "[]",
            "[z-a]",
            "[a-Z]",
            "(?i)a",
            "^a",
            "a{2}",
            "\\w",
            "\\Qa",
            "[[:alpha:]]",
            "(a|b)+",
            ".*a",
            "a\\.*",
            "é*",
            "(a|)",
            "a$b",
            "(.|a)",
            "a\\$",
            "............",
        ] {
            check(refused, AtEnd, &[]);
        }
    }
}
