use packrace_object::{HashKind, ObjectId};

use super::*;
use crate::wire::pkt_line::{DELIM, write_data, write_text};
use crate::wire::sideband::{Band, KEEPALIVE, write_packets};

const ID: &str = "0123456789abcdef0123456789abcdef01234567";

fn lines(lines: &[&str], end: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    lines.iter().for_each(|line| write_text(line, &mut out));
    out.extend_from_slice(end);
    out
}

fn capabilities() -> Vec<u8> {
    let said = ["version 2", "agent=x", "ls-refs=unborn", "fetch=shallow", "object-format=sha1", "new=y"];
    lines(&said, FLUSH)
}

fn refs() -> Vec<u8> {
    let head = format!("{ID} HEAD symref-target:refs/heads/main");
    let tag = format!("{ID} refs/tags/v1 peeled:{ID}");
    lines(&[&head, &format!("{ID} refs/heads/main"), &tag], FLUSH)
}

fn pack() -> Vec<u8> {
    let mut out = lines(&["packfile"], b"");
    write_packets(Band::Data, b"PACKpack", 5, &mut out);
    out.extend_from_slice(KEEPALIVE);
    write_packets(Band::Progress, b"half\rdone\n", 100, &mut out);
    write_packets(Band::Data, b"more", 100, &mut out);
    out.extend_from_slice(FLUSH);
    out
}

/// The result of three answers.
#[derive(Debug, Default, PartialEq)]
struct HeardAnswer {
    events: Vec<&'static str>,
    refs: Vec<String>,
    pack: Vec<u8>,
    text: Vec<u8>,
    error: Option<String>,
}

/// Runs the whole conversation; each answer arrives in pieces of `step` bytes, and the connection ends after the
/// last.
fn hear(answers: &[&[u8]], step: usize, limits: FetchLimits) -> HeardAnswer {
    let mut client = FetchClient::new("me/1", limits);
    let mut heard = HeardAnswer::default();
    for (number, answer) in answers.iter().enumerate() {
        let mut is_over = false;
        for chunk in answer.chunks(step) {
            let mut at = 0;
            loop {
                match client.next(chunk, &mut at) {
                    Ok(None) => break,
                    Ok(Some(Event::Data(range))) => heard.pack.extend_from_slice(&chunk[range]),
                    Ok(Some(Event::Progress(range))) => heard.text.extend_from_slice(&chunk[range]),
                    Ok(Some(event)) => {
                        is_over = true;
                        heard.events.push(match event {
                            Event::Advertised => "advertised",
                            Event::RefsListed => "listed",
                            _ => "ended",
                        });
                    }
                    Err(error) => {
                        heard.error = Some(error.to_string());
                        return heard;
                    }
                }
                assert!(at <= chunk.len());
            }
            assert_eq!(at, chunk.len(), "all is taken");
        }
        if !is_over {
            heard.error = Some(client.ended().to_string());
            return heard;
        }
        match number {
            0 => drop(client.ls_refs(&RefsRequest::default())),
            1 => {
                let refs = client.take_refs();
                heard.refs.extend(refs.iter().map(|listed| String::from_utf8_lossy(listed.name).into()));
                drop(client.fetch(&FetchRequest::default()));
            }
            _ => {}
        }
    }
    heard
}

/// Checks that the answers end in this error, wherever they are cut.
fn check_error(answers: &[&[u8]], expect: &str) {
    for step in [1, 3, 1 << 20] {
        assert_eq!(
            hear(answers, step, FetchLimits::default()).error.as_deref(),
            Some(expect),
            "steps of {step}"
        );
    }
}

#[test]
fn a_clone_is_heard_whole_and_byte_by_byte() {
    let service = [&lines(&["# service=git-upload-pack"], FLUSH)[..], &capabilities()].concat();
    for first in [capabilities(), service] {
        for step in [1, 2, 3, 7, 64, 1 << 20] {
            let heard = hear(&[&first, &refs(), &pack()], step, FetchLimits::default());
            assert_eq!(heard.events, ["advertised", "listed", "ended"]);
            assert_eq!(heard.refs, ["HEAD", "refs/heads/main", "refs/tags/v1"]);
            assert_eq!(
                (heard.pack.as_slice(), heard.text.as_slice()),
                (&b"PACKpackmore"[..], &b"half\rdone\n"[..])
            );
            assert_eq!(heard.error, None);
        }
    }
}

