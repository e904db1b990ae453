//! Packs and answers of streams that have no descriptor.

use std::path::Path;

use packrace_commands::options::{
    GlobalOptions, IndexPackOptions, InitOptions, PackObjectsOptions, UploadPackOptions,
};
use packrace_commands::{Call, Environment, Fatal, Streams, index_pack, init, pack_objects, upload_pack};
use packrace_testkit::Git;

/// Runs a command and gives the bytes that it wrote.
fn output(dir: &Path, input: impl Into<Vec<u8>>, run: impl FnOnce(&Call) -> Result<(), Fatal>) -> Vec<u8> {
    let globals = GlobalOptions { directories: vec![dir.to_owned()], ..GlobalOptions::default() };
    let get = |name: &str| (name == "GIT_CONFIG_NOSYSTEM").then(|| "1".into());
    let (streams, output, errors) = Streams::in_memory(input);
    let done = run(&Call::new(globals, Environment::from_lookup(&get), streams));
    let text = done.as_ref().map_err(|fatal| String::from_utf8_lossy(&fatal.text()).into_owned());
    assert!(text.is_ok(), "{text:?} {}", errors.text());
    output.bytes()
}

fn repository(dir: &Path) {
    let git = Git::stock();
    git.run(dir, &["init", "-q", "-b", "main", "."]);
    for number in 0..20 {
        let lines: String = (0..200).map(|line| format!("{line} of {}\n", number / 5)).collect();
        std::fs::write(dir.join(format!("file-{}", number % 7)), format!("{number}\n{lines}")).unwrap();
        git.run(dir, &["add", "."]);
        git.run(dir, &["commit", "-q", "-m", &format!("commit {number}")]);
    }
}

fn objects(dir: &Path) -> String {
    let format = "--batch-check=%(objectname) %(objecttype) %(objectsize)";
    Git::stock().run(dir, &["cat-file", format, "--batch-all-objects"])
}

#[test]
fn a_pack_goes_from_memory_to_memory() {
    let dir = packrace_testkit::scratch_dir();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    std::fs::create_dir_all(&from).unwrap();
    std::fs::create_dir_all(&to).unwrap();
    repository(&from);
    let options = PackObjectsOptions { all: true, revs: true, stdout: true, ..PackObjectsOptions::default() };
    let pack = output(&from, "", |call| pack_objects::run(call, &options));
    assert!(pack.starts_with(b"PACK"));

    let options = InitOptions { bare: true, initial_branch: Some("main".into()), ..InitOptions::default() };
    output(&to, "", |call| init::run(call, &options));
    let options = IndexPackOptions { stdin: true, fix_thin: true, ..IndexPackOptions::default() };
    let said = output(&to, pack, |call| index_pack::run(call, &options));
    assert!(said.starts_with(b"pack\t"), "{}", String::from_utf8_lossy(&said));
    assert_eq!(objects(&to), objects(&from));
    Git::stock().run(&to, &["fsck", "--strict", "--full"]);
}

#[test]
fn refs_are_advertised_to_memory() {
    let dir = packrace_testkit::scratch_dir();
    repository(dir.path());
    let directory = Some(dir.path().to_owned());
    let options = UploadPackOptions {
        stateless_rpc: true,
        http_backend_info_refs: true,
        directory,
        ..Default::default()
    };
    let said = output(dir.path(), "", |call| upload_pack::run(call, &options));
    let head = Git::stock().run(dir.path(), &["rev-parse", "HEAD"]);
    let line = format!("003d{} refs/heads/main\n0000", head.trim());
    assert!(said.ends_with(line.as_bytes()), "{}", String::from_utf8_lossy(&said));
}
