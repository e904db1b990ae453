//! Scripts of a client, whole and in pieces. Refusals and their texts are those observed with git 2.47.3.

use super::*;
use crate::message::push_report::{RefOutcome, RefReport};
use crate::wire::pkt_line::write_data;

const A: &str = "0123456789abcdef0123456789abcdef01234567";
const ZERO: &str = "0000000000000000000000000000000000000000";

fn config() -> PushConfig {
    PushConfig { hash: HashKind::Sha1, atomic: true, push_options: true, limits: PushLimits::default() }
}

/// In scripts, `A` and `0` in braces are ids, a bar is the NUL before capabilities, and `=` starts bytes that
/// are not packets.
fn bytes_of(script: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in script {
        let line = line.replace("{A}", A).replace("{0}", ZERO).replace('|', "\0");
        match (line.as_str(), line.strip_prefix('=')) {
            ("0000" | "0001" | "0002", _) => bytes.extend_from_slice(line.as_bytes()),
            (_, Some(raw)) => bytes.extend_from_slice(raw.as_bytes()),
            (line, None) => write_data(line.as_bytes(), &mut bytes),
        }
    }
    bytes
}

/// Runs a session on the bytes in pieces of `step`: its outputs, and the beginning of the pack.
fn play(config: PushConfig, bytes: &[u8], step: usize) -> (Vec<String>, Vec<u8>) {
    let mut session = PushSession::new(config);
    let (mut said, mut pack) = (Vec::new(), Vec::new());
    let mut pieces = bytes.chunks(step);
    let mut last: &[u8] = b"";
    loop {
        let result = match session.poll_output() {
            PushOutput::NeedInput => match pieces.next() {
                Some(piece) => {
                    last = piece;
                    session.handle(PushInput::Bytes(piece))
                }
                None => session.handle(PushInput::Eof),
            },
            PushOutput::Push(request) => {
                let has_pack = request.has_pack();
                said.push(shown(&request));
                if has_pack {
                    let PushOutput::PackBytes(range) = session.poll_output() else {
                        panic!("the pack follows")
                    };
                    pack.extend_from_slice(&last[range]);
                    pack.extend(pieces.by_ref().flatten());
                }
                let report = |command: &PushCommand| RefReport {
                    name: command.name.clone(),
                    outcome: RefOutcome::Ok(Vec::new()),
                };
                let refs = request.commands.iter().map(report).collect();
                session.handle(PushInput::Finished(&PushReport { unpack_error: None, refs }))
            }
            PushOutput::PackBytes(_) => panic!("a pack without a push"),
            PushOutput::Write(bytes) => {
                said.push(format!("< {}", String::from_utf8_lossy(&bytes).replace('\n', "/")));
                Ok(())
            }
            PushOutput::Done => return (said, pack),
        };
        if let Err(refusal) = result {
            said.push(format!("! {}", refusal.message().replace(A, "{A}").replace(ZERO, "{0}")));
            assert_eq!(session.poll_output(), PushOutput::Done);
            return (said, pack);
        }
    }
}

fn shown(request: &PushRequest) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\n', "/");
    let mut words = Vec::new();
    for command in &request.commands {
        let kind = match (command.old.is_null(), command.new.is_null()) {
            (true, false) => "create",
            (false, false) => "update",
            (_, true) => "delete",
        };
        words.push(format!("{kind} {}", text(&command.name)));
    }
    words.extend(request.options.iter().map(|options| {
        let options: Vec<String> = options.iter().map(|option| text(option)).collect();
        format!("options {}", options.join(","))
    }));
    let certificate = request.certificate.iter();
    words.extend(certificate.map(|certificate| {
        let (signed, signature) = certificate.text.split_at(certificate.signature_at);
        format!("certificate {} {}", signed.len(), text(signature))
    }));
    if !request.shallow.is_empty() {
        words.push(format!("shallow {}", request.shallow.len()));
    }
    for (word, is_on) in
        [("atomic", request.atomic), ("quiet", request.quiet), ("sideband", request.sideband)]
    {
        words.extend(is_on.then(|| word.to_owned()));
    }
    words.join("; ")
}

fn check_with(config: PushConfig, script: &[&str], expect: &[&str], pack: &str) {
    let bytes = bytes_of(script);
    for step in [bytes.len().max(1), 1, 3, 50] {
        let (said, got) = play(config, &bytes, step);
        assert_eq!(said, expect, "{script:?} by {step}");
        assert_eq!(String::from_utf8_lossy(&got), pack, "{script:?} by {step}");
    }
}

