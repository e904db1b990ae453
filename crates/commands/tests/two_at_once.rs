//! Commands of one process, run by two threads on two repositories: each says and stores what stock git does.

use std::path::Path;
use std::sync::Barrier;

use packrace_commands::options::{
    AddOptions, CommitPart, CommitTreeOptions, ForEachRefOptions, GlobalOptions, InitOptions,
    UpdateRefOptions, WriteTreeOptions,
};
use packrace_commands::{
    Call, Environment, Fatal, Streams, Written, add, commit_tree, for_each_ref, init, update_ref, write_tree,
};
use packrace_testkit::Git;

/// What the environment of every call says, and that of git.
const VARIABLES: [(&str, &str); 8] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_AUTHOR_NAME", "A U Thor"),
    ("GIT_AUTHOR_EMAIL", "author@example.com"),
    ("GIT_AUTHOR_DATE", "1700000000 +0100"),
    ("GIT_COMMITTER_NAME", "C O Mitter"),
    ("GIT_COMMITTER_EMAIL", "committer@example.com"),
    ("GIT_COMMITTER_DATE", "1700000001 +0100"),
];

const ROUNDS: usize = 5;

fn call(dir: &Path, input: &str) -> (Call, Written, Written) {
    let globals = GlobalOptions { directories: vec![dir.to_owned()], ..GlobalOptions::default() };
    let get = |name: &str| VARIABLES.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
    let (streams, output, errors) = Streams::in_memory(input);
    (Call::new(globals, Environment::from_lookup(&get), streams), output, errors)
}

/// What a command wrote, and its exit code behind that.
fn said(dir: &Path, input: &str, run: impl FnOnce(&Call) -> Result<(), Fatal>) -> String {
    let (call, output, errors) = call(dir, input);
    let (text, code) = match run(&call) {
        Ok(()) => (Vec::new(), 0),
        Err(fatal) => (fatal.text(), fatal.code),
    };
    format!("{}|{}{}|{code}", output.text(), errors.text(), String::from_utf8_lossy(&text))
}

/// The same of git.
fn git_said(dir: &Path, input: &str, args: &[&str]) -> String {
    use std::io::Write as _;
    let mut command = Git::stock().command(dir);
    command.args(args).envs(VARIABLES);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}|{}|{}", text(&done.stdout), text(&done.stderr), done.status.code().unwrap())
}

/// Checks what commands say of a repository against what git says of its twin.
fn check(ours: &Path, twin: &Path, who: &str) {
    let options = InitOptions { initial_branch: Some("main".into()), quiet: true, ..InitOptions::default() };
    assert_eq!(said(ours, "", |call| init::run(call, &options)), "||0");
    assert_eq!(git_said(twin, "", &["init", "-q", "-b", "main"]), "||0");
    let mut parents = Vec::new();
    for round in 0..ROUNDS {
        for dir in [ours, twin] {
            std::fs::create_dir_all(dir.join("below")).unwrap();
            std::fs::write(dir.join(format!("{who}-{round}")), format!("{who} {round}\n")).unwrap();
            std::fs::write(dir.join("below/changed"), format!("{round} {who}\n")).unwrap();
        }
        let options = AddOptions { verbose: true, pathspecs: vec![".".into()], ..AddOptions::default() };
        assert_eq!(said(ours, "", |call| add::run(call, &options)), git_said(twin, "", &["add", "-v", "."]));
        let nothing = format!("nothing of {who}");
        let options = AddOptions { pathspecs: vec![nothing.clone().into()], ..AddOptions::default() };
        let refused = said(ours, "", |call| add::run(call, &options));
        assert_eq!(refused, git_said(twin, "", &["add", &nothing]));
        assert!(refused.contains(who) && refused.ends_with("|128"), "{refused}");

        let tree = said(ours, "", |call| write_tree::run(call, &WriteTreeOptions::default()));
        assert_eq!(tree, git_said(twin, "", &["write-tree"]));
        let tree = tree.split('\n').next().unwrap().to_owned();

        // The message is on standard input in every other round.
        let (input, message) = match round % 2 {
            0 => (format!("{who} {round}\n"), None),
            _ => (String::new(), Some(CommitPart::Text(format!("{who} {round}").into()))),
        };
        let mut args = vec!["commit-tree".to_owned(), tree.clone()];
        parents.iter().for_each(|parent: &String| args.extend(["-p".to_owned(), parent.clone()]));
        if message.is_some() {
            args.extend(["-m".to_owned(), format!("{who} {round}")]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let parts = parents.iter().map(|parent| CommitPart::Parent(parent.into())).chain(message).collect();
        let options = CommitTreeOptions { trees: vec![tree.into()], parts };
        let commit = said(ours, &input, |call| commit_tree::run(call, &options));
        assert_eq!(commit, git_said(twin, &input, &args));
        let commit = commit.split('\n').next().unwrap().to_owned();

        let name = format!("refs/heads/{who}-{round}");
        let arguments = vec![name.clone().into(), commit.clone().into()];
        let options = UpdateRefOptions { arguments, ..UpdateRefOptions::default() };
        assert_eq!(
            said(ours, "", |call| update_ref::run(call, &options)),
            git_said(twin, "", &["update-ref", &name, &commit])
        );
        let script = format!("update refs/heads/main {commit}\n");
        let options = UpdateRefOptions { stdin: true, ..UpdateRefOptions::default() };
        assert_eq!(
            said(ours, &script, |call| update_ref::run(call, &options)),
            git_said(twin, &script, &["update-ref", "--stdin"])
        );
        parents = vec![commit];
    }
    let format = "%(refname) %(objectname) %(subject) %(authorname) %(committerdate:raw) %(HEAD)";
    let options = ForEachRefOptions { format: Some(format.into()), ..ForEachRefOptions::default() };
    let listed = said(ours, "", |call| for_each_ref::run(call, &options));
    assert_eq!(listed, git_said(twin, "", &["for-each-ref", &format!("--format={format}")]));
    assert_eq!(listed.lines().filter(|line| line.contains(who)).count(), ROUNDS + 1, "{listed}");
    for args in
        [&["ls-files", "-s"][..], &["log", "--format=%H %T %s", "main"], &["fsck", "--strict", "--full"]]
    {
        assert_eq!(git_said(ours, "", args), git_said(twin, "", args));
    }
}

#[test]
fn two_threads_and_two_repositories_do_not_meet() {
    let dir = packrace_testkit::scratch_dir();
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        for who in ["one", "other"] {
            let (ours, twin) = (dir.path().join(who), dir.path().join(format!("{who}-twin")));
            let start = &start;
            scope.spawn(move || {
                std::fs::create_dir(&ours).unwrap();
                std::fs::create_dir(&twin).unwrap();
                start.wait();
                check(&ours, &twin, who);
            });
        }
    });
}
