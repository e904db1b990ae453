//! Parses server output with code that packrace does not use itself: pkt-lines, side-band and the pack.

use std::collections::BTreeSet;
use std::path::Path;

use packrace_object::{HashKind, TrailerHasher};

use crate::Git;

/// One packet (gitprotocol-common, "pkt-line Format").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A payload, possibly empty.
    Data(&'a [u8]),
    /// `0000`.
    Flush,
    /// `0001`.
    Delim,
    /// `0002`.
    ResponseEnd,
}

/// Splits `bytes` into packets; the error tells where parsing failed.
pub fn packets(bytes: &[u8]) -> Result<Vec<Packet<'_>>, String> {
    let mut packets = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes.get(at..at + 4).and_then(|head| std::str::from_utf8(head).ok());
        let length = length.and_then(|head| usize::from_str_radix(head, 16).ok());
        let length = length.ok_or_else(|| format!("no length at {at}"))?;
        packets.push(match length {
            0 => Packet::Flush,
            1 => Packet::Delim,
            2 => Packet::ResponseEnd,
            3 => return Err(format!("a length of 3 at {at}")),
            _ => Packet::Data(bytes.get(at + 4..at + length).ok_or_else(|| format!("cut at {at}"))?),
        });
        at += length.max(4);
    }
    Ok(packets)
}

/// The content of the side-band's bands (gitprotocol-pack, "side-band").
#[derive(Debug, Default)]
pub struct Bands {
    /// Band 1.
    pub pack: Vec<u8>,
    /// Band 2.
    pub progress: Vec<u8>,
    /// Band 3.
    pub error: Vec<u8>,
    /// Empty packets on band 1.
    pub keepalives: usize,
}

/// A v2 response to `fetch`.
#[derive(Debug, Default)]
pub struct FetchAnswer {
    /// The lines before the section `packfile`, without line feeds; an empty line separates sections.
    pub lines: Vec<String>,
    /// The bands of the section `packfile`.
    pub bands: Bands,
}

/// Parses the last response of a v2 conversation that ends with `fetch`; the response ends with a flush.
pub fn fetch_answer(bytes: &[u8]) -> Result<FetchAnswer, String> {
    let packets = packets(bytes)?;
    if packets.last() != Some(&Packet::Flush) {
        return Err("no flush at the end".to_string());
    }
    let before = &packets[..packets.len() - 1];
    let start = before.iter().rposition(|packet| *packet == Packet::Flush).map_or(0, |flush| flush + 1);
    let mut answer = FetchAnswer::default();
    let mut in_pack = false;
    for packet in &before[start..] {
        match packet {
            Packet::Data(b"packfile\n") if !in_pack => in_pack = true,
            Packet::Data(payload) if in_pack => answer.bands.add(payload)?,
            Packet::Data(line) => answer.lines.push(String::from_utf8_lossy(line).trim_end().to_string()),
            Packet::Delim if !in_pack => answer.lines.push(String::new()),
            other => return Err(format!("{other:?} inside an answer")),
        }
    }
    Ok(answer)
}

impl Bands {
    fn add(&mut self, payload: &[u8]) -> Result<(), String> {
        match payload.split_first() {
            Some((1, [])) => self.keepalives += 1,
            Some((1, bytes)) => self.pack.extend_from_slice(bytes),
            Some((2, bytes)) => self.progress.extend_from_slice(bytes),
            Some((3, bytes)) => self.error.extend_from_slice(bytes),
            other => return Err(format!("no band in {other:?}")),
        }
        Ok(())
    }
}

/// Checks a received pack's trailer, indexes it with `git index-pack --strict` and returns the names of the
/// sent objects. `base` is a repository with the delta bases of a thin pack.
pub fn objects_in_pack(git: &Git, pack: &[u8], hash: HashKind, base: Option<&Path>) -> BTreeSet<String> {
    objects_in_checked_pack(git, pack, hash, base, "--strict")
}

