//! Features of version 2 that the configuration turns on.

use super::model::{Model, Script};
use super::{check, check_stock};
use crate::message::{command, fetch_request, object_info};
use crate::session::{Carriage, Features, Input, ObjectInfoRequest, Output, RequestLimits, fetch_v2};
use crate::wire::pkt_line::MAX_PAYLOAD;

const FETCH: &str = "v2 stateful\n> command=fetch\n> 0001\n";

#[test]
fn stock_git_answers_the_same_with_features() {
    check_stock(&Model::with_features(), include_str!("stock_features.txt"), 65);
}

#[test]
fn what_is_off_is_refused_by_name() {
    let model = Model::default();
    for line in ["want-ref refs/heads/main", "sideband-all", "packfile-uris https"] {
        check(&model, &format!("## {line}\n{FETCH}> {line}\n! unexpected line: '{line}'\n"));
    }
    for name in ["object-info", "bundle-uri"] {
        check(&model, &format!("## {name}\nv2 stateful\n> command={name}\n! invalid command '{name}'\n"));
    }
    let key = "promisor-remote=a";
    check(
        &model,
        &format!("## {key}\nv2 stateful\n> command=fetch\n> {key}\n! unknown capability '{key}'\n"),
    );
}

/// The documented order. git sends wanted-refs before shallow-info.
#[test]
fn sections_come_in_order() {
    let model = Model::with_features();
    let lines = "> want-ref refs/heads/main\n> deepen 1\n> packfile-uris http\n> have {c2}\n";
    let plain = "< acknowledgments\n< ACK {c2}\n< ready\n< 0001\n< shallow-info\n< shallow {c5}\n< 0001\n\
        < wanted-refs\n< {c5} refs/heads/main\n< 0001\n\
        < packfile-uris\n< 7777777777777777777777777777777777777777 http://b.example/2.pack\n< 0001\n< packfile\n";
    check(&model, &format!("## plain\n{FETCH}{lines}> 0000\n{plain}< PACK\n"));
    let banded = plain.replace("< ", "< \\1").replace("\\10001", "0001");
    check(&model, &format!("## banded\n{FETCH}> sideband-all\n{lines}> 0000\n{banded}< PACK\n"));
}

/// Git answers each line as it reads it, and sets up the side-band no sooner.
#[test]
fn errors_are_told_when_a_request_is_complete() {
    let lines = "> want {u1}\n> want-ref refs/heads/no\n> sideband-all\n> done\n> 0000\n";
    check(&Model::with_features(), &format!("## ref\n{FETCH}{lines}! unknown ref refs/heads/no\n"));
    let answer = "< \\3upload-pack: not our ref {u1}\n! git upload-pack: not our ref {u1}\n";
    check(
        &Model::with_features(),
        &format!("## want\n{FETCH}> want {{u1}}\n> sideband-all\n> done\n> 0000\n{answer}"),
    );
}

/// Git lists refs in the order of a hash table.
#[test]
fn wanted_refs_are_told_in_the_order_of_the_request() {
    let wants = "> want-ref refs/tags/v1\n> want-ref refs/heads/main\n> want-ref refs/heads/old\n";
    let answer =
        "< wanted-refs\n< {t1} refs/tags/v1\n< {c5} refs/heads/main\n< {c2} refs/heads/old\n< 0001\n";
    let script = format!("## order\n{FETCH}{wants}> done\n> 0000\n{answer}< packfile\n< PACK\n");
    check(&Model::with_features(), &script);
}

#[test]
fn uris_are_of_protocols_that_the_client_knows() {
    let check = |protocols: &str, uris: &[&str]| {
        let lines: String = uris.iter().map(|uri| format!("< {} {uri}\n", "7".repeat(40))).collect();
        let section =
            if uris.is_empty() { String::new() } else { format!("< packfile-uris\n{lines}< 0001\n") };
        let request = format!("{FETCH}> want {{c5}}\n> packfile-uris {protocols}\n> done\n> 0000\n");
        check(&Model::with_features(), &format!("## {protocols}\n{request}{section}< packfile\n< PACK\n"));
    };
    check("https", &["https://a.example/1.pack"]);
    check("https,http", &["https://a.example/1.pack", "http://b.example/2.pack"]);
    check("ftp,http,", &["http://b.example/2.pack"]);
    check("HTTPS", &[]);
    check(",", &[]);
    check("\u{fffd}", &[]);
}

