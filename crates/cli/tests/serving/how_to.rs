//! Runs the commands in the pages of `docs/how-to`.

use std::net::TcpListener;

use super::*;

/// Ports that the pages use.
const PORTS: [&str; 4] = ["8417", "8418", "8422", "8443"];

/// Runs the commands of a page, in a shell and in an empty folder. Lines that begin with `!` must fail.
#[track_caller]
fn check(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let mut script = "set -eu\n".to_owned();
    let mut is_code = false;
    for line in text.lines() {
        match (line, line.strip_prefix("! ")) {
            ("```sh", _) => is_code = true,
            ("```", _) => is_code = false,
            (_, Some(fails)) if is_code => {
                script += &format!(
                    "if {fails}; then echo 'did not fail: {}' >&2; exit 1; fi\n",
                    fails.replace('\'', "")
                );
            }
            _ if is_code => script += &format!("{line}\n"),
            _ => {}
        }
    }
    // Bound at the same time, so that they differ.
    let listeners = PORTS.map(|port| (port, TcpListener::bind("127.0.0.1:0").unwrap()));
    for (port, listener) in &listeners {
        script = script.replace(port, &listener.local_addr().unwrap().port().to_string());
    }
    drop(listeners);
    let folder = tempfile::tempdir().unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_packrace")).parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    clean_environment(&mut command);
    command.env("PATH", format!("{programs}:{path}:/usr/sbin")).env("HOME", folder.path());
    // A page may write it.
    command.env("GIT_CONFIG_GLOBAL", folder.path().join(".gitconfig"));
    command.env("GIT_TERMINAL_PROMPT", "0").current_dir(folder.path()).args(["-c", &script]);
    let ran = output(&mut command);
    let log = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success(),
        "{page}: {said}\n{}\n{}{}{}",
        log("server.log"),
        log("nginx.log"),
        log("nginx.err"),
        log("caddy.log")
    );
}

#[test]
fn users_in_a_file() {
    check("users-in-a-file.md");
}

#[test]
#[ignore = "needs ssh"]
fn over_ssh() {
    check("ssh.md");
}

#[test]
fn maintenance() {
    check("maintenance.md");
}

#[test]
fn bundles() {
    check("bundles.md");
}

#[test]
fn from_git_daemon() {
    check("from-git-daemon.md");
}

#[test]
#[ignore = "needs curl"]
fn repositories() {
    check("repositories.md");
}

#[test]
fn events() {
    check("events.md");
}

#[test]
fn from_gitolite() {
    check("from-gitolite.md");
}

#[test]
fn pack_objects_hook() {
    check("pack-objects-hook.md");
}

#[test]
#[ignore = "needs nginx"]
fn behind_nginx() {
    check("behind-nginx.md");
}

#[test]
#[ignore = "needs caddy"]
fn behind_caddy() {
    check("behind-caddy.md");
}

#[test]
#[ignore = "needs nginx and fcgiwrap"]
fn from_http_backend() {
    check("from-http-backend.md");
}