/// The same with the given strictness option of `git index-pack`.
pub fn objects_in_checked_pack(
    git: &Git,
    pack: &[u8],
    hash: HashKind,
    base: Option<&Path>,
    strict: &str,
) -> BTreeSet<String> {
    let end = pack.len().checked_sub(hash.len_in_bytes()).expect("a pack has a trailer");
    let mut hasher = TrailerHasher::new(hash);
    hasher.update(&pack[..end]);
    assert_eq!(hasher.finish().as_bytes(), &pack[end..], "the trailer fits the pack");

    let dir = crate::scratch_dir();
    let format = format!("--object-format={hash}");
    git.run(dir.path(), &["init", "-q", "--bare", "--template=", &format, "."]);
    if let Some(base) = base {
        let objects = base.join("objects");
        std::fs::create_dir_all(dir.path().join("objects/info")).expect("a directory can be made");
        std::fs::write(dir.path().join("objects/info/alternates"), format!("{}\n", objects.display()))
            .expect("and a file in it");
    }
    let name = git.run_with_input(dir.path(), &["index-pack", strict, "--stdin", "--fix-thin"], pack);
    let name = String::from_utf8_lossy(&name);
    let name = name.trim().trim_start_matches("pack\t");
    let index = std::fs::read(dir.path().join(format!("objects/pack/pack-{name}.idx"))).expect("an index");
    let listing = git.run_with_input(dir.path(), &["show-index", &format], &index);
    // Bases that completed a thin pack come after the sent objects.
    String::from_utf8_lossy(&listing)
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(offset, _)| offset.parse::<usize>().expect("an offset") < end)
        .map(|(_, rest)| rest.split(' ').next().unwrap_or(rest).to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{self, Feed, Script};
    use crate::{RepoBuilder, Size};

    #[test]
    fn packets_are_cut_exactly() {
        use Packet::{Data, Delim, Flush, ResponseEnd};
        assert_eq!(
            packets(b"0006a\n0001000400020000"),
            Ok(vec![Data(b"a\n"), Delim, Data(b""), ResponseEnd, Flush])
        );
        for bad in [&b"000"[..], b"0003", b"0006a", b"-001", b"zzzz"] {
            assert!(packets(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn bands_are_parted() {
        let answer = b"000dpackfile\n0007\x01PA0005\x010008\x02hi\n0007\x01CK0000";
        let bands = fetch_answer(answer).unwrap().bands;
        assert_eq!((bands.pack.as_slice(), bands.progress.as_slice()), (&b"PACK"[..], &b"hi\n"[..]));
        assert_eq!((bands.keepalives, bands.error.is_empty()), (1, true));
        assert!(fetch_answer(b"000dpackfile\n0007\x01PA").is_err());
    }

    /// Fetches from stock git, whole or byte by byte, and checks the objects.
    fn check(hash: HashKind, have: &str, feed: Feed) {
        let repo = RepoBuilder::new(Size::Tiny).hash(hash).build();
        let want = repo.git(&["rev-parse", "main"]);
        let have_id = if have.is_empty() { String::new() } else { repo.git(&["rev-parse", have]) };
        let haves: Vec<&str> = have_id.lines().collect();
        let script = Script::new().fetch_v2(&hash.to_string(), &[want.trim()], &haves).flush();
        let mut command = Git::stock().command(repo.path());
        command.args(["upload-pack", "."]).env("GIT_PROTOCOL", "version=2");
        let reply = peer::stdio(&mut command, script.bytes(), feed);
        assert!(reply.status.success(), "{}", reply.stderr);
        let answer = fetch_answer(&reply.stdout).unwrap();
        let objects = objects_in_pack(Git::stock(), &answer.bands.pack, hash, Some(repo.path()));
        let without = format!("^{have_id}");
        let mut args = vec!["rev-list", "--objects", "--no-object-names", "main"];
        args.extend((!haves.is_empty()).then_some(without.trim()));
        let needed: BTreeSet<String> = repo.git(&args).lines().map(str::to_string).collect();
        assert!(objects.is_superset(&needed), "all that is needed came");
    }

    #[test]
    fn packs_of_stock_git_are_read() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            check(hash, "", Feed::Whole);
            check(hash, "main~5", Feed::ByteByByte);
        }
    }
}