#[test]
fn want_refs_have_limits() {
    let limits = RequestLimits { wants: 2, name_bytes: 20, ..RequestLimits::default() };
    let model = Model { limits, ..Model::with_features() };
    let refused = |lines: &str, words: &str| {
        check(&model, &format!("## {words}\n{FETCH}{lines}! more than {words} in one request\n"));
    };
    refused("> want-ref a\n> want-ref b\n> want-ref c\n", "2 want-ref lines");
    refused("> want-ref refs/heads/main\n> want-ref x12345\n", "20 bytes of want-ref lines");
    let ids = "> oid {c1}\n> oid {c2}\n> oid {c3}\n";
    let words = "! more than 2 objects in one request\n";
    check(&model, &format!("## objects\nv2 stateful\n> command=object-info\n> 0001\n> size\n{ids}{words}"));
}

#[test]
fn a_name_that_no_answer_could_hold_is_unknown() {
    let mut session = fetch_v2::Session::new(Model::with_features().config(), Carriage::Stateless);
    let name = "n".repeat(MAX_PAYLOAD - "want-ref ".len());
    let script = Model::packets(&["command=fetch", "0001", &format!("want-ref {name}")]);
    let refusal = session.handle(Input::Bytes(&script)).unwrap_err();
    assert!(refusal.message().starts_with("unknown ref nnnn"));
}

#[test]
fn a_hundred_thousand_want_refs() {
    let session_with = |names: &mut dyn Iterator<Item = String>| {
        let mut session = fetch_v2::Session::new(Model::with_features().config(), Carriage::Stateless);
        session.handle(Input::Bytes(&Model::packets(&["command=fetch", "0001"]))).unwrap();
        for name in names {
            session.handle(Input::Bytes(&Model::packets(&[&format!("want-ref {name}")]))).unwrap();
        }
        session
    };
    let name = |number: usize| format!("refs/heads/{number}");
    let mut session = session_with(&mut (0..100_000).map(name));
    session.handle(Input::Bytes(b"0000")).unwrap();
    let Output::ResolveRefs(names) = session.poll_output() else { panic!("no question about refs") };
    assert_eq!(names.len(), 100_000);
    let model = Model::default();
    let ids = vec![model.id("c5"); names.len()];
    session.handle(Input::RefsResolved(ids)).unwrap();
    assert_eq!(session.poll_output(), Output::CheckWants(vec![model.id("c5")]));
    let mut session = session_with(&mut (0..100_000).map(name).chain([name(500)]));
    let refusal = session.handle(Input::Bytes(b"0000")).unwrap_err();
    assert_eq!(refusal.message(), "duplicate want-ref refs/heads/500");
}

#[test]
fn an_answer_about_other_refs_is_out_of_order() {
    let mut session = fetch_v2::Session::new(Model::with_features().config(), Carriage::Stateless);
    let script = Model::packets(&["command=fetch", "0001", "want-ref refs/heads/main", "done", "0000"]);
    session.handle(Input::Bytes(&script)).unwrap();
    assert_eq!(session.poll_output(), Output::ResolveRefs(vec![b"refs/heads/main".to_vec()]));
    let refusal = session.handle(Input::RefsResolved(Vec::new())).unwrap_err();
    assert_eq!(refusal.wire(), None);
    assert_eq!(session.poll_output(), Output::Done);
}

