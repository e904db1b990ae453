//! Paths in output: relative to a directory, and quoted (git-config, "core.quotePath").

use packrace_store::Config;

/// How paths are shown.
pub struct PathStyle {
    /// Whether to quote bytes above 0x7f too.
    quotes_all: bool,
    /// The directory that paths are relative to, with a slash at its end unless it is the top.
    prefix: Vec<u8>,
}

impl PathStyle {
    /// Relative to the directory `prefix`; to the top if it is empty.
    pub fn of(config: &Config, prefix: &[u8]) -> Result<Self, packrace_store::Error> {
        let quotes_all = config.boolean("core.quotePath")?.unwrap_or(true);
        Ok(PathStyle { quotes_all, prefix: prefix.to_vec() })
    }

    /// A path that starts at the top of the work tree.
    pub fn show(&self, path: &[u8]) -> Vec<u8> {
        quote(&relative(path, &self.prefix), self.quotes_all, false)
    }

    /// The same with a prefix for the side, as in patches.
    pub fn show_behind(&self, side: &[u8], path: &[u8]) -> Vec<u8> {
        quote(&[side, &relative(path, &self.prefix)].concat(), self.quotes_all, false)
    }

    /// The same, also quoted if it contains a space.
    pub fn show_as_word(&self, path: &[u8]) -> Vec<u8> {
        quote(&relative(path, &self.prefix), self.quotes_all, true)
    }
}

fn relative(path: &[u8], prefix: &[u8]) -> Vec<u8> {
    let mut shared = 0;
    for (at, byte) in prefix.iter().enumerate() {
        if path.get(at) != Some(byte) {
            break;
        }
        if *byte == b'/' {
            shared = at + 1;
        }
    }
    let mut shown = b"../".repeat(prefix[shared..].iter().filter(|byte| **byte == b'/').count());
    shown.extend_from_slice(&path[shared..]);
    if shown.is_empty() {
        shown.extend_from_slice(b"./");
    }
    shown
}

fn quote(text: &[u8], quotes_all: bool, quotes_spaces: bool) -> Vec<u8> {
    let has_space = quotes_spaces && text.contains(&b' ');
    if !has_space && !packrace_store::needs_quotes(text, quotes_all) {
        return text.to_vec();
    }
    let mut quoted = Vec::new();
    packrace_store::quote(text, quotes_all, &mut quoted);
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_from_a_directory() {
        let check = |path: &str, prefix: &str, expect: &str| {
            let shown = relative(path.as_bytes(), prefix.as_bytes());
            assert_eq!(String::from_utf8(shown).unwrap(), expect, "{path} from {prefix}");
        };
        check("a/b", "", "a/b");
        check("a/b", "a/", "b");
        check("a/b", "a/c/", "../b");
        check("ab/c", "a/", "../ab/c");
        check("x", "a/b/", "../../x");
        check("a/", "a/", "./");
    }

    #[test]
    fn quoting() {
        let check = |text: &[u8], all: bool, expect: &str| {
            assert_eq!(String::from_utf8(quote(text, all, false)).unwrap(), expect);
        };
        check(b"plain file", true, "plain file");
        check(b"tab\there", true, r#""tab\there""#);
        check("ä".as_bytes(), true, r#""\303\244""#);
        check("ä".as_bytes(), false, "ä");
        check(b"\"\\\x01\x7f", false, r#""\"\\\001\177""#);
        assert_eq!(quote(b"a b", true, true), b"\"a b\"");
    }
}
