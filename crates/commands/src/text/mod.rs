//! Text for output: quoting, width, and UTF-8 repair; and the text of commits.

pub mod columns;
pub mod quoting;
pub mod utf8;

/// The message of a commit, which follows its headers.
pub fn message_of(commit: &[u8]) -> &[u8] {
    let end = commit.windows(2).position(|pair| pair == b"\n\n");
    end.map_or(&[], |end| &commit[end + 2..])
}

/// The first paragraph of a commit message, as one line.
pub fn subject_of(commit: &[u8]) -> Vec<u8> {
    let lines = message_of(commit).split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let lines = lines.skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(&b' ')
}

/// The value of the line with this key in the header of a commit or tag.
pub fn header_line<'a>(data: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let mut lines = data.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    lines.find_map(|line| line.strip_prefix(key.as_bytes())?.strip_prefix(b" "))
}