/// Git dereferences a null pointer if there is no value.
#[test]
fn promisor_remotes_that_a_client_accepts() {
    let features = Features { promisor_remote: Some(b"name=a,url=b".to_vec()), ..Features::default() };
    let model = Model { features, ..Model::default() };
    let fetch = "> 0001\n> want {c5}\n> done\n> 0000\n< packfile\n< PACK\n";
    for names in ["a", "a;b%3bc", "other", "", ";", "a;", "%", "a%4"] {
        let key = format!("> command=fetch\n> promisor-remote={names}\n");
        check(&model, &format!("## {names}\nv2 stateful\n{key}{fetch}"));
    }
    let accepts = |names: &str| {
        let script = ["command=fetch", &format!("promisor-remote={names}"), "0001"];
        let want = format!("want {}", model.id("c5"));
        let script = Model::packets(&[script.as_slice(), &[&want, "done", "0000"]].concat());
        let mut session = Script { version: 2, is_stateless: true, ..Script::default() }.session(&model);
        model.requests(&mut session, &script).1.unwrap().may_lack_promised
    };
    assert!(accepts("a") && accepts("b;%61") && accepts(";a") && !accepts("b") && !accepts("a%4"));
    // git 2.55 says so with its first command, and not with the fetch.
    let accepted_before = |names: &str| {
        let refs = ["command=ls-refs", &format!("promisor-remote={names}"), "0001", "0000"];
        let want = format!("want {}", model.id("c5"));
        let script = [&refs[..], &["command=fetch", "0001", &want, "done", "0000"]].concat();
        let mut session = Script { version: 2, ..Script::default() }.session(&model);
        model.requests(&mut session, &Model::packets(&script)).1.unwrap().may_lack_promised
    };
    assert!(accepted_before("a") && !accepted_before("b"));
    let words = "promisor-remote capability requires an argument";
    let key = "> command=fetch\n> promisor-remote";
    check(&model, &format!("## without a value\nv2 stateful\n{key}\n! {words}\n"));
}

/// An `ERR` packet ends a session (gitprotocol-pack); of this command git sends one for each error, and continues.
#[test]
fn errors_of_object_info_end_the_session() {
    for (line, words) in [
        ("type", "unexpected line: 'type'"),
        ("oid", "unexpected line: 'oid'"),
        ("size x", "unexpected line: 'size x'"),
        ("oid ", "protocol error, expected to get oid, not ''"),
        ("oid {c1}x", "protocol error, expected to get oid, not '{c1}x'"),
    ] {
        let request = format!("v2 stateful\n> command=object-info\n> 0001\n> size\n> {line}\n");
        check(&Model::with_features(), &format!("## {line}\n{request}! object-info: {words}\n"));
    }
}

#[test]
fn refusals_in_a_side_band_fit_a_packet() {
    let mut session = fetch_v2::Session::new(Model::with_features().config(), Carriage::Stateless);
    let line = "x".repeat(MAX_PAYLOAD);
    let script = Model::packets(&["command=fetch", "0001", "sideband-all", &line]);
    let refusal = session.handle(Input::Bytes(&script)).unwrap_err();
    let wire = session.wire(&refusal).unwrap();
    assert!(wire.starts_with(b"1005\x03unexpected line: 'xxx"), "{:?}", String::from_utf8_lossy(&wire[..20]));
    assert_eq!(wire.len(), 0x1005);
    // The state of a finished request does not leak into the next.
    assert!(refusal.wire().unwrap()[4..].starts_with(b"ERR unexpected"));
}

/// The server parses what the client side writes.
#[test]
fn requests_both_ways() {
    let model = Model::with_features();
    let request = fetch_request::FetchRequest {
        want_refs: vec![b"refs/heads/main".to_vec(), b"refs/tags/v1".to_vec()],
        sideband_all: true,
        uri_protocols: b"http,https".to_vec(),
        ..fetch_request::FetchRequest::default()
    };
    let mut bytes = Vec::new();
    command::write_command(&mut bytes, "fetch", &command::ClientCapabilities::default());
    request.write_v2(&mut bytes);
    fetch_request::write_done(&mut bytes);
    bytes.extend_from_slice(b"0000");
    let mut session = Script { version: 2, is_stateless: true, ..Script::default() }.session(&model);
    let (_, pack) = model.requests(&mut session, &bytes);
    let pack = pack.unwrap();
    assert_eq!(pack.wants, [model.id("c5"), model.id("t1")]);
    assert!(pack.sideband_all);
    assert_eq!(pack.uri_protocols, b"http,https");
    let request = ObjectInfoRequest { size: true, ids: vec![model.id("c1"), model.id("u1")] };
    let mut bytes = Vec::new();
    command::write_command(&mut bytes, "object-info", &command::ClientCapabilities::default());
    object_info::write_arguments(&mut bytes, &request);
    let mut session = fetch_v2::Session::new(model.config(), Carriage::Stateless);
    session.handle(Input::Bytes(&bytes)).unwrap();
    assert_eq!(session.poll_output(), Output::NeedObjectInfo(request));
}