#[test]
fn what_is_said_is_what_git_says() {
    let mut client = FetchClient::new("me/1", FetchLimits::default());
    let mut at = 0;
    assert_eq!(client.next(&capabilities(), &mut at), Ok(Some(Event::Advertised)));
    let expect = ServerCapabilities {
        hash: HashKind::Sha1,
        tells_hash: true,
        has_agent: true,
        tells_unborn: true,
        lists_refs: true,
        sends_packs: true,
    };
    assert_eq!(client.server(), &expect);
    let prefixes = vec![b"HEAD".to_vec(), b"refs/heads/".to_vec()];
    let said = client.ls_refs(&RefsRequest { peel: true, symrefs: true, unborn: true, prefixes });
    let mut expect = lines(&["command=ls-refs", "agent=me/1", "object-format=sha1"], DELIM);
    expect.extend(lines(&["peel", "symrefs", "unborn", "ref-prefix HEAD", "ref-prefix refs/heads/"], FLUSH));
    assert_eq!(String::from_utf8_lossy(&said), String::from_utf8_lossy(&expect));
    let id = ObjectId::from_hex(ID.as_bytes()).unwrap();
    let request = FetchRequest { wants: vec![id], no_progress: true, ofs_delta: true, ..Default::default() };
    let said = client.fetch(&request);
    let mut expect = lines(&["command=fetch", "agent=me/1", "object-format=sha1"], DELIM);
    expect.extend(lines(&["no-progress", "ofs-delta", &format!("want {ID}"), "done"], FLUSH));
    assert_eq!(String::from_utf8_lossy(&said), String::from_utf8_lossy(&expect));
}

#[test]
fn what_a_server_did_not_offer_is_not_used() {
    let mut client = FetchClient::new("me/1", FetchLimits::default());
    client.next(&lines(&["version 2", "ls-refs", "fetch"], FLUSH), &mut 0).unwrap();
    let said = client.ls_refs(&RefsRequest { unborn: true, ..Default::default() });
    assert_eq!(said, lines(&["command=ls-refs"], b"00010000"));
}

#[test]
fn refs_keep_what_was_told_of_them() {
    let mut client = FetchClient::new("me", FetchLimits::default());
    client.next(&capabilities(), &mut 0).unwrap();
    client.ls_refs(&RefsRequest::default());
    client
        .next(
            &lines(
                &["unborn HEAD symref-target:refs/heads/x", &format!("{ID} refs/tags/v peeled:{ID}")],
                FLUSH,
            ),
            &mut 0,
        )
        .unwrap();
    let refs = client.take_refs();
    let id = ObjectId::from_hex(ID.as_bytes()).unwrap();
    let head = ListedRef { name: b"HEAD", id: None, peeled: None, symref_target: Some(b"refs/heads/x") };
    let tag = ListedRef { name: b"refs/tags/v", id: Some(id), peeled: Some(id), symref_target: None };
    assert_eq!((refs.find(b"HEAD"), refs.find(b"refs/tags/v"), refs.len()), (Some(head), Some(tag), 2));
    assert!(refs.find(b"refs").is_none() && !refs.is_empty());
    assert!(client.take_refs().is_empty());
}

