//! Checks that the answers to one request agree.

use std::borrow::Cow;
use std::collections::BTreeSet;

use packrace_object::HashKind;
use packrace_testkit::Git;
use packrace_testkit::received::{fetch_answer, objects_in_checked_pack};

use crate::work::{Check, How, Work};

/// As strict as public histories allow: some contain such trees.
const STRICT: &str = "--strict=zeroPaddedFilemode=ignore";

/// Compares `other` with git's answer. Without `other`, checks git's answer only.
pub fn agree(git: &Git, work: &Work, peer: &[u8], other: Option<&[u8]>) -> Result<(), String> {
    match &work.check {
        Check::SameBytes => match other {
            Some(other) if after_advertisement(peer)? != after_advertisement(other)? => {
                Err("the listings differ".to_string())
            }
            _ => Ok(()),
        },
        Check::SameRefs => match other {
            Some(other) if peer != other => Err("the refs or reflogs differ".to_string()),
            _ => Ok(()),
        },
        Check::SameRefsAndObjects | Check::SameIndex => match other {
            Some(other) if peer != other => Err("the refs or objects differ".to_string()),
            _ => Ok(()),
        },
        Check::SamePackFiles => match other {
            Some([]) => Err("there is no pack".to_string()),
            Some(other) if peer != other => Err(format!(
                "git has\n{}and the other\n{}",
                String::from_utf8_lossy(peer),
                String::from_utf8_lossy(other)
            )),
            _ => Ok(()),
        },
        Check::SameRepository => match other {
            Some(other) if peer != other => Err("the objects differ".to_string()),
            _ => Ok(()),
        },
        Check::SamePack | Check::SamePartialPack => {
            let theirs = objects(git, work, peer)?;
            let Some(other) = other else { return Ok(()) };
            let ours = objects(git, work, other)?;
            let (missing, more) = (theirs.difference(&ours).count(), ours.difference(&theirs).count());
            if (missing, more) == (0, 0) {
                return Ok(());
            }
            Err(format!("of {} objects {missing} are missing and {more} came beside them", theirs.len()))
        }
        Check::Covers(needed) => {
            for answer in std::iter::once(peer).chain(other) {
                let missing = needed.difference(&objects(git, work, answer)?).count();
                if missing > 0 {
                    return Err(format!("{missing} of {} needed objects are missing", needed.len()));
                }
            }
            Ok(())
        }
    }
}

/// The part of git's answer that another program can produce: gix writes no reverse indexes.
pub fn known_to<'a>(who: &str, peer: &'a [u8]) -> Cow<'a, [u8]> {
    if who != crate::GIX {
        return Cow::Borrowed(peer);
    }
    let text = String::from_utf8_lossy(peer);
    let lines = text.split_inclusive('\n').filter(|line| !line.contains(".rev "));
    Cow::Owned(lines.collect::<String>().into_bytes())
}

fn objects(git: &Git, work: &Work, answer: &[u8]) -> Result<BTreeSet<String>, String> {
    let pack = match work.how {
        How::Command { .. } | How::Receive | How::Add(_) => answer.to_vec(),
        How::UploadPack | How::Served | How::ServedKeepingDeltas | How::Take(_) | How::Push(_) => {
            pack_of(answer)?
        }
    };
    let hash = git.run(&work.repo, &["rev-parse", "--show-object-format"]);
    let hash = if hash.trim() == "sha256" { HashKind::Sha256 } else { HashKind::Sha1 };
    // A clone's pack is complete; others may have bases at the client, or omit what it does not want.
    let base = (work.check != Check::SamePack).then_some(work.repo.as_path());
    Ok(objects_in_checked_pack(git, &pack, hash, base, STRICT))
}

fn pack_of(answer: &[u8]) -> Result<Vec<u8>, String> {
    let answer = fetch_answer(answer)?;
    if answer.bands.error.is_empty() {
        return Ok(answer.bands.pack);
    }
    Err(String::from_utf8_lossy(&answer.bands.error).into_owned())
}

/// The bytes after the first flush.
fn after_advertisement(answer: &[u8]) -> Result<&[u8], String> {
    let mut at = 0;
    loop {
        let length = answer.get(at..at + 4).and_then(|head| std::str::from_utf8(head).ok());
        let length = length.and_then(|head| usize::from_str_radix(head, 16).ok());
        match length {
            Some(0) => return Ok(&answer[at + 4..]),
            Some(length) => at += length.max(4),
            None => return Err("no advertisement".to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_compared_behind_the_advertisement() {
        let work = Work {
            name: String::new(),
            repo: std::path::PathBuf::new(),
            request: Vec::new(),
            check: Check::SameBytes,
            how: How::UploadPack,
            bytes_of: None,
        };
        let check = |a: &[u8], b: &[u8]| agree(Git::stock(), &work, a, Some(b));
        assert_eq!(check(b"000eagent=git\n00000006a\n0000", b"0013agent=packrace\n00000006a\n0000"), Ok(()));
        assert!(check(b"00000006a\n0000", b"00000006b\n0000").is_err());
        assert!(check(b"0000", b"00").is_err());
    }
}
