//! Signed pushes, with a signer that signs nothing.

use packrace_testkit::Git;

use super::hooks::script;
use super::{Pair, said};
use crate::running::PACKRACE;

/// Stands for gpg: signs, and says what it is told to say when it verifies.
const SIGNER: &str = r#"#!/bin/sh
case "$*" in
*--verify*)
    file=$(for word; do test "$word" = - || last=$word; done; echo "$last")
    grep -q "BEGIN PGP SIGNATURE" "$file" || exit 1
    cat >/dev/null
    echo "[GNUPG:] GOODSIG 0123456789ABCDEF C O Mitter <committer@example.com>"
    echo "[GNUPG:] TRUST_ULTIMATE 0 pgp"
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
    script(&signer, SIGNER);
    script(&pair.server().join("hooks/pre-receive"), HOOK);
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