fn check(script: &[&str], expect: &[&str], pack: &str) {
    check_with(config(), script, expect, pack);
}

#[test]
fn pushes() {
    check(&["0000"], &[], "");
    check(&["0000", "=rest"], &[], "");
    let report = "< 000eunpack ok/0014ok refs/heads/a/0000";
    check(
        &["{0} {A} refs/heads/a|report-status", "0000", "=PACKabc"],
        &["create refs/heads/a", report],
        "PACKabc",
    );
    check(&["{A} {A} refs/heads/a| report-status", "0000"], &["update refs/heads/a", report], "");
    check(&["{A} {0} refs/heads/a|report-status\n", "0000", "=x"], &["delete refs/heads/a", report], "");
    check(&["{A} {0} refs/heads/a|quiet", "0000", "=not a pack"], &["delete refs/heads/a; quiet"], "");
    check(
        &["shallow {A}\n", "{A} {0} b|atomic", "{0} {A} c", "0000", "=P"],
        &["delete b; create c; shallow 1; atomic"],
        "P",
    );
    let banded = "< 002b\u{1}000eunpack ok/0014ok refs/heads/a/0000";
    check(
        &["{A} {0} refs/heads/a|report-status-v2 report-status side-band-64k", "0000"],
        &["delete refs/heads/a; sideband", banded],
        "",
    );
    check(&["{A} {0} a|side-band-64k", "0000"], &["delete a; sideband"], "");
}

#[test]
fn options() {
    let first = "{0} {A} a|push-options object-format=sha1";
    check(&[first, "0000", "x=1\n", "y z", "0000", "=PACK"], &["create a; options x=1,y z"], "PACK");
    check(&[first, "0000", "0000", "=PACK"], &["create a; options "], "PACK");
    check(&[first, "0000", "x"], &["! the remote end hung up unexpectedly"], "");
    // Git uses the part before a NUL; hooks could not receive the whole.
    let why = "! protocol error: push option with a NUL: 'x?y'";
    check(&[first, "0000", "x=1", "x|y", "0000", "=PACK"], &[why], "");
    let without = PushConfig { push_options: false, atomic: false, ..config() };
    check_with(without, &["{0} {A} a|push-options atomic", "0000", "=PACK"], &["create a"], "PACK");
}

#[test]
fn certificates() {
    let head = ["push-cert|report-status", "certificate version 0.1\n", "pusher me\n", "nonce 1-a\n", "\n"];
    let command = ["{A} {0} a\n"];
    let signature = ["-----BEGIN PGP SIGNATURE-----\n", "zz\n", "-----END PGP SIGNATURE-----\n"];
    let end = ["push-cert-end\n", "0000"];
    let report = "< 000eunpack ok/0009ok a/0000";
    let marks = "-----BEGIN PGP SIGNATURE-----/zz/-----END PGP SIGNATURE-----/";
    let expect = format!("delete a; certificate 129 {marks}");
    check(&[&head[..], &command, &signature, &end].concat(), &[&expect, report], "");
    check(&[&head[..], &command, &signature, &["0000"]].concat(), &[&expect, report], "");
    check(&[&head[..], &command, &end].concat(), &["delete a; certificate 129 ", report], "");
    check(&["push-cert|x", "push-cert-end\n", "0000"], &[], "");
    let name = ["push-cert|x", "pusher me\n", "\n", "{0} {A} a|b\n", "push-cert-end\n", "0000"];
    check(&name, &["! protocol error: expected old/new/ref, got '{0} {A} a?b'"], "");
    check(&["push-cert|x", "foo\n", "0000"], &["! malformed push certificate foo?"], "");
    let bad = ["zzz\n"];
    check(&[&head[..], &bad, &end].concat(), &["! protocol error: expected old/new/ref, got 'zzz'"], "");
    check(&[&head[..], &["0001"]].concat(), &["! protocol error: got an unexpected packet"], "");
    let text =
        b"certificate version 0.1\npusher me\nnonce 1-a\npush-option x\npush-option y\n\nnonce no\n".to_vec();
    let certificate = Certificate { signature_at: text.len(), text };
    assert_eq!(certificate.header("nonce"), Some(&b"1-a"[..]));
    assert_eq!(certificate.header("pushee"), None);
    assert_eq!(certificate.headers("push-option").collect::<Vec<_>>(), [b"x", b"y"]);
}

