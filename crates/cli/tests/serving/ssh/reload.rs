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
    served
        .server
        .wait_until("the new keys", |server| server.log().contains("keys of users: 1; authorities: 1"));
    assert!(served.lets_in(&carol) && !served.lets_in(&served.alice) && !served.lets_in(&served.bob));
    assert_eq!(client.finish(running, b"0000").code, Some(0), "a session goes on");

    let mistake = |name: &str, text: &str, expect: &str| {
        let before = std::fs::read(served.file(name)).unwrap();
        std::fs::write(served.file(name), text).unwrap();
        served.server.signal("-HUP");
        let words = format!("settings stay as they were: {}{expect}", served.file(name).display());
        served.server.wait_until(&words, |server| server.log().contains(&words));
        assert!(served.lets_in(&carol));
        std::fs::write(served.file(name), before).unwrap();
    };
    let list = format!("carol {0}\n\ndave {0}\n", public(&carol));
    let fingerprint = carol.public_key().fingerprint(russh::keys::HashAlg::Sha256);
    mistake("keys", &list, &format!(":3: {fingerprint} is a key of \"carol\", too"));
    mistake("ca", "# nobody\n", ": there is no key in it");
    mistake("host-key", "nothing", ": no private key: ");
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
    check(
        keys,
        "listen.ssh: there are no ssh.host-keys; this makes one: ssh-keygen -t ed25519 -N '' -f FILE",
    );
    let host = "host-keys = [\"FOLDER/host-key\"]\n";
    let nobody = "nobody could get in without ssh.user-keys, ssh.user-keys-folder, ssh.user-keys-command or ssh.user-ca";
    check(host, &format!("ssh.host-keys: {nobody}"));
    let twice = "host-keys = [\"FOLDER/host-key\", \"FOLDER/host-key\"]\n";
    check(&format!("{twice}{keys}"), "ssh.host-keys: two keys are of the kind ssh-ed25519");
    mode("host-key", 0o644);
    let open = "permissions 0644 are too open: others can read it; try chmod 600";
    check(&format!("{host}{keys}"), &format!("{}: {open}", file("host-key")));
    mode("host-key", 0o600);
    mode("keys", 0o664);
    let open = "permissions 0664 are too open: others can change it; try chmod 644";
    check(&format!("{host}{keys}"), &format!("{}: {open}", file("keys")));
}
