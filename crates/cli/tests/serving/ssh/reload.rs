//! SIGHUP.

use super::*;

#[test]
fn keys_are_read_again_and_running_clones_go_on() {
    let served = SshServer::start("");
    let client = served.login(&served.alice);
    let mut running = client.begin(Some("version=2"), Some(b"git-upload-pack '/a.git'")).unwrap();
    client.take(&mut running, 20);

    let carol = made_key();
    std::fs::write(served.file("keys"), format!("carol {}\n", public(&carol))).unwrap();
    served.server.signal("-HUP");
    served.server.wait_until("the new keys", |server| server.log().contains("user keys: 1; user CAs: 1"));
    assert!(served.lets_in(&carol) && !served.lets_in(&served.alice) && !served.lets_in(&served.bob));
    assert_eq!(client.finish(running, b"0000").code, Some(0), "a session goes on");

    let mistake = |name: &str, text: &str, expect: &str| {
        let before = std::fs::read(served.file(name)).unwrap();
        std::fs::write(served.file(name), text).unwrap();
        served.server.signal("-HUP");
        let words = format!("reload failed, settings unchanged: {}{expect}", served.file(name).display());
        served.server.wait_until(&words, |server| server.log().contains(&words));
        assert!(served.lets_in(&carol));
        std::fs::write(served.file(name), before).unwrap();
    };
    let list = format!("carol {0}\n\ndave {0}\n", public(&carol));
    let fingerprint = carol.public_key().fingerprint(russh::keys::HashAlg::Sha256);
    mistake("keys", &list, &format!(":3: {fingerprint} is also a key of \"carol\""));
    mistake("ca", "# nobody\n", ": contains no key");
    mistake("host-key", "nothing", ": not a private key: ");
}

#[test]
fn what_is_revoked_gets_in_no_more() {
    let served = SshServer::start("");
    let shows = |key_id: &PrivateKey, serial| {
        let mut builder =
            Builder::new_with_random_nonce(&mut safe_rng(), key_id.public_key(), 0, 1 << 40).unwrap();
        builder.serial(serial).unwrap().cert_type(CertType::User).unwrap().key_id("laptop").unwrap();
        builder.valid_principal("alice").unwrap();
        let certificate = builder.sign(&served.authority).unwrap();
        served.connect().shows_certificate("git", key_id, certificate)
    };
    let carol = made_key();
    assert!(served.lets_in(&served.alice) && shows(&carol, 7) && shows(&carol, 8));
    let client = served.login(&served.alice);
    let mut running = client.begin(Some("version=2"), Some(b"git-upload-pack '/a.git'")).unwrap();
    client.take(&mut running, 20);

    let list = served.file("revoked");
    let config = std::fs::read_to_string(served.server.config()).unwrap();
    let setting = format!("revoked-keys = {list:?}\nuser-ca");
    std::fs::write(served.server.config(), config.replace("user-ca", &setting)).unwrap();
    let reload = |text: &str, expect: &str| {
        std::fs::write(&list, text).unwrap();
        served.server.signal("-HUP");
        served.server.wait_until(expect, |server| server.log().contains(expect));
    };
    reload(&format!("# lost\n{}\nserial: 7\n", public(&served.alice)), "revoked: 2");
    assert!(!served.lets_in(&served.alice) && served.lets_in(&served.bob));
    assert!(!shows(&carol, 7) && shows(&carol, 8));
    assert_eq!(client.finish(running, b"0000").code, Some(0), "a session goes on");
    let fingerprint = served.alice.public_key().fingerprint(russh::keys::HashAlg::Sha256);
    assert!(
        served.server.log().contains(&format!("{fingerprint}: key is revoked")),
        "{}",
        served.server.log()
    );
    assert!(served.server.log().contains("serial 7: revoked"), "{}", served.server.log());
    // sshd gets no line for revoked keys.
    let mut keys = packrace();
    keys.args(["access", "keys", "--all", "--config"]).arg(served.server.config()).arg(served.file("root"));
    let lines = String::from_utf8(output(&mut keys).stdout).unwrap();
    assert!(lines.contains(&public(&served.bob)) && !lines.contains(&public(&served.alice)), "{lines}");

    reload(
        "serial: 7\nserial: 9-8\n",
        &format!("reload failed, settings unchanged: {}:2: 9 is greater than 8", list.display()),
    );
    assert!(!served.lets_in(&served.alice), "what was read before stays");
    reload(&format!("{}\n", public(&served.authority)), "revoked: 1");
    assert!(served.lets_in(&served.alice) && !shows(&carol, 8), "an authority");
}

