//! Capability lists: words separated by spaces, some with a value after `=`.

/// The value of `name=value`.
pub fn value<'a>(word: &'a [u8], name: &str) -> Option<&'a [u8]> {
    word.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// Whether a word has this name, with or without a value.
pub fn is_named(word: &[u8], name: &str) -> bool {
    word.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
}

/// The words of a list.
pub fn words(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_values() {
        assert_eq!(words(b" a  b=c ").collect::<Vec<_>>(), [&b"a"[..], b"b=c"]);
        assert_eq!(value(b"agent=git/2", "agent"), Some(&b"git/2"[..]));
        assert_eq!(value(b"agents=git/2", "agent"), None);
        assert_eq!(value(b"agent", "agent"), None);
        assert!(is_named(b"agent", "agent") && is_named(b"agent=", "agent"));
        assert!(!is_named(b"agents", "agent") && !is_named(b"", "agent"));
    }
}
