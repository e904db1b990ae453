//! Text for output: quoting, width, and UTF-8 repair; and the text of commits.

pub mod columns;
pub mod quoting;
pub mod utf8;

/// The message of a commit, which follows its headers.
pub fn message_of(commit: &[u8]) -> &[u8] {
    let end = commit.windows(2).position(|pair| pair == b"\n\n");
    end.map_or(&[], |end| &commit[end + 2..])
}
