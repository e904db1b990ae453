//! Limits of clones: calls are counted, time is not.

use std::path::Path;
use std::process::Command;

use packrace_testkit::{RepoBuilder, Size, clean_environment};

use crate::running::{PACKRACE, Server};

/// Calls of a role, as packrace reports them; it omits those that did not happen.
fn calls(report: &str, role: &str, op: &str) -> u64 {
    let role = report.split_once(&format!("\"{role}\":{{")).map_or("", |(_, rest)| rest);
    let role = role.split("}}").next().unwrap();
    let op = role.split_once(&format!("\"{op}\":{{\"calls\":")).map_or("0", |(_, rest)| rest);
    op.split(',').next().unwrap().parse().unwrap()
}

fn pack_length(repository: &Path) -> u64 {
    let packs = std::fs::read_dir(repository.join("objects/pack")).unwrap();
    let lengths =
        packs.map(|file| file.unwrap()).filter(|file| file.path().extension().is_some_and(|e| e == "pack"));
    lengths.map(|file| file.metadata().unwrap().len()).sum()
}

#[test]
fn a_clone_is_taken_in_few_calls() {
    let dir = packrace_testkit::scratch_dir();
    let repo = RepoBuilder::new(Size::Small).build();
    let big: Vec<u8> = packrace_testkit::Random::new(7).bytes(20 << 20);
    let id = repo.git_with_input(&["hash-object", "-w", "--stdin"], &big);
    repo.git(&["tag", "big", id.trim()]);
    let server = Server::start(repo.path().parent().unwrap());
    let name = repo.path().file_name().unwrap().to_str().unwrap();
    for (number, base) in
        [format!("git://{}", server.git), format!("http://{}", server.http)].iter().enumerate()
    {
        let report = tempfile::NamedTempFile::new().unwrap();
        let place = format!("{number}.git");
        let mut command = Command::new(PACKRACE);
        clean_environment(&mut command);
        command.current_dir(dir.path()).env("PACKRACE_IO_REPORT", report.path());
        let output =
            command.args(["clone", "-q", "--mirror", &format!("{base}/{name}"), &place]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report = std::fs::read_to_string(report.path()).unwrap();
        let length = pack_length(&dir.path().join(&place));
        assert!(length > 20 << 20);
        let writes = calls(&report, "pack", "write");
        assert!(
            writes > 0 && writes <= length / (1 << 20) + 4,
            "{writes} writes of {length} bytes: {report}"
        );
        // hyper's reads and writes are not counted; over git://, a read takes as much as has arrived.
        assert!(calls(&report, "client", "write") <= 4, "a request is one write: {report}");
        assert_eq!(calls(&report, "client", "wait"), 0, "the kernel waits: {report}");
        // The pack is not read again; reads of `HEAD`, refs and the like are few.
        assert!(calls(&report, "pack", "read") <= 2, "{report}");
        assert!(calls(&report, "refs", "write") <= 4, "{report}");
    }
}
