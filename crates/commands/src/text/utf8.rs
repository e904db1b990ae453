//! Repairs text that should be UTF-8.

/// The text as UTF-8; `None` if it is valid. As in git, each invalid byte is read as Latin-1.
pub fn mended(text: &[u8]) -> Option<Vec<u8>> {
    let mut mended = None;
    let mut rest = text;
    while !rest.is_empty() {
        let good = good_bytes(rest);
        if good == rest.len() && mended.is_none() {
            return None;
        }
        let mended = mended.get_or_insert_with(Vec::new);
        mended.extend_from_slice(&rest[..good]);
        if let Some(byte) = rest.get(good) {
            mended.extend_from_slice(char::from(*byte).encode_utf8(&mut [0; 4]).as_bytes());
            rest = &rest[good + 1..];
        } else {
            rest = &[];
        }
    }
    mended
}

/// The length of the valid start of a text. Noncharacters are invalid too.
fn good_bytes(text: &[u8]) -> usize {
    let valid = match str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
    };
    let is_none = |letter: char| {
        let code = letter as u32;
        code & 0xfffe == 0xfffe || (0xfdd0..=0xfdef).contains(&code)
    };
    valid.char_indices().find(|(_, letter)| is_none(*letter)).map_or(valid.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_out_of_place_are_latin_1() {
        let check = |text: &[u8], expect: Option<&str>| {
            assert_eq!(
                mended(text).map(|text| String::from_utf8(text).unwrap()).as_deref(),
                expect,
                "{text:?}"
            );
        };
        check(b"", None);
        check("ä € 𝄞".as_bytes(), None);
        check(b"caf\xe9\n", Some("café\n"));
        check(b"\xff", Some("ÿ"));
        check(b"a\xc3", Some("aÃ"));
        check(b"\xc0\x80x", Some("À\u{80}x"));
        check(b"\xed\xa0\x80", Some("í\u{a0}\u{80}"));
        check(b"\xef\xbf\xbe", Some("ï¿¾"));
        check("ä\u{fdd0}".as_bytes(), Some("äï·\u{90}"));
    }
}
