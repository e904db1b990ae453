//! Commands whose files are truncated while they run: they end with 128 and a message, not with a signal.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use packrace_testkit::peer::Script;
use packrace_testkit::{Git, Random, RepoBuilder, Size};

use crate::running::PACKRACE;

/// Several times the size of a pipe.
const LARGE_FILE_BYTES: usize = 16 << 20;

fn pack_of(repo: &Path) -> PathBuf {
    let mut entries =
        std::fs::read_dir(repo.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.extension().is_some_and(|end| end == "pack")).unwrap()
}

#[test]
fn a_pack_that_is_cut_off_ends_what_sends_it_with_128() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    std::fs::write(repo.path().join("large"), Random::new(1).bytes(LARGE_FILE_BYTES)).unwrap();
    let blob = repo.git(&["hash-object", "-w", "large"]).trim().to_owned();
    repo.git(&["tag", "large", &blob]);
    repo.git(&["repack", "-adq"]);
    let pack = pack_of(repo.path());
    let bytes = std::fs::read(&pack).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&pack, std::fs::Permissions::from_mode(0o644)).unwrap();
    let check = |arguments: &[&str], input: &[u8], ending: &[u8]| {
        let mut command = Command::new(PACKRACE);
        packrace_testkit::clean_environment(&mut command);
        command.current_dir(repo.path()).args(arguments).env("GIT_PROTOCOL", "version=2");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut out = vec![0; 100_000];
        stdout.read_exact(&mut out).unwrap();
        std::fs::File::options().write(true).open(&pack).unwrap().set_len(0).unwrap();
        stdout.read_to_end(&mut out).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(128), "{arguments:?}: {said}");
        let file = format!("{}: the file was", pack.file_name().unwrap().to_str().unwrap());
        assert!(said.contains("fatal: ") && said.contains(&file), "{arguments:?}: {said}");
        assert!(out.ends_with(ending), "{arguments:?}: {}", out.len());
        std::fs::write(&pack, &bytes).unwrap();
        out
    };
    let script = Script::new().fetch_v2("sha1", &[&blob], &[]);
    check(
        &["upload-pack", "."],
        script.bytes(),
        b"\x03aborting due to possible repository corruption on the remote side.",
    );
    let sent = check(&["pack-objects", "--stdout", "-q"], format!("{blob}\n").as_bytes(), b"");
    // The output is no pack that git accepts.
    let taken = Git::stock()
        .command(repo.path())
        .args(["index-pack", "--stdin"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut taken = taken.unwrap();
    let _ = taken.stdin.take().unwrap().write_all(&sent);
    assert!(!taken.wait().unwrap().success());
}
