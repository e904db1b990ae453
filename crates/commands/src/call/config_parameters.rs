//! Settings on the command line (`-c`), and in `GIT_CONFIG_PARAMETERS`, where they are handed on.

/// The name and the value of a typed setting; no value means true.
pub(crate) fn split_assignment(text: &str) -> (String, Option<String>) {
    match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (text.to_owned(), None),
    }
}

/// Parses `'name=value' 'name'='value' 'name'=`, each part quoted for a shell.
pub(super) fn parse_parameters(text: &str) -> Option<Vec<(String, Option<String>)>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = unquote(rest)?;
        match after.strip_prefix('=') {
            None => {
                found.push(split_assignment(&name));
                rest = after;
            }
            Some(after) if after.is_empty() || after.starts_with(' ') => {
                found.push((name, None));
                rest = after;
            }
            Some(after) => {
                let (value, after) = unquote(after)?;
                found.push((name, Some(value)));
                rest = after;
            }
        }
        if !rest.is_empty() && !rest.starts_with(' ') {
            return None;
        }
        rest = rest.trim_start();
    }
    Some(found)
}

/// One word in single quotes; `'\''` and `'\!'` stand for the characters themselves.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('\'')?;
    let mut word = String::new();
    loop {
        let end = rest.find('\'')?;
        word.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        let escaped = rest.strip_prefix('\\').and_then(|after| after.chars().next());
        match escaped.filter(|character| matches!(character, '\'' | '!')) {
            Some(character) if rest[2..].starts_with('\'') => {
                word.push(character);
                rest = &rest[3..];
            }
            _ => return Some((word, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        let check = |text: &str, expect: Option<&[(&str, Option<&str>)]>| {
            let got = parse_parameters(text);
            let got: Option<Vec<(&str, Option<&str>)>> = got
                .as_ref()
                .map(|list| list.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect());
            assert_eq!(got.as_deref(), expect, "{text}");
        };
        check("", Some(&[]));
        check(
            "'a.b=c' 'd.e'='f g'  'h.i'=",
            Some(&[("a.b", Some("c")), ("d.e", Some("f g")), ("h.i", None)]),
        );
        check(r"'a.b=it'\''s'", Some(&[("a.b", Some("it's"))]));
        check("a.b=c", None);
        check("'a.b=c", None);
        check("'a.b=c'x", None);
    }
}