/// Git's texts, as git 2.47.3 prints them about the same servers.
#[test]
fn what_servers_do_wrong_in_gits_words() {
    let (caps, refs) = (capabilities(), refs());
    let said = |text: &str| lines(&[text], FLUSH);
    check_error(&[b""], "Could not read from remote repository.");
    check_error(&[&caps[..20]], "expected flush after capabilities");
    check_error(&[b"zzzzhello"], "protocol error: bad line length character: zzzz");
    check_error(&[&said("ERR go away")], "remote error: go away");
    check_error(&[&said("ERR go\x1b[2J away")], "remote error: go?[2J away");
    check_error(&[&said(&format!("{ID} HEAD\0side-band"))], "the server does not speak protocol version 2");
    check_error(&[&said("version 1")], "the server does not speak protocol version 2");
    check_error(&[FLUSH], "the server does not speak protocol version 2");
    check_error(&[&lines(&["version 2", "fetch"], FLUSH)], "server doesn't support 'ls-refs'");
    check_error(&[&lines(&["version 2", "ls-refs"], FLUSH)], "server doesn't support 'fetch'");
    let format = lines(&["version 2", "object-format=foo"], FLUSH);
    check_error(&[&format], "unknown object format 'foo' specified by server");
    check_error(&[&caps, &refs[..50]], "expected flush after ref listing");
    check_error(&[&caps, &said("ERR no refs")], "remote error: no refs");
    check_error(&[&caps, &said("hello")], "invalid ls-refs response: hello");
    check_error(&[&caps, DELIM], "expected flush after ref listing");
    let long = lines(&["version 2", "ls-refs", "fetch", "object-format=sha256"], FLUSH);
    check_error(
        &[&long, &refs],
        &format!("invalid ls-refs response: {ID} HEAD symref-target:refs/heads/main"),
    );
    check_error(&[&caps, &refs, &said("ERR not today")], "remote error: not today");
    check_error(&[&caps, &refs, &said("hello")], "expected 'packfile', received 'hello'");
    check_error(&[&caps, &refs, &said("acknowledgments")], "expected 'packfile', received 'acknowledgments'");
    check_error(&[&caps, &refs, FLUSH], "expected 'packfile'");
    check_error(&[&caps, &refs, b""], "expected 'packfile'");
    let shallow = lines(&["shallow-info", &format!("shallow {ID}")], DELIM);
    check_error(&[&caps, &refs, &shallow], "source repository is shallow, reject to clone.");
    let answer = |packets: &[u8]| [&lines(&["packfile"], b"")[..], packets].concat();
    check_error(&[&caps, &refs, &answer(b"0011\x03disk on fire")], "remote error: disk on fire");
    check_error(&[&caps, &refs, &answer(b"0006\x04x")], "protocol error: bad band #4");
    check_error(&[&caps, &refs, &answer(b"0004")], "protocol error: missing sideband designator");
    let cut = "unexpected disconnect while reading sideband packet";
    check_error(&[&caps, &refs, &answer(b"0009\x01PA")], cut);
    check_error(&[&caps, &refs, &answer(b"0009\x01PACK")], cut);
    let unasked = [&pack()[..], b"0000"].concat();
    check_error(&[&caps, &refs, &unasked], "protocol error: unexpected data from the server");
}

#[test]
fn a_server_cannot_tell_without_end() {
    let limits = FetchLimits { capabilities: 6, refs: 3, name_bytes: 100 };
    assert_eq!(hear(&[&capabilities(), &refs(), &pack()], 1000, limits).error, None);
    let error = |answers: &[&[u8]], limits| hear(answers, 10, limits).error.unwrap();
    let error_text = error(&[&capabilities()], FetchLimits { capabilities: 5, ..limits });
    assert_eq!(error_text, "the server tells more than 5 capabilities");
    let error_text = error(&[&capabilities(), &refs()], FetchLimits { refs: 2, ..limits });
    assert_eq!(error_text, "the server tells more than 2 refs");
    let error_text = error(&[&capabilities(), &refs()], FetchLimits { name_bytes: 40, ..limits });
    assert_eq!(error_text, "the server tells more than 40 bytes of names of refs");
}

/// Every truncation ends in an error or in the events so far; every flipped bit in either, and
/// never in a panic.
#[test]
fn cut_anywhere_and_flipped_anywhere() {
    let answers = [capabilities(), refs(), pack()];
    for number in 0..answers.len() {
        let whole = &answers[number];
        for cut in 0..whole.len() {
            let mut cut_off: Vec<&[u8]> = answers[..number].iter().map(Vec::as_slice).collect();
            cut_off.push(&whole[..cut]);
            let heard = hear(&cut_off, 1 << 20, FetchLimits::default());
            assert!(heard.error.is_some(), "answer {number} cut at {cut}");
            assert_eq!(hear(&cut_off, 1, FetchLimits::default()), heard, "answer {number} cut at {cut}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut flipped = answers.clone();
                flipped[number][at] ^= 1 << bit;
                let flipped: Vec<&[u8]> = flipped.iter().map(Vec::as_slice).collect();
                let heard = hear(&flipped, 1 << 20, FetchLimits::default());
                assert_eq!(hear(&flipped, 1, FetchLimits::default()), heard, "byte {at} bit {bit}");
            }
        }
    }
    let mut long = Vec::new();
    write_data(&[b'x'; 65_516], &mut long);
    check_error(&[&long], "the server does not speak protocol version 2");
}
