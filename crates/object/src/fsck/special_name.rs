//! Names that file systems treat as `.git` or as special files, which git reads: in any case, with code
//! points that HFS+ ignores, and with additions and short forms of NTFS.
//!
//! HFS+ ignores U+200C to U+200F, U+202A to U+202E, U+206A to U+206F and U+FEFF. NTFS ignores trailing spaces
//! and dots, ends a name at a colon (streams), and has short forms: six bytes, `~` and a number or, if many
//! files share the bytes, a hash (8.3 names). There, a backslash separates directories.

/// A file whose content git reads, wherever a tree names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpecialFile {
    /// `.gitmodules`.
    Modules,
    /// `.gitattributes`.
    Attributes,
}

/// A name that git looks for, in lower case, and its short form on NTFS without the number.
pub(super) struct SpecialName {
    long: &'static [u8],
    short: &'static [u8; 6],
    hashed: &'static [u8; 6],
}

pub(super) const MODULES: SpecialName =
    SpecialName { long: b".gitmodules", short: b"gitmod", hashed: b"gi7eba" };
pub(super) const ATTRIBUTES: SpecialName =
    SpecialName { long: b".gitattributes", short: b"gitatt", hashed: b"gi7d29" };
pub(super) const IGNORE: SpecialName =
    SpecialName { long: b".gitignore", short: b"gitign", hashed: b"gi250a" };
pub(super) const MAILMAP: SpecialName =
    SpecialName { long: b".mailmap", short: b"mailma", hashed: b"maba30" };

/// Whether a name without a backslash may be special on any file system; fast, and the few false positives
/// are checked again.
#[inline]
pub(super) fn may_be_special(name: &[u8]) -> bool {
    match name[0] {
        b'.' => matches!(name.get(1), None | Some(b'g' | b'G' | b'm' | b'M' | b'.' | 0xe2 | 0xef)),
        // The first bytes of code points that HFS+ ignores.
        0xe2 | 0xef => true,
        b'g' | b'G' | b'm' | b'M' | b'~' => name.len() >= 5 && name.iter().take(8).any(|byte| *byte == b'~'),
        _ => false,
    }
}

/// Whether a file system treats this as `.git`.
pub(super) fn is_dot_git(name: &[u8]) -> bool {
    is_on_hfs(name, b".git") || is_dot_git_on_ntfs(name)
}

/// Whether NTFS treats this as `.git` or a file in it.
pub(super) fn is_dot_git_on_ntfs(name: &[u8]) -> bool {
    [b".git".as_slice(), b"git~1"].iter().any(|git| {
        let rest = strip_prefix_ignoring_case(name, git);
        rest.is_some_and(|rest| match rest.iter().find(|byte| !matches!(byte, b' ' | b'.')) {
            None => true,
            Some(next) => matches!(next, b'\\' | b'/' | b':'),
        })
    })
}

impl SpecialName {
    /// Whether a file system treats `name` as this name.
    pub(super) fn is(&self, name: &[u8]) -> bool {
        is_on_hfs(name, self.long) || self.is_on_ntfs(name)
    }

    /// Whether NTFS treats `name` as this name.
    pub(super) fn is_on_ntfs(&self, name: &[u8]) -> bool {
        if let Some(rest) = strip_prefix_ignoring_case(name, self.long)
            && is_end_on_ntfs(rest)
        {
            return true;
        }
        // The first four files with the same six bytes get a number, the others a hash.
        if let Some([b'~', b'1'..=b'4', rest @ ..]) = strip_prefix_ignoring_case(name, self.short) {
            return is_end_on_ntfs(rest);
        }
        let Some((short, rest)) = name.split_at_checked(8) else { return false };
        let Some(tilde) = short.iter().position(|byte| *byte == b'~').filter(|at| *at <= 6) else {
            return false;
        };
        let number = &short[tilde + 1..];
        short[..tilde].eq_ignore_ascii_case(&self.hashed[..tilde])
            && number[0] != b'0'
            && number.iter().all(u8::is_ascii_digit)
            && is_end_on_ntfs(rest)
    }
}

fn strip_prefix_ignoring_case<'a>(name: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = name.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn is_end_on_ntfs(rest: &[u8]) -> bool {
    matches!(rest.iter().find(|byte| !matches!(byte, b' ' | b'.')), None | Some(b':'))
}

/// Whether HFS+ treats `name`, or its part before a slash, as `wanted`; a name ends where it is not valid
/// UTF-8.
fn is_on_hfs(mut name: &[u8], wanted: &[u8]) -> bool {
    for wanted in wanted {
        match next_on_hfs(&mut name) {
            Some(char) if char.to_ascii_lowercase() == char::from(*wanted) => {}
            _ => return false,
        }
    }
    matches!(next_on_hfs(&mut name), None | Some('/'))
}

fn next_on_hfs(name: &mut &[u8]) -> Option<char> {
    loop {
        let char = first_char(name)?;
        *name = &name[char.len_utf8()..];
        if !matches!(char, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
        {
            return Some(char);
        }
    }
}

fn first_char(bytes: &[u8]) -> Option<char> {
    let start = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default(),
    };
    // These are not characters, and git does not accept them as UTF-8.
    valid.chars().next().filter(|char| !matches!(u32::from(*char), 0xfffe | 0xffff))
}
