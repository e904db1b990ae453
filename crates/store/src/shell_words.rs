//! Words of a shell, quoted as git does.

/// A word in single quotes, in which `'` and `!` are escaped.
pub fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''").replace('!', r"'\!'"))
}

/// A word as a person would type it: in quotes only if it needs them.
pub fn shell_word(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+,-./:=@_^".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => shell_quoted(word),
    }
}
