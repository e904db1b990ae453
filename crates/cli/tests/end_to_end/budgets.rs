//! What a response may cost: calls are counted, time is not.

use std::io::Write as _;
use std::path::Path;

use packrace_testkit::peer::{self, Feed, Script};
use packrace_testkit::received::{fetch_answer, objects_in_pack};
use packrace_testkit::{Bitmap, Git, RefFormat, RepoBuilder, Size, Storage};

use crate::running::upload_pack;

/// Runs a v2 script and gives the answer with the number of writes to the client, as packrace reports it.
fn counted(dir: &Path, script: &Script) -> (Vec<u8>, u64) {
    counted_with(dir, script, &[])
}

/// The same with variables of the environment.
fn counted_with(dir: &Path, script: &Script, environment: &[(&str, &str)]) -> (Vec<u8>, u64) {
    let report = tempfile::NamedTempFile::new().unwrap();
    let mut command = upload_pack(dir, 2);
    command.envs(environment.iter().copied());
    command.env("PACKRACE_IO_REPORT", report.path());
    let reply = peer::stdio(&mut command, script.bytes(), Feed::Whole);
    assert!(reply.status.success(), "{}", reply.stderr);
    let report = std::fs::read_to_string(report.path()).unwrap();
    let writes =
        report.split_once("\"client\":").and_then(|(_, client)| client.split_once("\"write\":{\"calls\":"));
    let calls = writes.and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
    (reply.stdout, calls.unwrap_or_else(|| panic!("no client writes in {report}")))
}

/// A write a MiB and some: the advertisement, the sections, the first and last frames.
fn assert_within_budget(answer: &[u8], calls: u64) {
    let budget = answer.len() as u64 / (1 << 20) + 64;
    assert!(calls <= budget, "{calls} writes for {} bytes, budget {budget}", answer.len());
}

#[test]
fn a_clone_leaves_in_few_writes() {
    for bitmap in [Bitmap::Plain, Bitmap::No] {
        let storage = Storage { bitmap, ..Storage::default() };
        let repo = RepoBuilder::new(Size::Small).storage(storage).build();
        let tips = repo.git(&["for-each-ref", "--format=%(objectname)"]);
        let mut wants: Vec<&str> = tips.lines().collect();
        wants.sort_unstable();
        wants.dedup();
        let (answer, calls) = counted(repo.path(), &Script::new().fetch_v2("sha1", &wants, &[]).flush());
        assert_within_budget(&answer, calls);
        let pack = fetch_answer(&answer).unwrap().bands.pack;
        assert_eq!(objects_in_pack(Git::stock(), &pack, repo.hash(), None), repo.reachable_objects());
    }
}

/// A program that makes packs writes 50 MB in pieces of 8 KiB.
#[test]
fn a_pack_of_a_hook_leaves_in_few_writes() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let main = repo.git(&["rev-parse", "main"]);
    let script = Script::new().fetch_v2("sha1", &[main.trim()], &[]).flush();
    let hook = "printf PACK; head -c 50M /dev/zero | dd ibs=8192 obs=8192 iflag=fullblock status=none; :";
    let environment = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "uploadpack.packObjectsHook"),
        ("GIT_CONFIG_VALUE_0", hook),
    ];
    let (answer, calls) = counted_with(repo.path(), &script, &environment);
    assert_eq!(fetch_answer(&answer).unwrap().bands.pack.len(), 4 + (50 << 20));
    assert_within_budget(&answer, calls);
}

#[test]
fn a_listing_leaves_in_few_writes() {
    for ref_format in [RefFormat::Files, RefFormat::Reftable] {
        let repo = RepoBuilder::new(Size::Tiny).ref_format(ref_format).build();
        let main = repo.git(&["rev-parse", "main"]);
        let mut commands = Vec::new();
        for number in 0..40_000 {
            writeln!(commands, "create refs/tags/tag-{number} {}", main.trim()).unwrap();
        }
        repo.git_with_input(&["update-ref", "--stdin"], &commands);
        repo.git(&["pack-refs", "--all"]);
        let script = Script::new().line("command=ls-refs").line("object-format=sha1").delim();
        let script = script.line("peel").line("symrefs").flush().flush();
        let (answer, calls) = counted(repo.path(), &script);
        assert!(answer.len() > 2_500_000);
        assert_within_budget(&answer, calls);
    }
}
