//! Signed pushes, with a fake signer.

use std::process::Command;

use packrace_testkit::Git;

use super::{Pair, said};
use crate::running::PACKRACE;
use packrace_testkit::write_program;

/// A stand-in for gpg: signs, and prints a given result when it verifies.
const SIGNER: &str = r#"#!/bin/sh
case "$*" in
*--verify*)
    file=$(for word; do test "$word" = - || last=$word; done; echo "$last")
    grep -q "BEGIN PGP SIGNATURE" "$file" || exit 1
    cat >/dev/null
    echo "[GNUPG:] GOODSIG 0123456789ABCDEF C O Mitter <committer@example.com>"
    echo "[GNUPG:] TRUST_UNDEFINED 0 pgp"
    # What is said beside the status is for people.
    echo "[GNUPG:] BADSIG 0123456789ABCDEF C O Mitter <committer@example.com>" >&2
    ;;
*)
    cat >/dev/null
    echo "[GNUPG:] SIG_CREATED " >&2
    printf -- "-----BEGIN PGP SIGNATURE-----\n\nsigned\n-----END PGP SIGNATURE-----\n"
    ;;
esac
"#;

const HOOK: &str = r#"#!/bin/sh
env | grep ^GIT_PUSH_CERT | sed 's/=[0-9]*-.*/=nonce/;s/CERT=[0-9a-f]*$/CERT=id/' | sort >told
test -z "$GIT_PUSH_CERT" || git cat-file blob "$GIT_PUSH_CERT" | grep -E '^(certificate|pusher|push-option|---|[0-9a-f]{40} )' | sed 's/> [0-9]* /> now /' >>told
"#;

fn hook_log(program: &str, seed: bool, arguments: &[&str]) -> (String, String) {
    let pair = Pair::new();
    let signer = pair.root().join("signer");
    write_program(&signer, SIGNER);
    write_program(&pair.server().join("hooks/pre-receive"), HOOK);
    let signer = signer.to_str().unwrap();
    pair.config(&[("gpg.program", signer), ("receive.advertisePushOptions", "true")]);
    if seed {
        pair.config(&[("receive.certNonceSeed", "sesame")]);
    }
    Git::stock().run(&pair.work(), &["config", "gpg.program", signer]);
    let program = format!("--receive-pack={program} receive-pack");
    let output = pair.push_with(Git::stock(), &[&[program.as_str()], arguments].concat());
    (std::fs::read_to_string(pair.server().join("told")).unwrap_or_default(), said(&output))
}

#[test]
fn hooks_are_told_of_certificates_as_by_git() {
    let signed = ["--signed", "-o", "word", "../srv.git", "HEAD:refs/heads/new"];
    let (ours, output) = hook_log(PACKRACE, true, &signed);
    assert!(ours.contains("GIT_PUSH_CERT_STATUS=G\n"), "{ours}\n{output}");
    assert!(ours.contains("GIT_PUSH_CERT_NONCE_STATUS=OK\n"), "{ours}\n{output}");
    assert_eq!(ours, hook_log("git", true, &signed).0);
    let plain = ["../srv.git", "HEAD:refs/heads/new"];
    assert_eq!(hook_log(PACKRACE, true, &plain).0, "");
    let (_, output) = hook_log(PACKRACE, false, &signed);
    assert!(output.contains("the receiving end does not support --signed push"), "{output}");
}

/// What a hook learns about a push signed with the key `signer`, with files of `settings`, and whether the
/// pusher learns what is missing.
fn signed_with_ssh(program: &str, signer: &str, settings: &[(&str, &str)]) -> String {
    let pair = Pair::new();
    write_program(&pair.server().join("hooks/pre-receive"), HOOK);
    for name in ["known", "stranger"] {
        let seed = ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", name];
        let made = Command::new("ssh-keygen").current_dir(pair.root()).args(seed).status().unwrap();
        assert!(made.success());
    }
    let key = std::fs::read_to_string(pair.root().join("known.pub")).unwrap();
    std::fs::write(pair.root().join("one"), format!("a@example.com,b@example.com {key}")).unwrap();
    std::fs::write(pair.root().join("files-only"), format!("a@example.com namespaces=\"file\" {key}"))
        .unwrap();
    let path = |name: &str| pair.root().join(name).to_str().unwrap().to_owned();
    pair.config(&[("receive.certNonceSeed", "sesame")]);
    for (name, value) in settings {
        pair.config(&[(name, &path(value))]);
    }
    for (name, value) in [("gpg.format", "ssh"), ("user.signingKey", &path(signer))] {
        Git::stock().run(&pair.work(), &["config", name, value]);
    }
    let program = format!("--receive-pack={program} receive-pack");
    let output = pair.push_with(Git::stock(), &[&program, "--signed", "../srv.git", "HEAD:refs/heads/new"]);
    let told = std::fs::read_to_string(pair.server().join("told")).unwrap_or_default();
    // Each run makes new keys.
    let hash = |line: &str| {
        line.split_once("SHA256:").map_or(line.to_owned(), |(begin, _)| format!("{begin}SHA256"))
    };
    let words = "gpg.ssh.allowedSignersFile needs to be configured and exist for ssh signature verification";
    let lines = told.lines().filter(|line| line.starts_with("GIT_PUSH")).map(hash).collect::<Vec<_>>();
    format!("{}\n{}", lines.join("\n"), said(&output).contains(words))
}

#[test]
#[ignore = "needs ssh"]
fn signatures_of_ssh_are_told_as_by_git() {
    let allowed = "gpg.ssh.allowedSignersFile";
    for (signer, settings, expect) in [
        (
            "known",
            &[(allowed, "one")][..],
            "GIT_PUSH_CERT_SIGNER=a@example.com\nGIT_PUSH_CERT_STATUS=G\nfalse",
        ),
        ("stranger", &[(allowed, "one")], "GIT_PUSH_CERT_SIGNER=\nGIT_PUSH_CERT_STATUS=G\nfalse"),
        ("known", &[(allowed, "files-only")], "GIT_PUSH_CERT_SIGNER=\nGIT_PUSH_CERT_STATUS=B\nfalse"),
        ("known", &[(allowed, "absent")], "GIT_PUSH_CERT_SIGNER=\nGIT_PUSH_CERT_STATUS=G\nfalse"),
        ("known", &[], "GIT_PUSH_CERT_SIGNER=\nGIT_PUSH_CERT_STATUS=N\ntrue"),
    ] {
        let ours = signed_with_ssh(PACKRACE, signer, settings);
        assert!(ours.ends_with(expect), "{settings:?}: {ours}");
        assert_eq!(ours, signed_with_ssh("git", signer, settings), "{settings:?}");
    }
    // git 2.47 passes revoked keys in a way that ssh-keygen overlooks.
    let revoked = [(allowed, "one"), ("gpg.ssh.revocationFile", "known.pub")];
    let told = signed_with_ssh(PACKRACE, "known", &revoked);
    assert!(told.ends_with("GIT_PUSH_CERT_SIGNER=\nGIT_PUSH_CERT_STATUS=B\nfalse"), "{told}");
}
