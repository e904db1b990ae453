//! Haves in many rounds: the same answers as stock git's, for any history.

use std::path::Path;
use std::process::Command;

use packrace_testkit::peer::{Feed, Script, stdio};
use packrace_testkit::received::{Packet, packets};
use packrace_testkit::{Git, Random};

use crate::running::upload_pack;

const COMMITS: usize = 60;

/// A repository of commits with random parents, each with a branch; and the ids of the commits.
fn history(dir: &Path, random: &mut Random) -> Vec<String> {
    let git = Git::stock();
    git.run(dir, &["init", "--quiet", "--bare", "."]);
    let mut stream = String::new();
    for number in 1..=COMMITS {
        // Committers' clocks differ.
        let seconds = 1_700_000_000 + number * 10 + random.below(25);
        stream.push_str(&format!("commit refs/heads/b{number:02}\nmark :{number}\n"));
        stream.push_str(&format!("committer C <c@example.com> {seconds} +0000\ndata 2\n{number:02}\n"));
        let parents = if number == 1 || random.one_in(15) { 0 } else { 1 + usize::from(random.one_in(3)) };
        for at in 0..parents {
            let parent = number - 1 - random.below((number - 1).min(6));
            let word = if at == 0 { "from" } else { "merge" };
            stream.push_str(&format!("{word} :{}\n", parent.max(1)));
        }
        stream.push('\n');
    }
    git.run_with_input(dir, &["fast-import", "--quiet"], stream.as_bytes());
    git.run(dir, &["for-each-ref", "--format=%(objectname)"]).lines().map(str::to_owned).collect()
}

/// The response before the pack.
fn answer(command: &mut Command, script: &Script) -> Vec<String> {
    let reply = stdio(command, script.bytes(), Feed::Whole);
    assert!(reply.status.success(), "{}", reply.stderr);
    let packets = packets(&reply.stdout).expect("packets");
    let lines = packets.iter().map(|packet| match packet {
        Packet::Data(data) => String::from_utf8_lossy(data).trim_end().to_owned(),
        other => format!("{other:?}"),
    });
    lines.take_while(|line| !line.starts_with(['\u{1}', '\u{2}'])).collect()
}

/// The responses of stock git and packrace, without the advertisement.
fn both(dir: &Path, version: u32, script: &Script) -> [Vec<String>; 2] {
    let mut stock = Git::stock().command(dir);
    stock.args(["upload-pack", "--stateless-rpc", "."]).env("GIT_PROTOCOL", format!("version={version}"));
    [answer(&mut stock, script), answer(upload_pack(dir, version).arg("--stateless-rpc"), script)]
}

/// Some of the commits, and with `absent` also ids that do not exist.
fn some(random: &mut Random, ids: &[String], most: usize, absent: bool) -> Vec<String> {
    let count = 1 + random.below(most);
    let mut one = || match absent && random.one_in(3) {
        true => format!("{:040x}", random.next_u64()),
        false => ids[random.below(ids.len())].clone(),
    };
    (0..count).map(|_| one()).collect()
}

#[test]
fn rounds_of_version_0() {
    let mut random = Random::new(11);
    let dir = packrace_testkit::scratch_dir();
    let ids = history(dir.path(), &mut random);
    for _ in 0..120 {
        let acks = ["multi_ack_detailed", "multi_ack", ""][random.below(3)];
        let mut script = Script::new();
        for (at, want) in some(&mut random, &ids, 3, false).iter().enumerate() {
            let capabilities =
                if at == 0 { format!(" {acks} side-band-64k no-progress ofs-delta") } else { String::new() };
            script = script.line(&format!("want {want}{capabilities}"));
        }
        if random.one_in(3) {
            for commit in some(&mut random, &ids, 3, false) {
                script = script.line(&format!("shallow {commit}"));
            }
        }
        if random.one_in(4) {
            script = script.line(&format!("deepen {}", 1 + random.below(5)));
        }
        script = script.flush();
        for _ in 0..random.below(6) {
            for have in some(&mut random, &ids, 4, true) {
                script = script.line(&format!("have {have}"));
            }
            script = script.flush();
        }
        let script = script.line("done");
        let mut stock = Git::stock().command(dir.path());
        let expected = without_order(answer(stock.args(["upload-pack", "."]), &script));
        let got = without_order(answer(&mut upload_pack(dir.path(), 0), &script));
        assert_eq!(got, expected, "{}", String::from_utf8_lossy(script.bytes()));
    }
}

/// Removes the refs, and puts the lines of the shallow section, whose order is arbitrary, first and sorted.
fn without_order(lines: Vec<String>) -> Vec<String> {
    let lines = lines.into_iter().filter(|line| !line.contains(" refs/") && !line.contains("agent="));
    let (mut shallow, others): (Vec<_>, Vec<_>) = lines.partition(|line| line.contains("shallow "));
    shallow.sort();
    shallow.extend(others);
    shallow
}

#[test]
fn requests_of_version_2() {
    let mut random = Random::new(12);
    let dir = packrace_testkit::scratch_dir();
    let ids = history(dir.path(), &mut random);
    let (mut ready, mut not_ready) = (0, 0);
    for _ in 0..200 {
        let mut script = Script::new().line("command=fetch").line("object-format=sha1").delim();
        script = script.line("no-progress");
        for want in some(&mut random, &ids, 3, false) {
            script = script.line(&format!("want {want}"));
        }
        let haves = some(&mut random, &ids, 4, true);
        for have in &haves {
            script = script.line(&format!("have {have}"));
        }
        let [expected, got] = both(dir.path(), 2, &script.flush());
        assert_eq!(got, expected, "{haves:?}");
        *if got.contains(&"ready".to_owned()) { &mut ready } else { &mut not_ready } += 1;
    }
    assert!(ready > 20 && not_ready > 20, "{ready} were ready, {not_ready} not");
}
