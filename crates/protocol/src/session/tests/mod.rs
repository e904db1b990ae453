//! Scripts of a client, played to sessions whole and in pieces; `tests/` has stock git's answers to the same.

mod features;
mod model;
mod sequences;

use model::{Model, Script};

use super::{Carriage, Deepen, RequestLimits};

/// Plays every transcript of a file and compares with git's answer.
fn check_stock(model: &Model, transcripts: &str, at_least: usize) {
    let cases = Script::parse_all(transcripts);
    assert!(cases.len() >= at_least, "{} transcripts", cases.len());
    let differing: Vec<String> = cases.iter().filter_map(|case| differs(model, case)).collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn differs(model: &Model, case: &Script) -> Option<String> {
    let answer = model.play(case);
    (answer != case.answer).then(|| format!("{}\n  git  {:?}\n  ours {answer:?}", case.name, case.answer))
}

#[test]
fn stock_git_answers_the_same_in_versions_0_and_1() {
    check_stock(&Model::default(), include_str!("stock_v0.txt"), 100);
}

#[test]
fn stock_git_answers_the_same_in_version_2() {
    check_stock(&Model::default(), include_str!("stock_v2.txt"), 100);
}

/// Plays a script in the form of the transcripts, and compares with the answer in it.
fn check(model: &Model, script: &str) {
    for case in Script::parse_all(script) {
        assert_eq!(model.play(&case), case.answer, "{}", case.name);
    }
}

/// Deliberate differences from git, with reasons.
#[test]
fn deliberate_differences() {
    let model = Model::default();
    // Git aborts with BUG: and SIGABRT.
    check(&model, "## response end\nv2 stateless\n> 0002\n! unexpected line: '0002'\n");
    // Git ignores what follows the id; no client sends anything there.
    let line = "want {c5}x";
    let words = "git upload-pack: protocol error, expected to get oid, not";
    check(
        &model,
        &format!("## trailing\nv2 stateless\n> command=fetch\n> 0001\n> {line}\n! {words} '{line}'\n"),
    );
    check(
        &model,
        "## trailing have\nv0 stateless\n> want {c5}\n> 0000\n> have {c2} x\n! git upload-pack: expected SHA1 object, got '{c2} x'\n",
    );
    // Git treats a delimiter as a flush in version 0.
    check(&model, "## delimiter\nv0 stateless\n> want {c5}\n> 0001\n! expected flush after upload request\n");
    // Git accepts numbers in C's notation.
    check(&model, "## hex\nv0 stateless\n> want {c5}\n> deepen 0x10\n! Invalid deepen: deepen 0x10\n");
    check(&model, "## blank\nv0 stateless\n> want {c5}\n> deepen  1\n! Invalid deepen: deepen  1\n");
    // Git has already answered `shallow-info` when it finds out.
    let both = "git upload-pack: deepen and deepen-since (or deepen-not) cannot be used together";
    for not in ["deepen-since 1", "deepen-not old"] {
        let lines = format!("> want {{c5}}\n> deepen 1\n> {not}\n> done\n> 0000\n! {both}\n");
        check(&model, &format!("## {not}\nv2 stateless\n> command=fetch\n> 0001\n{lines}"));
    }
    // Git ignores the hash that a version 0 client states.
    check(
        &model,
        "## hash\nv0 stateless\n> want {c5} object-format=sha256\n! mismatched object format: server sha1; client sha256\n",
    );
}

#[test]
fn sha256() {
    let model = Model { hash: packrace_object::HashKind::Sha256, ..Model::default() };
    let mismatch = "! mismatched object format: server sha256; client sha1\n";
    check(&model, "## v0 says nothing\nv0 stateful\n> want {c5}\n> 0000\n> done\n< NAK\n< PACK\n");
    check(&model, &format!("## v2 says nothing\nv2 stateful\n> command=fetch\n> 0001\n{mismatch}"));
    check(&model, &format!("## v2 says so\nv2 stateful\n> command=fetch\n> object-format=sha1\n{mismatch}"));
    let agreed = "> command=fetch\n> object-format=sha256\n> 0001\n> want {c5}\n> done\n> 0000\n";
    check(&model, &format!("## v2 agrees\nv2 stateful\n{agreed}< packfile\n< PACK\n"));
}

#[test]
fn a_shallow_server_tells_where_its_history_ends_in_version_2() {
    let model = Model { first: 3, ..Model::default() };
    let fetch = "v2 stateless\n> command=fetch\n> 0001\n> want {c5}\n";
    let answer = "> done\n> 0000\n< shallow-info\n< shallow {c3}\n< 0001\n< packfile\n< PACK\n";
    check(&model, &format!("## clone\n{fetch}{answer}"));
    check(&model, "## v0\nv0 stateless\n> want {c5}\n> 0000\n> done\n< NAK\n< PACK\n");
}

#[test]
fn limits() {
    let limits = RequestLimits { wants: 2, haves: 2, shallow: 2, options: 2, name_bytes: 8 };
    let model = Model { limits, ..Model::default() };
    let too_many = |what: &str| format!("! more than 2 {what} in one request\n");
    let v0 = "v0 stateful\n> want {c5}\n> want {c4}\n";
    check(&model, &format!("## v0 wants\n{v0}> want {{c3}}\n{}", too_many("wants")));
    let three = "> shallow {u1}\n> shallow {u2}\n> shallow {u3}\n";
    check(&model, &format!("## v0 shallow\n{v0}{three}{}", too_many("shallow lines")));
    let rounds = "> 0000\n> have {u1}\n> 0000\n> have {u2}\n> 0000\n> have {u3}\n< NAK\n< NAK\n";
    check(&model, &format!("## v0 haves\n{v0}{rounds}{}", too_many("haves")));
    let v2 = "v2 stateful\n> command=fetch\n> 0001\n> want {c5}\n> want {c4}\n";
    check(&model, &format!("## v2 wants\n{v2}> want {{c3}}\n{}", too_many("wants")));
    let three = "> have {u1}\n> have {u2}\n> have {u3}\n";
    check(&model, &format!("## v2 haves\n{v2}{three}{}", too_many("haves")));
    let three = "> deepen-not a\n> deepen-not a\n> deepen-not a\n";
    check(&model, &format!("## v2 not\n{v2}{three}{}", too_many("deepen-not lines")));
    let long = "> deepen-not 123456789\n! more than 8 bytes of deepen-not lines in one request\n";
    check(&model, &format!("## v2 long not\n{v2}{long}"));
    let three = "> command=fetch\n> server-option=a\n> server-option=b\n> server-option\n";
    check(&model, &format!("## v2 options\nv2 stateful\n{three}{}", too_many("server options")));
    // Too many prefixes are ignored: all refs are listed.
    let refs = "< {c5} HEAD\n< {c5} refs/heads/main\n< {c2} refs/heads/old\n< {t1} refs/tags/v1\n< 0000\n";
    let ls = "v2 stateless\n> command=ls-refs\n> 0001\n> ref-prefix refs/no\n";
    check(&model, &format!("## prefixes\n{ls}> 0000\n< 0000\n"));
    check(&model, &format!("## long prefixes\n{ls}> ref-prefix a\n> ref-prefix b\n> 0000\n{refs}"));
}

#[test]
fn one_filter_that_was_negotiated() {
    let model = Model { allow_filter: true, ..Model::default() };
    let (v0, v2) = ("v0 stateful\n> want {c5}", "v2 stateful\n> command=fetch\n> 0001\n> want {c5}\n");
    let filter = "> filter blob:none\n";
    check(&model, &format!("## v2\n{v2}{filter}> done\n> 0000\n< packfile\n< PACK\n"));
    check(&model, &format!("## v0\n{v0} filter\n{filter}> 0000\n> done\n< NAK\n< PACK\n"));
    let twice = format!("{filter}{filter}! multiple filter-specs cannot be combined\n");
    check(&model, &format!("## v2 twice\n{v2}{twice}"));
    check(&model, &format!("## v0 twice\n{v0} filter\n{twice}"));
    check(&model, &format!("## v2 without a spec\n{v2}> filter\n! unexpected line: 'filter'\n"));
    let not_negotiated = "! git upload-pack: filtering capability not negotiated\n";
    check(&model, &format!("## v0 not said\n{v0}\n{filter}{not_negotiated}"));
    let model = Model::default();
    check(&model, &format!("## v0 not offered\n{v0} filter\n{filter}{not_negotiated}"));
    check(&model, &format!("## v2 not offered\n{v2}{filter}! unexpected line: 'filter blob:none'\n"));
}

#[test]
fn from_65536_prefixes_on_none_counts() {
    for (count, expect_none) in [(super::MAX_PREFIXES - 1, false), (super::MAX_PREFIXES, true)] {
        let mut script = Model::packets(&["command=ls-refs", "0001"]);
        for _ in 0..count {
            script.extend(Model::packets(&["ref-prefix a"]));
        }
        script.extend_from_slice(b"0000");
        let mut session = super::fetch_v2::Session::new(Model::default().config(), Carriage::Stateless);
        session.handle(super::Input::Bytes(&script)).unwrap();
        let super::Output::NeedRefs(request) = session.poll_output() else { panic!("no request for refs") };
        assert_eq!(request.prefixes.is_empty(), expect_none);
    }
}

#[test]
fn refusals_on_the_wire_fit_a_packet() {
    let mut script = Vec::new();
    crate::wire::pkt_line::write_data(&[0xff; crate::wire::pkt_line::MAX_PAYLOAD], &mut script);
    let mut session = super::fetch_v2::Session::new(Model::default().config(), Carriage::Stateless);
    let refusal = session.handle(super::Input::Bytes(&script)).unwrap_err();
    let mut decoder = crate::wire::pkt_line::Decoder::default();
    decoder.push(&refusal.wire().unwrap());
    let packet = decoder.next().unwrap().unwrap();
    assert!(
        matches!(packet, crate::wire::pkt_line::PktLine::Data(data) if data.starts_with(b"ERR unknown capability"))
    );
    assert!(decoder.is_empty());
}

/// The server parses what the client side writes.
#[test]
fn requests_both_ways() {
    use crate::message::{command, fetch_request, ls_refs};
    let model = Model { allow_filter: true, ..Model::default() };
    let ids = |names: &[&str]| names.iter().map(|name| model.id(name)).collect::<Vec<_>>();
    let deepens = [
        None,
        Some(Deepen::Depth(3)),
        Some(Deepen::Relative(1)),
        Some(Deepen::Since { seconds: Some(1_700_000_002), not: vec![b"old".to_vec()] }),
        Some(Deepen::Since { seconds: None, not: vec![b"a".to_vec(), b"b".to_vec()] }),
    ];
    for (deepen, is_on) in deepens.into_iter().flat_map(|deepen| [(deepen.clone(), false), (deepen, true)]) {
        let request = fetch_request::FetchRequest {
            wants: ids(&["c5", "t1"]),
            shallow: ids(&["c4"]),
            deepen: deepen.clone(),
            thin_pack: is_on,
            ofs_delta: !is_on,
            include_tag: is_on,
            no_progress: !is_on,
            want_refs: Vec::new(),
            sideband_all: false,
            uri_protocols: Vec::new(),
            filter: is_on.then(|| b"combine:blob:none+tree:1".to_vec()),
        };
        let (mut v0, mut v2) = (Vec::new(), Vec::new());
        let capabilities = command::ClientCapabilities {
            agent: Some("me".into()),
            hash: Some(packrace_object::HashKind::Sha1),
            session_id: None,
            server_options: vec![b"option".to_vec()],
        };
        command::write_command(&mut v2, "fetch", &capabilities);
        request.write_v2(&mut v2);
        request.write_v0(&mut v0, &["multi_ack_detailed", "side-band-64k"]);
        for (version, mut bytes) in [(0, v0), (2, v2)] {
            fetch_request::write_have(&mut bytes, &model.id("c2"));
            fetch_request::write_done(&mut bytes);
            bytes.extend_from_slice(b"0000");
            let mut session = Script { version, is_stateless: true, ..Script::default() }.session(&model);
            let (shallow, pack) = model.requests(&mut session, &bytes);
            assert_eq!(shallow.and_then(|shallow| shallow.deepen), deepen);
            let expect = super::PackRequest {
                wants: request.wants.clone(),
                haves: ids(&["c2"]),
                client_shallow: request.shallow.clone(),
                thin_pack: request.thin_pack,
                ofs_delta: request.ofs_delta,
                include_tag: request.include_tag,
                no_progress: request.no_progress,
                filter: request.filter.clone(),
                sideband: super::Sideband::Large,
                sideband_all: false,
                may_lack_promised: false,
                uri_protocols: Vec::new(),
            };
            assert_eq!(pack, Some(expect));
        }
    }
    let request =
        super::RefsRequest { symrefs: true, peel: true, unborn: true, prefixes: vec![b"refs/x".to_vec()] };
    let mut bytes = Vec::new();
    command::write_command(&mut bytes, "ls-refs", &command::ClientCapabilities::default());
    ls_refs::write_arguments(&mut bytes, &request);
    let mut session = super::fetch_v2::Session::new(model.config(), Carriage::Stateless);
    session.handle(super::Input::Bytes(&bytes)).unwrap();
    assert_eq!(session.poll_output(), super::Output::NeedRefs(request));
}
