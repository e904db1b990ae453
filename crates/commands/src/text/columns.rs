//! The terminal width of characters, by the Unicode blocks that matter: combining marks have width 0, East
//! Asian letters and pictographs 2.

/// Characters of width 0.
const NARROW: [(u32, u32); 24] = [
    (0x0000, 0x001f),
    (0x007f, 0x009f),
    (0x00ad, 0x00ad),
    (0x0300, 0x036f),
    (0x0483, 0x0489),
    (0x0591, 0x05bd),
    (0x0610, 0x061a),
    (0x064b, 0x065f),
    (0x06d6, 0x06dc),
    (0x093c, 0x093c),
    (0x0941, 0x0948),
    (0x094d, 0x094d),
    (0x0e31, 0x0e31),
    (0x0e34, 0x0e3a),
    (0x0e47, 0x0e4e),
    (0x1ab0, 0x1aff),
    (0x1dc0, 0x1dff),
    (0x200b, 0x200f),
    (0x202a, 0x202e),
    (0x2060, 0x206f),
    (0x20d0, 0x20f0),
    (0xfe00, 0xfe0f),
    (0xfe20, 0xfe2f),
    (0xfeff, 0xfeff),
];

/// Characters of width 2.
const WIDE: [(u32, u32); 16] = [
    (0x1100, 0x115f),
    (0x231a, 0x231b),
    (0x2e80, 0x303e),
    (0x3041, 0x33ff),
    (0x3400, 0x4dbf),
    (0x4e00, 0x9fff),
    (0xa000, 0xa4cf),
    (0xa960, 0xa97f),
    (0xac00, 0xd7a3),
    (0xf900, 0xfaff),
    (0xfe30, 0xfe6f),
    (0xff00, 0xff60),
    (0xffe0, 0xffe6),
    (0x1f300, 0x1f64f),
    (0x1f680, 0x1f6ff),
    (0x1f900, 0x1f9ff),
];

/// The width of a text in columns; its length in bytes if it is not UTF-8.
pub fn width(text: &[u8]) -> usize {
    match std::str::from_utf8(text) {
        Ok(text) => text.chars().map(columns).sum(),
        Err(_) => text.len(),
    }
}

fn columns(character: char) -> usize {
    let code = u32::from(character);
    let is_in = |ranges: &[(u32, u32)]| ranges.iter().any(|(first, last)| (*first..=*last).contains(&code));
    match () {
        () if (0x20..0x7f).contains(&code) => 1,
        () if is_in(&NARROW) => 0,
        () if is_in(&WIDE) || (0x20000..=0x3fffd).contains(&code) => 2,
        () => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths() {
        let check = |text: &[u8], expect| assert_eq!(width(text), expect, "{text:?}");
        check(b"main", 4);
        check("über".as_bytes(), 4);
        check("e\u{301}".as_bytes(), 1);
        check("中文".as_bytes(), 4);
        check("😀".as_bytes(), 2);
        check(b"\x1b[31mx", 5);
        check(b"\xff\xfe", 2);
    }
}
