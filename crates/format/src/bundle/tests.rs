use std::path::Path;

use packrace_testkit::{RepoBuilder, Size};

use super::*;

const SHA_1: &str = "1112912053fabcdef0123456789abcdef0123456";

fn id(text: &str) -> ObjectId {
    ObjectId::from_hex(text.as_bytes()).unwrap()
}

/// The header, or what is wrong at which byte. It is no other if it is cut off, and it ends before any pack.
fn check(text: &str, hash: HashKind, expect: Result<(&[&str], &[&str]), (&str, u64)>) {
    let parsed = BundleHeader::parse(text.as_bytes(), hash);
    match (parsed, expect) {
        (Ok((header, length)), Ok((prerequisites, refs))) => {
            let found: Vec<String> = header.prerequisites.iter().map(ToString::to_string).collect();
            assert_eq!(found, prerequisites, "{text}");
            let found =
                header.refs.iter().map(|(name, id)| format!("{id} {}", String::from_utf8_lossy(name)));
            assert_eq!(found.collect::<Vec<_>>(), refs, "{text}");
            for end in 0..length {
                assert!(BundleHeader::parse(&text.as_bytes()[..end], hash).is_err(), "{end}");
            }
            let longer = [&text.as_bytes()[..length], b"PACK\n\n"].concat();
            assert_eq!(BundleHeader::parse(&longer, hash), Ok((header, length)));
        }
        (Err(error), Err(expect)) => assert_eq!((error.what, error.offset), expect, "{text}"),
        (found, expect) => panic!("{text}: {found:?} instead of {expect:?}"),
    }
}

fn check_1(text: &str, expect: Result<(&[&str], &[&str]), (&str, u64)>) {
    check(text, HashKind::Sha1, expect);
}

#[test]
fn headers() {
    let sha_256 = format!("{SHA_1}{}", &SHA_1[..24]);
    check_1("# v2 git bundle\n\n", Ok((&[], &[])));
    let text = format!("# v2 git bundle\n-{SHA_1} a subject\n-{SHA_1}\n{SHA_1} refs/heads/a b\n\nPACK");
    check_1(&text, Ok((&[SHA_1, SHA_1], &[&format!("{SHA_1} refs/heads/a b")])));
    let text = format!("# v3 git bundle\n@object-format=sha256\n{sha_256} HEAD\n\n");
    check(&text, HashKind::Sha256, Ok((&[], &[&format!("{sha_256} HEAD")])));
    check_1(
        &format!("# v3 git bundle\n@object-format=sha1\n{SHA_1} HEAD\n\n"),
        Ok((&[], &[&format!("{SHA_1} HEAD")])),
    );
    check(&format!("# v2 git bundle\n{sha_256} HEAD\n\n"), HashKind::Sha256, Err(("another hash", 0)));
    check_1("# v3 git bundle\n@object-format=sha256\n\n", Err(("another hash", 0)));
    check_1("# v3 git bundle\n@object-format=sha512\n\n", Err(("unknown hash", 16)));
    check_1("# v3 git bundle\n@filter=blob:none\n\n", Err(("unknown capability", 16)));
    check_1("# v2 git bundle\n@object-format=sha1\n\n", Err(("bad ref", 16)));
    check_1("# v4 git bundle\n\n", Err(("bad signature", 0)));
    check_1(&format!("# v2 git bundle\n{SHA_1}\n\n"), Err(("bad ref", 16)));
    check_1(&format!("# v2 git bundle\n{SHA_1} \n\n"), Err(("bad ref", 16)));
    check_1(&format!("# v2 git bundle\n-{SHA_1}x\n\n"), Err(("bad prerequisite", 16)));
    check_1("# v2 git bundle\n-12\n\n", Err(("bad prerequisite", 16)));
    check_1("", Err(("unterminated header", 0)));
    check_1("# v2 git bundle\n", Err(("unterminated header", 16)));
}

#[test]
fn what_is_written_is_read() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let id = id(&"ab".repeat(hash.len_in_bytes()));
        let header = BundleHeader { prerequisites: vec![id; 2], refs: vec![(b"refs/tags/1".to_vec(), id)] };
        let bytes = header.write(hash).unwrap();
        assert_eq!(BundleHeader::parse(&bytes, hash), Ok((header, bytes.len())));
    }
}

#[test]
fn what_does_not_fit_is_not_written() {
    let header = |name: Vec<u8>| BundleHeader { prerequisites: Vec::new(), refs: vec![(name, id(SHA_1))] };
    for name in [Vec::new(), b"a\nb".to_vec(), vec![b'a'; MAX_HEADER_BYTES]] {
        assert_eq!(header(name).write(HashKind::Sha1), Err(UnwritableHeader));
    }
    let endless = [&b"# v2 git bundle\n"[..], &vec![b'a'; MAX_HEADER_BYTES]].concat();
    assert_eq!(BundleHeader::parse(&endless, HashKind::Sha1).unwrap_err().what, "unterminated header");
}

#[test]
fn bundles_of_git_are_read() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = RepoBuilder::new(Size::Tiny).hash(hash).build();
        let create = |name: &str, revisions: &[&str]| {
            let arguments = [&["bundle", "create", "-q", name], revisions].concat();
            repo.git(&arguments);
            std::fs::read(repo.path().join(Path::new(name))).unwrap()
        };
        let all = create("all.bundle", &["--all"]);
        let (header, length) = BundleHeader::parse(&all, hash).unwrap();
        assert!(header.prerequisites.is_empty());
        assert!(header.refs.iter().any(|(name, _)| name == b"HEAD"));
        assert!(all[length..].starts_with(b"PACK"));
        let part = create("part.bundle", &["HEAD", "^HEAD~1"]);
        let (header, length) = BundleHeader::parse(&part, hash).unwrap();
        assert_eq!((header.prerequisites.is_empty(), header.refs.len()), (false, 1));
        assert!(part[length..].starts_with(b"PACK"));
    }
}
