//! Budget: a question that was asked before costs a look at each thing that may have changed, however much there is. One
//! test, because calls are counted for the whole process.

mod served;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use packrace_os::count;
use packrace_server::repository_cache::RepositoryCacheSettings;
use packrace_server::settings::Settings;
use packrace_testkit::peer::{Feed, Script, http};
use packrace_testkit::{Git, RefFormat, RepoBuilder, Size};

/// Looks at names that a question costs whose answer is ready: some 25 for the repository, and for its refs `HEAD`, the
/// branch that it names, `packed-refs`, and five directories.
const MOST_LOOKS: u64 = 40;

fn repository(root: &Path, name: &str, format: RefFormat, packs: usize, refs: usize) {
    let path = root.join(name);
    RepoBuilder::new(Size::Tiny).ref_format(format).build_at(&path, Git::stock());
    let git = |args: &[&str], input: &str| Git::stock().run_with_input(&path, args, input.as_bytes());
    for pack in 0..packs {
        let id = git(&["hash-object", "-w", "--stdin"], &pack.to_string());
        git(&["pack-objects", "-q", "objects/pack/pack"], &String::from_utf8(id).unwrap());
    }
    let tip = Git::stock().run(&path, &["rev-parse", "HEAD"]);
    let mut script = String::new();
    for number in 0..refs {
        writeln!(script, "create refs/heads/many/{number} {}", tip.trim()).unwrap();
    }
    git(&["update-ref", "--stdin"], &script);
    git(&["pack-refs", "--all", "--prune"], "");
}

/// All calls that looked at files while `work` was done, by their names.
fn calls(work: impl FnOnce()) -> Vec<(&'static str, &'static str, u64)> {
    let before = count::all_calls();
    work();
    let so_far = |role: &str, op: &str| {
        let found = before.iter().find(|(r, o, _)| (*r, *o) == (role, op));
        found.map_or(0, |(_, _, calls)| *calls)
    };
    let after = count::all_calls().into_iter();
    let calls = after.map(|(role, op, calls)| (role, op, calls - so_far(role, op)));
    calls.filter(|(role, _, calls)| *role != "client" && *calls > 0).collect()
}

#[test]
fn a_question_that_was_asked_before_costs_some_looks() {
    let folder = packrace_testkit::scratch_dir();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    repository(&root, "few.git", RefFormat::Files, 1, 10);
    repository(&root, "many.git", RefFormat::Files, 30, 5000);
    repository(&root, "tables.git", RefFormat::Reftable, 30, 5000);
    // Nothing is swept while calls are counted.
    let repository_cache = RepositoryCacheSettings {
        idle_time: Duration::from_secs(36_000),
        ..RepositoryCacheSettings::default()
    };
    let address = served::start(&root, Settings { repository_cache, ..served::settings(folder.path()) })[0];
    let ask = |name: &str| {
        let prefixes = ["ref-prefix refs/heads/", "ref-prefix refs/tags/", "ref-prefix HEAD"];
        let script = Script::new().line("command=ls-refs").delim().line("peel").line("symrefs");
        let script = prefixes.iter().fold(script, |script, prefix| script.line(prefix)).flush();
        let head = format!(
            "POST /{name}/git-upload-pack HTTP/1.1\nGit-Protocol: version=2\n\
             Content-Type: application/x-git-upload-pack-request"
        );
        let reply = http(address, &head, script.bytes(), Feed::Whole);
        assert_eq!(reply.status, 200);
        reply.body
    };
    let looks = ["few.git", "many.git", "tables.git"].map(|name| {
        let first = ask(name);
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let mut second = Vec::new();
            let calls = calls(|| second = ask(name));
            assert_eq!(first, second);
            // Until what was kept is old enough to be believed.
            if calls.iter().all(|(_, op, _)| *op == "look") {
                return calls.iter().map(|(_, _, calls)| calls).sum::<u64>();
            }
            assert!(Instant::now() < end, "{name} is never answered without reading: {calls:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(looks.iter().all(|looks| *looks <= MOST_LOOKS), "{looks:?}");
    // Neither packs nor packed refs cost anything; what differs is a directory.
    assert!(looks[1] <= looks[0] + 1, "{looks:?}");
    assert!(looks[2] <= looks[0], "{looks:?}");
}
