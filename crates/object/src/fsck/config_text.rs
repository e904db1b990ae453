//! Git's configuration syntax (git-config, "CONFIGURATION FILE"), parsed setting by setting up to the first
//! error.
//!
//! Parsed exactly as git does, including what its documentation does not say: there is no byte order mark;
//! names and values end at a NUL; a byte 0xff ends a line, and turns the next line end outside a setting into
//! the end of the text.

/// The text breaks the syntax.
pub(super) struct SyntaxError;

/// Calls `each` with every setting, in order: its full name (`submodule.<name>.path`; section and key in
/// lower case) and its value, if the key has a `=`.
pub(super) fn for_each(text: &[u8], mut each: impl FnMut(&[u8], Option<&[u8]>)) -> Result<(), SyntaxError> {
    let mut reader = Reader { text, at: 0, is_at_end: false };
    let (mut name, mut value) = (Vec::new(), Vec::new());
    let (mut section_bytes, mut is_comment) = (0, false);
    loop {
        match reader.next() {
            b'\n' if reader.is_at_end => return Ok(()),
            b'\n' => is_comment = false,
            byte if is_comment || is_space(byte) => {}
            b'#' | b';' => is_comment = true,
            b'[' => {
                reader.section(&mut name)?;
                section_bytes = name.len();
            }
            byte if byte.is_ascii_alphabetic() => {
                name.truncate(section_bytes);
                let has_value = reader.key(byte, &mut name)?;
                value.clear();
                if has_value {
                    reader.value(&mut value)?;
                }
                each(to_nul(&name), has_value.then(|| to_nul(&value)));
            }
            _ => return Err(SyntaxError),
        }
    }
}

fn to_nul(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(0, text).unwrap_or(text.len())]
}

/// In git, vertical tabs and form feeds are not space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// Marks the end of a text.
const END: u8 = 0xff;

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// Whether the end was reached, or a byte that git takes for it.
    is_at_end: bool,
}

impl Reader<'_> {
    /// The next byte, or a line end at the end of the text; a carriage return and a newline count as one
    /// byte.
    fn next(&mut self) -> u8 {
        let byte = self.text.get(self.at).copied().unwrap_or(END);
        self.at += 1;
        match (byte, self.text.get(self.at)) {
            (END, _) => {
                self.is_at_end = true;
                b'\n'
            }
            (b'\r', Some(b'\n')) => {
                self.at += 1;
                b'\n'
            }
            (b'\r', Some(&END)) => {
                self.at += 1;
                byte
            }
            _ => byte,
        }
    }

    /// Parses the text after `[` into the start of names.
    fn section(&mut self, name: &mut Vec<u8>) -> Result<(), SyntaxError> {
        name.clear();
        loop {
            match self.next() {
                _ if self.is_at_end => return Err(SyntaxError),
                b']' if name.is_empty() => return Err(SyntaxError),
                b']' => break,
                byte if is_space(byte) => {
                    self.subsection(byte, name)?;
                    break;
                }
                byte if is_key_byte(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return Err(SyntaxError),
            }
        }
        name.push(b'.');
        Ok(())
    }

    fn subsection(&mut self, mut byte: u8, name: &mut Vec<u8>) -> Result<(), SyntaxError> {
        while is_space(byte) {
            if byte == b'\n' {
                return Err(SyntaxError);
            }
            byte = self.next();
        }
        if byte != b'"' {
            return Err(SyntaxError);
        }
        name.push(b'.');
        loop {
            match self.next() {
                b'\n' => return Err(SyntaxError),
                b'"' => break,
                b'\\' => match self.next() {
                    b'\n' => return Err(SyntaxError),
                    escaped => name.push(escaped),
                },
                byte => name.push(byte),
            }
        }
        if self.next() == b']' { Ok(()) } else { Err(SyntaxError) }
    }

    /// Parses a key that begins with `first`; returns whether a value follows.
    fn key(&mut self, first: u8, name: &mut Vec<u8>) -> Result<bool, SyntaxError> {
        name.push(first.to_ascii_lowercase());
        let mut byte = self.next();
        while !self.is_at_end && is_key_byte(byte) {
            name.push(byte.to_ascii_lowercase());
            byte = self.next();
        }
        while matches!(byte, b' ' | b'\t') {
            byte = self.next();
        }
        match byte {
            b'\n' => Ok(false),
            b'=' => Ok(true),
            _ => Err(SyntaxError),
        }
    }

    fn value(&mut self, value: &mut Vec<u8>) -> Result<(), SyntaxError> {
        let (mut is_quoted, mut kept) = (false, 0);
        loop {
            match self.next() {
                b'\n' if is_quoted => return Err(SyntaxError),
                b'\n' => break,
                b'#' | b';' if !is_quoted => {
                    while self.next() != b'\n' {}
                    break;
                }
                byte if is_space(byte) && !is_quoted => {
                    // Kept only if more text follows.
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                b'\\' => match self.next() {
                    b'\n' => continue,
                    b't' => value.push(b'\t'),
                    b'n' => value.push(b'\n'),
                    b'b' => value.push(8),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return Err(SyntaxError),
                },
                b'"' => is_quoted = !is_quoted,
                byte => value.push(byte),
            }
            kept = value.len();
        }
        value.truncate(kept);
        Ok(())
    }
}
