//! What a trace of upload-pack has of a request and of its pack.

use std::path::Path;
use std::process::{Command, Stdio};

use packrace_testkit::peer::Script;
use packrace_testkit::{Git, Repo, RepoBuilder, Size, clean_environment};
use serde_json::Value;

use crate::running::PACKRACE;

/// The events of a fetch with these arguments.
fn events(tool: &Path, repo: &Repo, arguments: &[String]) -> Vec<Value> {
    let request = Script::new().line("command=fetch").line("object-format=sha1").delim();
    let request = arguments.iter().fold(request, |request, line| request.line(line)).flush();
    answered(tool, repo, "upload-pack", 2, &request)
}

/// The events of a service that answers a request in this version of the protocol.
fn answered(tool: &Path, repo: &Repo, service: &str, version: u8, request: &Script) -> Vec<Value> {
    let dir = packrace_testkit::scratch_dir();
    let trace = dir.path().join("trace");
    let input = dir.path().join("request");
    std::fs::write(&input, request.bytes()).unwrap();
    let mut command = Command::new(tool);
    clean_environment(&mut command);
    command.args([service, "--stateless-rpc"]).arg(repo.path());
    command.env("GIT_PROTOCOL", format!("version={version}")).env("GIT_TRACE2_EVENT", &trace);
    command.stdin(std::fs::File::open(&input).unwrap()).stdout(Stdio::null());
    assert!(command.status().unwrap().success(), "{service}, version {version}");
    let trace = std::fs::read_to_string(trace).unwrap();
    trace.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn values(events: &[Value], category: &str) -> Vec<(String, Value)> {
    let of_category =
        events.iter().filter(|event| event["category"] == category && event.get("key").is_some());
    of_category.map(|event| (event["key"].as_str().unwrap().to_owned(), event["value"].clone())).collect()
}

#[test]
fn requests_and_packs_are_told_as_by_git() {
    let repo = RepoBuilder::new(Size::Small).build();
    for name in ["allowRefInWant", "allowFilter"] {
        repo.git(&["config", &format!("uploadpack.{name}"), "true"]);
    }
    let id = |rev: &str| repo.git(&["rev-parse", rev]).trim().to_owned();
    let (tip, old) = (id("main"), id("main~3"));
    repo.git(&["update-ref", "refs/heads/old", &old]);
    let (want, have) = (format!("want {tip}"), format!("have {old}"));
    let unknown = format!("have {}", "1".repeat(40));
    let shallow = format!("shallow {old}");
    let cases: [&[&str]; 8] = [
        &[&want, "done"],
        &[&want, &want, "want-ref refs/heads/main", &have, &have, &unknown, "done"],
        &["want-ref refs/heads/main", "filter blob:limit=10", "done"],
        &[
            &want,
            "deepen 3",
            "deepen-relative",
            &shallow,
            &shallow,
            "filter combine:blob:none+tree:3",
            "done",
        ],
        &[&want, "deepen-since 1000000000", "filter tree:2", "done"],
        &[&want, "deepen-not refs/heads/old", "deepen-not refs/heads/old", "done"],
        &[&have, "wait-for-done"],
        &[&want, &unknown],
    ];
    for case in cases {
        let arguments: Vec<String> = case.iter().map(|line| (*line).to_owned()).collect();
        let [theirs, ours] =
            [Git::stock().binary(), Path::new(PACKRACE)].map(|tool| events(tool, &repo, &arguments));
        let told = values(&ours, "upload-pack");
        // Git before 2.41 does not tell it.
        if !values(&theirs, "upload-pack").is_empty() {
            assert_eq!(told, values(&theirs, "upload-pack"), "{case:?}");
        }
        assert_eq!(told.len(), 1, "{case:?}");
        let objects = |events: &[Value]| {
            let of_pack = values(events, "pack-objects").into_iter();
            of_pack
                .filter(|(key, _)| ["write_pack_file/wrote", "written"].contains(&key.as_str()))
                .collect::<Vec<_>>()
        };
        assert_eq!(objects(&ours), objects(&theirs), "{case:?}");
        let keys = |events: &[Value]| {
            values(events, "pack-objects").into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        assert_eq!(keys(&ours), keys(&theirs), "{case:?}");
        let regions = |events: &[Value]| {
            let of_regions = events.iter().filter(|event| event.get("label").is_some());
            let names = ["event", "nesting", "category", "label"];
            of_regions.map(|event| names.map(|name| event[name].clone())).collect::<Vec<_>>()
        };
        assert_eq!(regions(&ours), regions(&theirs), "{case:?}");
    }
}

#[test]
fn bitmaps_that_help_are_counted_as_by_git() {
    let repo = RepoBuilder::new(Size::Small).build();
    let id = |rev: &str| repo.git(&["rev-parse", rev]).trim().to_owned();
    let old = id("main");
    repo.git(&["repack", "-adbq"]);
    for message in ["one", "two"] {
        let new = repo.git(&["commit-tree", "-p", "main", "-m", message, "main^{tree}"]);
        repo.git(&["update-ref", "refs/heads/main", new.trim()]);
    }
    repo.git(&["tag", "-a", "-m", "tag", "tagged", "main"]);
    let [old, new, tag] = [old, id("main"), id("tagged")].map(|id| format!("want {id}"));
    for wants in [&[&old][..], &[&new], &[&new, &old, &new], &[&tag, &old]] {
        // Progress would be regions around them, which are too deep to be told.
        let mut arguments = vec!["no-progress".to_owned()];
        arguments.extend(wants.iter().map(|want| (*want).to_owned()));
        arguments.push("done".to_owned());
        let [theirs, ours] = [Git::stock().binary(), Path::new(PACKRACE)].map(|tool| {
            let mut told = values(&events(tool, &repo, &arguments), "bitmap");
            // Paths are shown in another way, and git has a number of its own for pseudo-merges, and one that is always 0.
            told.retain(|(key, _)| {
                !key.starts_with("opened")
                    && !key.ends_with("cascades")
                    && !key.ends_with("roots_with_bitmap")
            });
            told
        });
        assert_eq!(ours, theirs, "{wants:?}");
        assert!(ours.iter().any(|(key, _)| key == "bitmap/hits"), "{ours:?}");
    }
}

#[test]
fn the_session_of_a_client_is_told() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    repo.git(&["config", "transfer.advertiseSID", "true"]);
    let tip = repo.git(&["rev-parse", "main"]).trim().to_owned();
    let old = Script::new().line(&format!("want {tip} session-id=client/1 ofs-delta")).flush().line("done");
    let new =
        Script::new().line("command=fetch").line("object-format=sha1").line("session-id=client/1").delim();
    let new = new.line(&format!("want {tip}")).line("done").flush();
    for (version, request) in [(0, &old), (1, &old), (2, &new)] {
        let [theirs, ours] = [Git::stock().binary(), Path::new(PACKRACE)]
            .map(|tool| values(&answered(tool, &repo, "upload-pack", version, request), "transfer"));
        assert_eq!(ours, theirs, "version {version}");
        assert!(ours.contains(&("client-sid".to_owned(), "client/1".into())), "{ours:?}");
    }
    let told = [Git::stock().binary(), Path::new(PACKRACE)].map(|tool| {
        repo.git(&["update-ref", "refs/heads/gone", &tip]);
        let words = format!("{tip} {} refs/heads/gone\0report-status session-id=client/2", "0".repeat(40));
        let deletion = Script::new().line(&words).flush();
        values(&answered(tool, &repo, "receive-pack", 0, &deletion), "transfer")
    });
    assert_eq!(told[1], told[0]);
    assert!(told[1].contains(&("client-sid".to_owned(), "client/2".into())), "{told:?}");
}
