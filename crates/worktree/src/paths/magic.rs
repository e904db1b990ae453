//! What stands before the path of a pathspec: `:(top,icase)`, `:/`.

use super::PathError;
use super::attributes::Condition;

#[derive(Default)]
pub(super) struct Magic {
    pub(super) is_top: bool,
    pub(super) is_literal: bool,
    pub(super) is_glob: bool,
    pub(super) is_icase: bool,
    pub(super) is_exclude: bool,
    /// `prefix:N`: the path is from the top of the work tree, and as many bytes of it have no wildcards.
    pub(super) prefix_bytes: Option<usize>,
    /// `attr:`; empty conditions are those of `attr` alone.
    pub(super) conditions: Vec<Condition>,
}

impl Magic {
    /// Parses the magic, and returns the path.
    pub(super) fn take<'a>(&mut self, element: &'a [u8]) -> Result<&'a [u8], PathError> {
        let shown = || String::from_utf8_lossy(element).into_owned();
        let Some(rest) = element.strip_prefix(b":") else { return Ok(element) };
        let Some(mut long) = rest.strip_prefix(b"(") else {
            return self.take_short(rest, &shown);
        };
        loop {
            let end = end_of_word(long);
            let (word, behind) = (&long[..end], &long[end..]);
            if !word.is_empty() {
                self.take_word(word, &shown)?;
            }
            match behind.split_first() {
                Some((b')', path)) => return Ok(path),
                Some((_, others)) => long = others,
                None => {
                    let words = format!("Missing ')' at the end of pathspec magic in '{}'", shown());
                    return Err(PathError::Spec(words));
                }
            }
        }
    }

    fn take_word(&mut self, word: &[u8], shown: &dyn Fn() -> String) -> Result<(), PathError> {
        match word {
            b"top" => self.is_top = true,
            b"literal" => self.is_literal = true,
            b"glob" => self.is_glob = true,
            b"icase" => self.is_icase = true,
            b"exclude" => self.is_exclude = true,
            b"attr" => {}
            word => {
                if let Some(number) = word.strip_prefix(b"prefix:") {
                    self.prefix_bytes = prefix_number(number)?;
                    return Ok(());
                }
                let Some(conditions) = word.strip_prefix(b"attr:") else {
                    let word = String::from_utf8_lossy(word);
                    return Err(PathError::Spec(format!("Invalid pathspec magic '{word}' in '{}'", shown())));
                };
                if !self.conditions.is_empty() {
                    return Err(PathError::Spec("Only one 'attr:' specification is allowed.".to_owned()));
                }
                self.conditions = Condition::parse_all(conditions)?;
            }
        }
        Ok(())
    }

    fn take_short<'a>(
        &mut self,
        mut rest: &'a [u8],
        shown: &dyn Fn() -> String,
    ) -> Result<&'a [u8], PathError> {
        while let Some((letter, behind)) = rest.split_first() {
            match letter {
                b':' => return Ok(behind),
                b'/' => self.is_top = true,
                b'!' | b'^' => self.is_exclude = true,
                letter if b"\"#%&',-;<=>@_`~".contains(letter) => {
                    let letter = char::from(*letter);
                    return Err(PathError::Spec(format!(
                        "Unimplemented pathspec magic '{letter}' in '{}'",
                        shown()
                    )));
                }
                _ => break,
            }
            rest = behind;
        }
        Ok(rest)
    }
}

/// The number of `prefix:N`. As in git, it is 0 without digits, and a negative one is none.
fn prefix_number(text: &[u8]) -> Result<Option<usize>, PathError> {
    let text = text.trim_ascii_start();
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i32>().ok());
    match number.or(text.is_empty().then_some(0)) {
        Some(number) => Ok(usize::try_from(number).ok()),
        None => Err(PathError::Spec("invalid parameter for pathspec magic 'prefix'".to_owned())),
    }
}

/// Where the words of magic end that begin here.
pub(super) fn end(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += end_of_word(&text[at..]);
        match text.get(at) {
            Some(b',') => at += 1,
            _ => return at,
        }
    }
}

/// Where a word of magic ends: at a comma or the closing parenthesis, unless a backslash stands before it.
fn end_of_word(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b',' | b')' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}