#[test]
fn a_certificate_that_expires_ends_no_session() {
    let served = SshServer::start("");
    let key = made_key();
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    // A slow machine may need longer to begin.
    let begun = [2, 8, 32].into_iter().find_map(|seconds| {
        let shown = certificate(&key, &served.authority, &["alice"], (0, now() + seconds));
        let mut client = served.connect();
        let is_in = client.shows_certificate("git", &key, shown.clone());
        let channel = is_in.then(|| client.begin(Some("version=2"), Some(b"git-upload-pack '/a.git'")))?;
        Some((shown, channel.ok()?, client))
    });
    let (shown, mut channel, client) = begun.expect("a session begins");
    client.take(&mut channel, 20);
    let lets_in = || served.connect().shows_certificate("git", &key, shown.clone());
    served.server.wait_until("the end of the certificate", |_| !lets_in());
    let tip = Git::stock().run(&served.server.repository(), &["rev-parse", "HEAD"]);
    let fetch = Script::new().fetch_v2("sha1", &[tip.trim()], &[]).flush();
    let ran = client.finish(channel, fetch.bytes());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.windows(4).any(|bytes| bytes == b"PACK"));
}

#[test]
fn what_is_wrong_ends_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let mode = |name: &str, mode| {
        std::fs::set_permissions(file(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir(file("root")).unwrap();
    write_private(Path::new(&file("host-key")), &made_key());
    std::fs::write(file("keys"), "").unwrap();
    let check = |settings: &str, expect: &str| {
        let settings = settings.replace("FOLDER", &folder.path().display().to_string());
        std::fs::write(file("serve.toml"), format!("[listen]\nssh = \"127.0.0.1:0\"\n[ssh]\n{settings}"))
            .unwrap();
        let ended = output(packrace().args(["serve", "--config", &file("serve.toml"), &file("root")]));
        let last = said(&ended).lines().last().unwrap_or_default().to_owned();
        assert_eq!(last, format!("fatal: {expect}"));
        assert_eq!(ended.status.code(), Some(128));
    };
    let keys = "user-keys = \"FOLDER/keys\"\n";
    check(keys, "listen.ssh: needs ssh.host-keys; create one with: ssh-keygen -t ed25519 -N '' -f FILE");
    let host = "host-keys = [\"FOLDER/host-key\"]\n";
    let nobody =
        "nobody could log in: set ssh.user-keys, ssh.user-keys-folder, ssh.user-keys-command or ssh.user-ca";
    check(host, &format!("ssh.host-keys: {nobody}"));
    let twice = "host-keys = [\"FOLDER/host-key\", \"FOLDER/host-key\"]\n";
    check(&format!("{twice}{keys}"), "ssh.host-keys: two keys of the type ssh-ed25519");
    mode("host-key", 0o644);
    let open = "permissions 0644 are too open: others can read it; try chmod 600";
    check(&format!("{host}{keys}"), &format!("{}: {open}", file("host-key")));
    mode("host-key", 0o600);
    mode("keys", 0o664);
    let open = "permissions 0664 are too open: others can change it; try chmod 644";
    check(&format!("{host}{keys}"), &format!("{}: {open}", file("keys")));
}
