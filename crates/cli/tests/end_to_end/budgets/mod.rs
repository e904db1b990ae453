//! Limits of responses: calls are counted, time is not.

mod adding;
mod many_packs;
mod receiving;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use packrace_testkit::peer::{self, Feed, Script};
use packrace_testkit::received::{fetch_answer, objects_in_pack};
use packrace_testkit::{Bitmap, Git, RefFormat, Repo, RepoBuilder, Size, Storage, clean_environment};

use crate::running::{PACKRACE, packrace, upload_pack};

/// Runs a v2 script, and returns the answer and the number of writes to the client that packrace reports.
fn counted(dir: &Path, script: &Script) -> (Vec<u8>, u64) {
    counted_with(dir, script, &[])
}

/// The same with environment variables.
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

/// About one write per MiB: the advertisement, the sections, the first and last frames.
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
        let mut commands = String::new();
        for number in 0..40_000 {
            writeln!(commands, "create refs/tags/tag-{number} {}", main.trim()).unwrap();
        }
        // Stock git would write a file for each before it packs them.
        assert!(packrace(repo.path(), &["update-ref", "--stdin"], &commands).status.success());
        repo.git(&["pack-refs", "--all"]);
        let script = Script::new().line("command=ls-refs").line("object-format=sha1").delim();
        let script = script.line("peel").line("symrefs").flush().flush();
        let (answer, calls) = counted(repo.path(), &script);
        assert!(answer.len() > 2_500_000);
        assert_within_budget(&answer, calls);
    }
}

/// Damaged pull requests: reading one fails.
const DAMAGED: usize = 20_000;

#[test]
fn one_ref_or_what_is_not_hidden_is_listed_without_a_look_at_the_others() {
    for damaged in [damaged_packed_refs(), damaged_reftable()] {
        let main = damaged.git(&["rev-parse", "refs/heads/main"]);
        let line = |name: &str| format!("{} {name}\n", main.trim());
        let listing = Script::new().line("command=ls-refs").line("object-format=sha1").delim();
        let one = listing.clone().line("ref-prefix refs/tags/t").flush().flush();
        let (answer, _) = counted(damaged.path(), &one);
        assert!(String::from_utf8_lossy(&answer).contains(&line("refs/tags/t")));
        let all = listing.flush().flush();
        let hidden = [
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "transfer.hideRefs"),
            ("GIT_CONFIG_VALUE_0", "refs/pull"),
        ];
        let (answer, _) = counted_with(damaged.path(), &all, &hidden);
        let answer = String::from_utf8_lossy(&answer);
        for name in ["HEAD", "refs/heads/main", "refs/pull-all", "refs/tags/t"] {
            assert!(answer.contains(&line(name)), "{name}");
        }
        let reply = peer::stdio(&mut upload_pack(damaged.path(), 2), all.bytes(), Feed::Whole);
        assert!(!reply.status.success(), "all are listed, the damaged ones too");
    }
}

fn damaged_packed_refs() -> Repo {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let main = repo.git(&["rev-parse", "main"]);
    let mut text = b"# pack-refs with: peeled fully-peeled sorted \n".to_vec();
    let mut add = |id: &str, name: &str| writeln!(text, "{id} {name}").unwrap();
    add(main.trim(), "refs/heads/main");
    add(main.trim(), "refs/pull-all");
    for number in 0..DAMAGED {
        add(&"x".repeat(40), &format!("refs/pull/{number:05}/head"));
    }
    add(main.trim(), "refs/tags/t");
    std::fs::remove_dir_all(repo.path().join("refs")).unwrap();
    std::fs::create_dir(repo.path().join("refs")).unwrap();
    std::fs::write(repo.path().join("packed-refs"), text).unwrap();
    repo
}

fn damaged_reftable() -> Repo {
    const BLOCK: usize = 4096;
    let repo = RepoBuilder::new(Size::Tiny).ref_format(RefFormat::Reftable).build();
    let main = repo.git(&["rev-parse", "main"]);
    let mut commands = Vec::new();
    let pulls = (0..DAMAGED).map(|number| format!("refs/pull/{number:05}/head"));
    for name in pulls.chain(["refs/pull-all".into(), "refs/tags/t".into()]) {
        writeln!(commands, "create {name} {}", main.trim()).unwrap();
    }
    repo.git_with_input(&["update-ref", "--stdin"], &commands);
    repo.git(&["pack-refs"]);
    let mut tables =
        std::fs::read_dir(repo.path().join("reftable")).unwrap().map(|entry| entry.unwrap().path());
    let table = tables.find(|path| path.extension().is_some_and(|extension| extension == "ref")).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    // The first name in a block is complete.
    let starts_with_pull =
        |block: &[u8]| block[0] == b'r' && block[..32].windows(10).any(|name| name == b"refs/pull/");
    let blocks: Vec<bool> =
        bytes.chunks(BLOCK).map(|block| block.len() == BLOCK && starts_with_pull(block)).collect();
    let mut damaged = 0;
    for at in 0..blocks.len() - 1 {
        if blocks[at] && blocks[at + 1] {
            bytes[at * BLOCK] = b'x';
            damaged += 1;
        }
    }
    assert!(damaged > 100, "{damaged} blocks");
    std::fs::remove_file(&table).unwrap();
    std::fs::write(&table, bytes).unwrap();
    repo
}

/// The number of calls depends neither on the refs' objects nor on their names.
#[test]
fn very_many_refs_are_created_in_few_calls() {
    for (ref_format, logs) in
        [(RefFormat::Files, "true"), (RefFormat::Reftable, "true"), (RefFormat::Reftable, "always")]
    {
        let repo = RepoBuilder::new(Size::Tiny).ref_format(ref_format).build();
        repo.git(&["config", "core.logAllRefUpdates", logs]);
        let commits = repo.git(&["rev-list", "main"]);
        let commits: Vec<&str> = commits.lines().collect();
        let lines = (0..20_000)
            .map(|number| format!("create refs/tags/many/{number} {}\n", commits[number % commits.len()]));
        let report = tempfile::NamedTempFile::new().unwrap();
        let mut command = std::process::Command::new(PACKRACE);
        clean_environment(&mut command);
        command.arg("-C").arg(repo.path()).args(["update-ref", "--stdin"]);
        command.env("PACKRACE_IO_REPORT", report.path());
        let reply = peer::stdio(&mut command, lines.collect::<String>().as_bytes(), Feed::Whole);
        assert!(reply.status.success(), "{}", reply.stderr);
        let report = std::fs::read_to_string(report.path()).unwrap();
        let calls =
            report.split("\"calls\":").skip(1).filter_map(|rest| rest.split(',').next()?.parse::<u64>().ok());
        let calls: u64 = calls.sum();
        assert!((5..=120).contains(&calls), "{calls} calls: {report}");
        let made = repo.git(&["for-each-ref", "refs/tags/many/"]);
        assert_eq!(made.lines().count(), 20_000);
    }
}