#[test]
fn refusals_in_the_words_of_git() {
    let hung_up = "! the remote end hung up unexpectedly";
    check(&[], &[hung_up], "");
    check(&["=00"], &[hung_up], "");
    check(&["{A} {0} a|report-status"], &[hung_up], "");
    check(&["hello", "0000"], &["! protocol error: expected old/new/ref, got 'hello'"], "");
    check(&["{A} {A}", "0000"], &["! protocol error: expected old/new/ref, got '{A} {A}'"], "");
    check(&["shallow zz", "0000"], &["! protocol error: expected shallow sha, got 'zz'"], "");
    check(&["{A} {0} a|object-format=sha256"], &["! error: unsupported object format 'sha256'"], "");
    let sha256 = PushConfig { hash: HashKind::Sha256, ..config() };
    check_with(sha256, &["{A} {0} a|atomic"], &["! error: unsupported object format 'sha1'"], "");
    check(&["ERR boo\n"], &["! remote error: boo"], "");
    check(&["=zzzz"], &["! protocol error: bad line length character: zzzz"], "");
    check(&["{A} {0} a|quiet", "0001"], &["delete a; quiet"], "");
}

#[test]
fn a_refusal_goes_where_the_client_looks() {
    let check = |script: &[&str], expect: &[u8]| {
        let mut session = PushSession::new(config());
        let refusal = session.handle(PushInput::Bytes(&bytes_of(script))).unwrap_err();
        let wire = session.wire(&refusal).unwrap();
        assert!(wire[4..].starts_with(expect), "{wire:?}");
    };
    check(&["hello"], b"ERR protocol error");
    check(&["{A} {0} a|side-band-64k", "hello"], b"\x03protocol error");
}

#[test]
fn limits() {
    let limits = PushLimits {
        commands: 2,
        name_bytes: 20,
        shallow: 1,
        options: 2,
        option_bytes: 10,
        certificate_bytes: 30,
    };
    let config = PushConfig { limits, ..config() };
    let check = |script: &[&str], what: &str| {
        check_with(config, script, &[&format!("! more than {what} in one request")], "");
    };
    check(&["{A} {0} a", "{A} {0} b", "{A} {0} c"], "2 commands");
    check(&["{A} {0} refs/heads/abcdefghijk"], "20 bytes of names");
    check(&["shallow {A}", "shallow {A}"], "1 shallow lines");
    let first = "{0} {A} a|push-options";
    check(&[first, "0000", "a", "b", "c"], "2 push options");
    check(&[first, "0000", "12345678901"], "10 bytes of push options");
    check(&["push-cert|x", "certificate version 0.1\n", "pusher me\n"], "30 bytes of a push certificate");
}

#[test]
fn every_beginning_and_every_changed_byte() {
    let scripts: [&[&str]; 3] = [
        &["shallow {A}", "{0} {A} a|push-options side-band-64k", "{A} {0} b", "0000", "x", "0000", "=PACK"],
        &["push-cert|report-status", "pusher me\n", "\n", "{A} {0} a\n", "push-cert-end\n", "0000"],
        &["{A} {0} a|report-status-v2 object-format=sha1", "0000"],
    ];
    let mut refused = 0;
    for script in scripts {
        let bytes = bytes_of(script);
        let mut try_one = |bytes: &[u8]| {
            let (whole, pieces) = (play(config(), bytes, bytes.len().max(1)), play(config(), bytes, 7));
            assert_eq!(whole, pieces, "{bytes:?}");
            refused += usize::from(whole.0.last().is_some_and(|line| line.starts_with('!')));
        };
        (0..bytes.len()).for_each(|end| try_one(&bytes[..end]));
        for at in 0..bytes.len() {
            for flip in [0x01, 0x10, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                try_one(&damaged);
            }
        }
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn answers_at_the_wrong_time() {
    let report = PushReport::default();
    let mut session = PushSession::new(config());
    assert!(session.handle(PushInput::Finished(&report)).is_err());
    assert_eq!(session.handle(PushInput::Bytes(b"0000")), Ok(()));
    assert_eq!(session.poll_output(), PushOutput::Done);
    let mut session = PushSession::new(config());
    session.handle(PushInput::Bytes(&bytes_of(&["{A} {0} a|quiet", "0000"]))).unwrap();
    assert!(session.handle(PushInput::Bytes(b"more")).is_err());
}
