//! Keys in a folder, keys that a program looks up, and lines for sshd.

use super::*;

#[test]
fn keys_in_a_folder_and_keys_that_a_program_knows() {
    let folder = tempfile::tempdir().unwrap();
    let [carol, dave, erin, frank] = [(); 4].map(|()| made_key());
    let file = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(file("keydir/home")).unwrap();
    std::fs::write(file("keydir/home/alice@laptop.pub"), public(&carol)).unwrap();
    std::fs::write(file("keydir/bob.pub"), format!("# two\n{}\n{}\n", public(&dave), public(&erin))).unwrap();
    std::fs::write(file("keydir/README"), "not a key").unwrap();
    // The program knows frank, and fails while a file exists.
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>'{0}/asked'\n[ -e '{0}/broken' ] && exit 1\ncase $3 in\n{1}) echo \"alice $2 $3\";;\nesac\n",
        folder.path().display(),
        public(&frank).split(' ').nth(1).unwrap()
    );
    packrace_testkit::write_program(&file("who"), &script);
    let path = folder.path().display();
    let more = format!("[sandbox]\nwrite-paths = [\"{path}\"]\n");
    let served = SshServer::start(&more);
    let config = std::fs::read_to_string(served.server.config()).unwrap();
    let both = format!("user-keys-folder = \"{path}/keydir\"\nuser-keys-command = \"{path}/who\"\nuser-ca");
    std::fs::write(served.server.config(), config.replace("user-ca", &both)).unwrap();
    served.server.signal("-HUP");
    served.server.wait_until("the new keys", |server| {
        server.log().contains("user keys: 5; user CAs: 1; user-keys-command: ")
    });

    for (key, name) in
        [(&carol, "alice"), (&dave, "bob"), (&erin, "bob"), (&frank, "alice"), (&served.bob, "bob")]
    {
        let client = served.login(key);
        let shell = client.finish(client.begin(None, None).unwrap(), b"");
        assert!(shell.err.contains(&format!("you are {name}.")), "{}", shell.err);
    }
    let asked = std::fs::read_to_string(file("asked")).unwrap();
    let fingerprint = frank.public_key().fingerprint(russh::keys::HashAlg::Sha256);
    assert_eq!(asked.trim_end(), format!("{fingerprint} {}", public(&frank)), "once for each connection");
    assert!(!served.lets_in(&made_key()));
    std::fs::write(file("broken"), "").unwrap();
    assert!(!served.lets_in(&frank), "nobody gets in where it fails");
    let words = "ssh.user-keys-command: ";
    assert!(served.server.log().contains(words), "{}", served.server.log());
}

#[test]
fn lines_for_sshd() {
    let served = SshServer::start("");
    let run = |args: &[&str]| {
        let mut command = packrace();
        command.args(["access", "keys", "--config"]).arg(served.server.config()).args(args);
        let ran = output(&mut command);
        assert!(ran.status.success(), "{}", said(&ran));
        String::from_utf8(ran.stdout).unwrap()
    };
    let root = served.file("it's served").display().to_string();
    let line = |user: &str, key: &PrivateKey| {
        format!(
            "restrict,command=\"{} shell --config {} '{}' {user}\" {}\n",
            std::fs::canonicalize(env!("CARGO_BIN_EXE_packrace")).unwrap().display(),
            served.server.config().display(),
            root.replace('\'', "'\\''"),
            public(key)
        )
    };
    let (alice, bob) = (line("alice", &served.alice), line("bob", &served.bob));
    assert_eq!(run(&["--all", &root]), format!("{alice}{bob}"));
    let authority = format!("cert-authority,principals=\"bob\",{}", line("bob", &served.authority));
    assert_eq!(run(&[&root, "bob"]), format!("{bob}{authority}"));
    let blob = |key: &PrivateKey| public(key).split(' ').nth(1).unwrap().to_owned();
    assert_eq!(run(&["--key", &blob(&served.alice), &root]), alice);
    for key in [blob(&made_key()), blob(&served.authority), "AAAA".to_owned(), "*".to_owned()] {
        assert_eq!(run(&["--key", &key, &root]), "");
    }
    let mut command = packrace();
    command.args(["access", "keys", "--config"]).arg(served.server.config()).arg(&root);
    assert_eq!(output(&mut command).status.code(), Some(129), "whose keys?");
    assert_eq!(output(command.arg("a\",b")).status.code(), Some(129));
}
