//! One history in a growing number of packs, as pushes leave it, with and without a multi-pack-index.

use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::process::Stdio;

use packrace_testkit::Git;
use packrace_testkit::peer::Script;

use crate::args::Args;
use crate::prepare::Scratch;
use crate::push;
use crate::work::{self, Check, How, PushTransport, Work};

/// Default numbers of packs.
const COUNTS: [usize; 6] = [1, 10, 100, 300, 1000, 5000];

/// The same for smoke runs.
const A_FEW: [usize; 2] = [1, 12];

/// Consecutive recorded pushes of one commit, each with few enough objects to be stored loose, so that the
/// number of packs stays constant.
const PUSHES: usize = 20;

/// Every request with every number of packs.
pub fn all(args: &Args, git: &Git, scratch: &Scratch, history: &Path) -> io::Result<Vec<Work>> {
    let counts = match args.packs.as_slice() {
        [] if args.smoke => A_FEW.to_vec(),
        [] => COUNTS.to_vec(),
        counts => counts.to_vec(),
    };
    let mut all = Vec::new();
    for count in counts {
        let repo = scratch.cut(history, count, |repo, source| cut(git, source, repo, count))?;
        all.extend(requests(git, scratch, history, &repo, &format!("{count} packs"))?);
        let repo = scratch.indexed(&repo)?;
        all.extend(requests(git, scratch, history, &repo, &format!("{count} packs, multi-pack-index"))?);
    }
    Ok(all)
}

fn requests(git: &Git, scratch: &Scratch, history: &Path, repo: &Path, state: &str) -> io::Result<Vec<Work>> {
    let work = |what: &str, request, check| Work {
        name: format!("{what}, {state}"),
        how: How::UploadPack,
        repo: repo.to_owned(),
        request,
        check,
        bytes_of: None,
    };
    let mut all = vec![work("clone", work::clone_request(git, repo), Check::SamePack)];
    let commits = git.run(repo, &["rev-list", "--first-parent", "HEAD"]);
    let commits: Vec<&str> = commits.lines().collect();
    for count in [1, 1000] {
        let Some(have) = commits.get(count) else {
            eprintln!("no fetch of {count} commits: HEAD has {}", commits.len());
            continue;
        };
        let request = work::fetch_request(git, repo, &[commits[0]], &[have]);
        let needed = Check::Covers(work::needed_objects(git, repo, have));
        all.push(work(&format!("fetch of {count}"), request, needed));
    }
    let listing = Script::new().line("command=ls-refs").line("agent=bench").line("object-format=sha1");
    let listing = listing.delim().line("peel").line("symrefs").flush().flush();
    all.push(work("ls-refs", listing.bytes().to_vec(), Check::SameBytes));
    let served = all.iter().map(|work| Work {
        name: work.name.replacen(", ", " through a server, ", 1),
        how: How::Served,
        ..work.clone()
    });
    all.extend(served.collect::<Vec<_>>());
    for transport in [PushTransport::Recorded, PushTransport::Git] {
        let pushes = push::to(git, scratch, history, repo, PUSHES, transport)?;
        let through = if transport == PushTransport::Git { " through a server" } else { "" };
        all.push(Work { name: format!("{PUSHES} pushes of one commit{through}, {state}"), ..pushes });
    }
    let words = ["-c", "repack.writeBitmaps=false", "repack", "--geometric=2", "-dq"];
    all.push(Work {
        name: format!("repack --geometric=2, {state}"),
        how: How::Command { args: words.map(str::to_string).to_vec(), is_on_copy: true },
        repo: repo.to_owned(),
        request: Vec::new(),
        check: Check::SameRepository,
        bytes_of: None,
    });
    Ok(all)
}

/// Puts everything that the refs of `source` reach into `count` packs, oldest commits first.
fn cut(git: &Git, source: &Path, repo: &Path, count: usize) -> io::Result<()> {
    let words = ["rev-list", "--objects", "--all", "--reverse", "--in-commit-order"];
    let mut list = git.command(source).args(words).stdout(Stdio::piped()).spawn()?;
    let lines = io::BufReader::new(list.stdout.take().expect("piped")).lines();
    let objects = lines.collect::<io::Result<Vec<String>>>()?;
    if !list.wait()?.success() {
        return Err(io::Error::other("git rev-list failed"));
    }
    let count = count.min(objects.len());
    for number in 0..count {
        let slice = &objects[number * objects.len() / count..(number + 1) * objects.len() / count];
        let mut text = Vec::new();
        slice.iter().try_for_each(|line| writeln!(text, "{line}"))?;
        let stem = repo.join("objects/pack/pack").display().to_string();
        let words = ["pack-objects", "-q", "--delta-base-offset", &stem];
        git.run_with_input(source, &words, &text);
    }
    let refs = git.run(source, &["for-each-ref", "--format=create %(refname) %(objectname)"]);
    git.run_with_input(repo, &["update-ref", "--stdin"], refs.as_bytes());
    git.run(repo, &["pack-refs", "--all"]);
    let head = git.run(source, &["symbolic-ref", "HEAD"]);
    git.run(repo, &["symbolic-ref", "HEAD", head.trim()]);
    let settings = [("receive.autogc", "false"), ("daemon.receivepack", "true"), ("gc.auto", "0")];
    settings.iter().for_each(|(name, value)| drop(git.run(repo, &["config", name, value])));
    Ok(())
}

#[cfg(test)]
mod tests {
    use packrace_testkit::{RepoBuilder, Size};

    use super::*;

    #[test]
    fn a_history_is_cut_into_packs() {
        let git = Git::stock();
        let source = RepoBuilder::new(Size::Tiny).build();
        // Linked files are on one file system.
        let dir = packrace_testkit::scratch_dir();
        let scratch = Scratch::new(Some(dir.path()), git.clone()).unwrap();
        let count = 7;
        let repo = scratch.cut(source.path(), count, |repo, source| cut(git, source, repo, count)).unwrap();
        let packs = std::fs::read_dir(repo.join("objects/pack")).unwrap();
        let is_pack = |path: &Path| path.extension().is_some_and(|extension| extension == "pack");
        assert_eq!(packs.filter(|entry| is_pack(&entry.as_ref().unwrap().path())).count(), count);
        git.run(&repo, &["fsck", "--full", "--strict"]);
        let all = |path: &Path| git.run(path, &["for-each-ref"]);
        assert_eq!(all(&repo), all(source.path()));
        assert!(scratch.indexed(&repo).unwrap().join("objects/pack/multi-pack-index").is_file());
    }
}
