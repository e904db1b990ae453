use packrace_commands::command_words::with_command;

use super::*;

fn check(line: &str, expect_code: Option<u8>, expect_text: &str) {
    let argv = line.split(' ').map(OsString::from).collect();
    match (parse(with_command(argv)), expect_code) {
        (Parsed::Run { globals, command, .. }, None) => {
            let text = format!("{globals:?} {command:?}");
            assert!(text.contains(expect_text), "{line}: {text}");
        }
        (Parsed::Answer { text, shown, code }, Some(expect)) => {
            let text = text + &shown;
            assert_eq!(code, expect, "{line}: {text}");
            assert!(text.contains(expect_text), "{line}: {text}");
        }
        (Parsed::HandOver(said), Some(129)) => assert!(said.unwrap().contains(expect_text), "{line}"),
        (other, _) => panic!("{line}: {other:?}"),
    }
}

#[test]
fn commands_and_options() {
    check("packrace upload-pack --strict --timeout=5 dir", None, "strict: true");
    check("packrace upload-pack --strict --no-strict dir", None, "strict: false");
    check("packrace upload-pack --advertise-refs dir", None, "http_backend_info_refs: true");
    check("/usr/bin/git-upload-pack --stateless-rpc dir", None, "stateless_rpc: true");
    check("packrace -C a -C b -c x.y=z -c q.r --namespace=n upload-pack dir", None, r#"["a", "b"]"#);
    check("packrace serve --http 127.0.0.1:0 --git 127.0.0.1:0 root", None, "127.0.0.1:0");
    check(
        "packrace serve --http 8080 --git 9000 root",
        None,
        "http: Some(127.0.0.1:8080), https: None, git: Some(127.0.0.1:9000)",
    );
    check("packrace serve root", None, "http: None");
    check("packrace serve --git root", None, "git: Some(127.0.0.1:9418)");
    check("packrace serve --git root", None, "root: Some(\"root\")");
    check("packrace serve --print-config", None, "print_config: true");
    check(
        "packrace serve --git --http [::1]:1 root",
        None,
        "http: Some([::1]:1), https: None, git: Some(127.0.0.1:9418)",
    );
    check("packrace serve root --http", None, "http: Some(127.0.0.1:8417), https: None, git: None");
    check("packrace serve root --https", None, "https: Some(127.0.0.1:8443), git: None");
    check("packrace serve --git=127.0.0.1:1 root", None, "git: Some(127.0.0.1:1)");
    check(
        "packrace serve --bucket s3://git/a --cache /c --cache-bytes 1g",
        None,
        "bucket: \"git\", prefix: \"a/\"",
    );
    check("packrace bucket import s3://git r.git team/r", None, "name: \"team/r\"");
    check("packrace bucket check s3://git --rounds 3", None, "rounds: 3");
    check("packrace serve --ssh root", None, "git: None, ssh: Some(127.0.0.1:8422)");
}

#[test]
fn maintenance() {
    check("packrace commit-graph write --reachable --split --size-multiple=3", None, "split: Some(None)");
    check("packrace commit-graph --object-dir=x verify --shallow", None, "shallow: true");
    check("git-commit-graph write --split=replace", None, "Some(\"replace\")");
    check("packrace commit-graph", Some(129), "commit-graph");
    check("packrace commit-graph write --size-multiple=x", Some(129), "option `size-multiple' expects");
    check("packrace repack -adlfqn -k --window=5 --depth 7 -g2", None, "geometric: Some(2)");
    check("packrace repack --window-memory=3k ignored", None, "window_memory: Some(3072)");
}

#[test]
fn listing_refs() {
    check("packrace for-each-ref --count=3 refs/heads", None, "count: Some(3)");
    check("packrace for-each-ref --contains", None, r#" contains: ["HEAD"]"#);
    check("packrace for-each-ref --merge --contains", None, r#"merged: ["--contains"]"#);
    check("packrace for-each-ref --merged x --no-merged", None, r#"no_merged: ["HEAD"]"#);
    check("git-for-each-ref --sort=-x --no-sort --sort y", None, r#"sort: ["y"]"#);
    check("packrace for-each-ref --contains=x -- --contains", None, r#"pattern: ["--contains"]"#);
    check("packrace for-each-ref --count", Some(129), "error: option `count' requires a value");
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    check("packrace upload-pack --frobnicate dir", Some(129), "error: unknown option `frobnicate'");
    check("packrace upload-pack -z dir", Some(129), "error: unknown switch `z'");
    check("packrace --super-prefix=x upload-pack dir", Some(129), "error: unknown option `super-prefix'");
    check("packrace frobnicate", Some(129), "frobnicate");
    check("packrace", Some(129), "");
    check("packrace upload-pack", Some(129), "usage: git-upload-pack");
    check("packrace upload-pack a b", Some(129), "usage: git-upload-pack");
    check("packrace serve --http nonsense:x root", Some(129), "nonsense:x");
    check("packrace serve", None, "root: None");
    check("packrace serve --bucket s3://git root", Some(129), "--bucket");
    check("packrace serve --bucket http://git", Some(129), "s3://BUCKET");
    check("packrace bucket", Some(129), "bucket");
}

#[test]
fn help_is_an_answer() {
    check("packrace --help", Some(0), "upload-pack");
    check("packrace upload-pack --help", Some(0), "--stateless-rpc");
    check("packrace upload-pack -h", Some(129), "--stateless-rpc");
    check("packrace --version", Some(0), env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_command_line_is_sound() {
    command_line().debug_assert();
}

#[test]
fn options_as_git_reads_them() {
    check("packrace add --verb --dry a", None, "verbose: true");
    check("packrace init --initial=x", None, "x");
    check("packrace repack --write", Some(129), "--write-bitmap-index or --write-midx)\nusage: git repack");
    check("packrace update-ref --bogus", Some(129), "error: unknown option `bogus'\nusage: git update-ref");
    check("packrace commit-graph", Some(129), "error: need a subcommand\nusage: git commit-graph");
    check("packrace show-ref -h", Some(129), "usage: git show-ref");
    check("packrace reflog expire -h", Some(129), "usage: git reflog expire");
    check("packrace stash push --message=x --no-message", None, "message: None");
    check("packrace --literal-pathspecs --no-pager add x", None, "literal_pathspecs: true");
    check("packrace --work=x add a", Some(129), "error: unknown option `work'");
    check("packrace stash push --mess=x", None, "message: Some(\"x\")");
    check("packrace stash save -q -- -q", None, r#"words: ["--", "-q"]"#);
    check("packrace stash store --bogus", Some(1), "Cannot update refs/stash with --bogus");
    check("packrace stash store --bogus a", Some(1), "requires one <commit> argument");
    check("packrace stash create -- a", None, r#"words: ["--", "a"]"#);
    check("packrace stash create -h", None, r#"words: ["-h"]"#);
    check("packrace --no-advice -p --no-replace-objects --exec-path=x add x", None, "exec_path: Some(\"x\")");
    check("packrace --exec-path=/x --exec-path --bogus", Some(0), "/x\n");
    check("packrace --work-tree --exec-path add x", Some(129), "requires a value");
}

#[test]
fn settings_from_variables() {
    let typed = "packrace -c a.b=1 --config-env x.y=PATH -c c.d=2 add x";
    check(typed, None, r#"config: [("a.b", Some("1")), ("x.y", Some("/"#);
    check("packrace --config-env=x.a=b.c=PATH add x", None, r#"config: [("x.a=b.c", Some("/"#);
    check("packrace --config-env", Some(129), "error: option `config-env' requires a value");
}

#[test]
fn options_of_git_log() {
    check("packrace reflog --pretty=%h --oneline main", None, "oneline: true");
    check("packrace reflog --oneline --format=%h main", None, "oneline: false");
    check("packrace stash list --pretty -3", None, r#"format: Some("medium")"#);
    check("packrace reflog --since", Some(129), "error: option `since' requires a value");
    check("packrace stash list --stat", Some(129), "error: unknown option `stat'");
}

#[test]
fn what_is_taken_back() {
    check("packrace pack-objects --window=3 --no-window --stdout", None, "window: None, no_window: true");
    check("packrace repack --no-dep --depth=3", None, "depth: Some(3)");
    check("packrace repack --depth=3 --no-depth", None, "depth: None");
    check("packrace repack --keep-pack=a --no-keep-pack --keep-pack=b", None, r#"keep_pack: ["b"]"#);
    check("packrace commit-graph write --no-size-multiple", None, "size_multiple: 0");
    check("packrace commit-graph write --no-size-multiple --size-multiple=3", None, "size_multiple: 3");
    check("packrace reflog expire --no-expire", Some(129), "error: unknown option `no-expire'");
    check("packrace pack-objects --no-all", Some(129), "error: ambiguous option: no-all");
    check("packrace pack-objects --no-window-memory", Some(129), "error: unknown option `no-window-memory'");
}

#[test]
fn what_git_refuses() {
    for (line, text) in [
        ("packrace stash drop --no-", "ambiguous option: no- (could be --no-quiet or --no-quiet)\n"),
        ("packrace add --dry=x .", "error: option `dry-run' takes no value\n"),
        ("packrace update-index --add=x", "error: option `add' takes no value\n"),
        ("packrace update-index --cachei=x", "error: option `cacheinfo' takes no value\n"),
        ("packrace add ---", "error: unknown option `-'\n"),
        ("packrace stash pop --label-o=x", "error: unknown option `label-o=x'\n"),
        ("packrace show-ref -qsd", "error: option `hash' expects a numerical value\n"),
        ("packrace index-pack --ver x", "usage: git index-pack"),
        ("packrace index-pack --threads 1 x", "usage: git index-pack"),
        ("packrace add --hel", "error: unknown option `hel'\nusage: git add"),
        ("packrace repack -g x", "error: switch `g' expects an integer value"),
        ("packrace repack --geom x", "error: option `geometric' expects an integer value"),
        ("packrace add -nhx", "usage: git add"),
        ("packrace reflog expire --help-all", "usage: git reflog expire"),
    ] {
        check(line, Some(129), text);
    }
    check("packrace stash push -m --no-", None, "message: Some(\"--no-\")");
    check("packrace stash -u --no-all", None, "staged: false, include_untracked: false");
}
