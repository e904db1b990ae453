//! Pushes from and to shallow repositories.

use packrace_testkit::Git;

use super::{Pair, said};
use crate::running::PACKRACE;

fn push_from(pair: &Pair, dir: &str, arguments: &[&str]) -> String {
    let program = format!("--receive-pack={PACKRACE} receive-pack");
    let mut command = Git::stock().command(&pair.root().join(dir));
    said(&command.args(["push", &program]).args(arguments).output().unwrap())
}

#[test]
fn from_a_shallow_clone() {
    let pair = Pair::new();
    let git = Git::stock();
    let url = format!("file://{}", pair.work().display());
    git.run(pair.root(), &["clone", "-q", "--depth=1", &url, "cut"]);
    git.run(&pair.root().join("cut"), &["commit", "-q", "--allow-empty", "-m", "new"]);
    // A server that has the history does not become shallow.
    git.run(&pair.work(), &["push", "-q", "../srv.git", "HEAD:refs/heads/main"]);
    let messages = push_from(&pair, "cut", &["../srv.git", "HEAD:refs/heads/new"]);
    assert!(messages.contains("[new branch]"), "{messages}");
    assert!(!pair.server().join("shallow").exists());
    pair.check_sound();
    // A server that does not have it refuses the push.
    git.run(pair.root(), &["init", "-q", "--bare", "empty.git"]);
    let messages = push_from(&pair, "cut", &["../empty.git", "HEAD:refs/heads/new"]);
    assert!(messages.contains("HEAD -> new (shallow update not allowed)"), "{messages}");
    let empty = pair.root().join("empty.git");
    assert_eq!(super::refs_of(&empty), "");
    git.run(&empty, &["config", "receive.shallowUpdate", "true"]);
    let messages = push_from(&pair, "cut", &["../empty.git", "HEAD:refs/heads/new"]);
    assert!(messages.contains("[new branch]"), "{messages}");
    let cut = std::fs::read_to_string(empty.join("shallow")).unwrap();
    assert_eq!(cut, std::fs::read_to_string(pair.root().join("cut/.git/shallow")).unwrap());
    super::check_sound(&empty);
    // A shallow server advertises its boundary.
    git.run(&pair.root().join("cut"), &["commit", "-q", "--allow-empty", "-m", "newer"]);
    let messages = push_from(&pair, "cut", &["../empty.git", "HEAD:refs/heads/new"]);
    assert!(messages.contains("HEAD -> new"), "{messages}");
    super::check_sound(&empty);
}
