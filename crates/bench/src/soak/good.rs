//! Well-behaved clients, which check what they get.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_object::HashKind;
use packrace_testkit::peer::Script;
use packrace_testkit::raw_client::{Take, Transport};
use packrace_testkit::{Random, reachable_objects};

use super::Soak;

/// How long a client retries while the server is full.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request of raw clients.
struct Known<'a> {
    repo: &'a Path,
    fetch: Script,
    /// Whether every response must be the same.
    is_steady: bool,
}

/// Clones and fetches over both transports. Unchanged repositories give as many objects each time; deltas may differ,
/// because those of other packs are used again.
pub fn raw_client(soak: &Soak, is_over: &AtomicBool, seed: u64) {
    let mut random = Random::new(seed);
    let known = [&soak.site.steady, &soak.site.plain].into_iter().flat_map(|repo| {
        let tips = crate::work::tips(soak.git, repo);
        let tips: Vec<&str> = tips.iter().map(String::as_str).collect();
        let newest = ["HEAD", "HEAD~1"].map(|name| soak.git.run(repo, &["rev-parse", name]));
        let clone = Script::new().fetch_v2("sha1", &tips, &[]);
        let fetch = Script::new().fetch_v2("sha1", &[newest[0].trim()], &[newest[1].trim()]);
        [clone, fetch].map(|fetch| Known { repo, fetch, is_steady: true })
    });
    // The first commits stay.
    let first = soak.git.run(&soak.site.changing, &["rev-list", "--max-parents=0", "HEAD"]);
    let wants: Vec<&str> = first.lines().collect();
    let changing = Script::new().fetch_v2("sha1", &wants, &[]);
    let changing = Known { repo: &soak.site.changing, fetch: changing, is_steady: false };
    let known: Vec<Known> = known.chain([changing]).collect();
    let mut seen: Vec<Option<u32>> = known.iter().map(|_| None).collect();
    while !is_over.load(Relaxed) {
        let number = random.below(known.len());
        let transport = if random.one_in(2) { Transport::Git } else { Transport::Http };
        let target = soak.target(transport, known[number].repo);
        let request = target.request(known[number].fetch.bytes());
        let who = format!("raw client, {transport:?}, {}", target.path);
        match target.fetch_patiently(&request, Take::Hash(HashKind::Sha1), Instant::now() + PATIENCE) {
            Ok((received, _)) => {
                let objects = received.pack.objects;
                if known[number].is_steady && *seen[number].get_or_insert(objects) != objects {
                    soak.fail(&who, "other objects than before");
                }
                soak.counts.good.fetch_add(1, Relaxed);
            }
            Err(failure) => soak.fail(&who, failure),
        }
    }
}

/// Clones with stock git, and checks every object.
pub fn stock_clones(soak: &Soak, is_over: &AtomicBool) {
    let expect = reachable_objects(soak.git, &soak.site.steady);
    let mut number = 0;
    while !is_over.load(Relaxed) {
        number += 1;
        let folder = tempfile::tempdir().expect("a temporary directory");
        let repo = if number % 2 == 0 { &soak.site.steady } else { &soak.site.changing };
        let url = soak.server.url(number % 4 < 2, repo);
        let who = format!("git clone {url}");
        let clone = ["clone", "-q", "--mirror", &url, "clone.git"];
        if git(soak, &who, folder.path(), &clone).is_none() {
            continue;
        }
        let clone = folder.path().join("clone.git");
        if git(soak, &who, &clone, &["fsck", "--strict"]).is_none() {
            continue;
        }
        if repo == &soak.site.steady && reachable_objects(soak.git, &clone) != expect {
            soak.fail(&who, "other objects");
        }
        soak.counts.good.fetch_add(1, Relaxed);
    }
}

/// Pushes with stock git: commits to a branch, each on top of the last, and another branch that is created
/// and deleted. What a ref once named stays reachable: another client may be asking for it.
pub fn stock_pushes(soak: &Soak, is_over: &AtomicBool) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let source = folder.path().join("source.git");
    let outside = soak.site.changing.display().to_string();
    soak.git.run(folder.path(), &["clone", "-q", "--mirror", &outside, "source.git"]);
    let tree = soak.git.run(&source, &["rev-parse", "HEAD^{tree}"]);
    let tips = soak
        .git
        .run(&source, &["for-each-ref", "--format=%(objectname)", "refs/heads/soak", "refs/heads/main"]);
    let mut parent = tips.lines().last().unwrap_or_default().to_string();
    let mut number = 0;
    while !is_over.load(Relaxed) {
        number += 1;
        let is_deletion = number % 2 == 0;
        let url = soak.server.url(number % 4 < 2, &soak.site.changing);
        let who = format!("git push {url}");
        let message = format!("push {number}");
        let commit = soak.git.run(&source, &["commit-tree", tree.trim(), "-p", &parent, "-m", &message]);
        let commit = commit.trim();
        let passing = format!("{}:refs/heads/passing", if is_deletion { "" } else { &parent });
        if git(soak, &who, &source, &["push", "-q", &url, &format!("{commit}:refs/heads/soak"), &passing])
            .is_none()
        {
            continue;
        }
        let listed = git(soak, &who, &source, &["ls-remote", &url, "refs/heads/soak", "refs/heads/passing"]);
        let expect = match is_deletion {
            true => format!("{commit}\trefs/heads/soak\n"),
            false => format!("{parent}\trefs/heads/passing\n{commit}\trefs/heads/soak\n"),
        };
        if listed.is_some_and(|listed| listed != expect) {
            soak.fail(&who, "the refs are not what was pushed");
        }
        parent = commit.to_string();
        soak.counts.good.fetch_add(1, Relaxed);
    }
}

/// Runs stock git; reports failures.
fn git(soak: &Soak, who: &str, dir: &Path, args: &[&str]) -> Option<String> {
    let output = soak.git.command(dir).args(args).output();
    match output {
        Ok(output) if output.status.success() => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => {
            soak.fail(who, format_args!("{args:?}: {}", String::from_utf8_lossy(&output.stderr).trim_end()));
            None
        }
        Err(error) => {
            soak.fail(who, error);
            None
        }
    }
}
