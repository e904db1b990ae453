//! `packrace update-index` compared with `git update-index`.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;

use packrace_testkit::Git;

use crate::index_twins::{IndexTwins, state};
use crate::running::{packrace, stock_git};

/// Each line is a command; `|` precedes standard input, and `$` precedes a shell command for both copies.
fn script(twins: &IndexTwins, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("$ ") {
            Some(change) => twins.prepare(change),
            None => {
                let (args, input) = line.split_once(" | ").unwrap_or((line, ""));
                let input =
                    input.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0").replace("\\r", "\r");
                twins.check(&format!("update-index {args}"), &input);
            }
        }
    }
}

#[test]
fn files_come_and_go() {
    let twins = IndexTwins::new(&[]);
    script(
        &twins,
        "new
         $ echo n > new
         new
         --add --verbose new
         --verbose a d/b
         --no-add --add a --no-add nofile
         nofile
         --remove nofile
         --remove --verbose a
         $ rm a
         a
         --verbose --remove a
         $ echo a > a
         --add a
         --force-remove --verbose a
         --force-remove --verbose a
         --force-remove nofile
         --add a
         --chmod=+x a
         --chmod=-x --verbose a
         --chmod=+x --chmod=-x --verbose a
         --chmod=+x link
         --chmod=+x nofile
         --chmod=x a
         --chmod
         --bogus
         -x
         -- --add
         ''",
    );
}

#[test]
fn directories_and_submodules() {
    let twins = IndexTwins::new(&[]);
    script(
        &twins,
        "$ mkdir emptydir; git init -q emptyrepo
         d
         --add d
         --add sub
         --add sub/x/c/
         --add emptydir
         --add emptyrepo
         --add --verbose mod
         --verbose mod
         --add mod/
         --chmod=+x mod
         $ git -C mod commit -q --allow-empty -m two
         --refresh
         --ignore-submodules --refresh
         --refresh --ignore-submodules
         mod
         $ rm -rf mod/.git
         mod
         --remove mod
         --refresh
         $ rm -rf mod
         --refresh
         mod
         $ echo f > mod
         mod
         $ rm mod
         --remove mod
         $ mkdir mod2
         --add --cacheinfo 160000,{a},mod2
         --refresh
         mod2
         $ echo f > mod2/f
         --add mod2/f
         --add --replace mod2/f
         $ rm a; mkdir a; echo q > a/q
         a
         --add a/q
         --remove a
         --add a/q
         $ rm -rf d; echo f > d
         d
         --remove d
         --add d
         --add --replace --verbose d",
    );
}

#[test]
fn names() {
    let twins = IndexTwins::new(&[]);
    script(
        &twins,
        "--add .git/config
         --add ../x
         --add ./a
         --add a/
         --add d//b
         --add sub/./x/c
         --add sub/../a
         --verbose .git
         --verbose .
         --verbose ..
         --add a/b
         $ ln -s sub slink; ln -s loop loop; ln -s /nonexistent dangling
         slink/x/c
         --add slink/x/c
         --remove slink/x/c
         --add loop
         --add loop/x
         --add dangling dangling/x
         $ mv sub real; ln -s real sub
         sub/x/c
         --remove --verbose sub/x/c",
    );
    twins.check(&format!("update-index --add {}", "n".repeat(300)), "");
    for (typed, top) in [("b", "d"), ("../a", "d"), ("./../d/./b", "d"), ("../../x", "d"), ("c", "real/x")] {
        twins.check_in(top, &format!("update-index --verbose --add {typed}"), "");
    }
    twins.check_in("d", "update-index --add --cacheinfo 100644,{a},from/top", "");
    let refused = [
        ".GIT",
        ".Git/x",
        "git~1",
        "GIT~1/x",
        ".git.",
        ".git␣",
        ".git::$INDEX",
        "a/../b",
        "a/.",
        "a/..",
        "x/.git",
    ];
    let taken = [".gitmodules", "..git", "a\\b", "a:b", "...", "CON", "aux.c", ".g\u{200c}it"];
    for name in refused.into_iter().chain(taken).chain(["/x", "x/", ""]) {
        twins.check(&format!("update-index --add --cacheinfo 100644,{{a}},{name}"), "");
    }
    for name in
        [".gitmodules", "y/.gitmodules", ".gitattributes", "gitmod~1", ".gitmodules/x", "v/.gitmodules/x"]
    {
        twins.check(&format!("update-index --add --cacheinfo 120000,{{a}},{name}"), "");
    }
    for (config, mode, name) in [
        ("core.protectHFS=true", "100644", ".g\u{200c}it"),
        ("core.protectNTFS=false", "100644", "git~1"),
        ("core.protectNTFS=false", "120000", "z/.gitmodules"),
        ("core.protectNTFS=true", "100644", "c\\d"),
    ] {
        twins.check(&format!("-c {config} update-index --add --cacheinfo {mode},{{a}},{name}"), "");
    }
}

#[test]
fn entries_that_are_told() {
    let twins = IndexTwins::new(&[]);
    script(
        &twins,
        "--add --cacheinfo 100644,{a},ci --verbose
         --verbose --add --cacheinfo 100755 {a} ci2
         --cacheinfo 100644,{a},new
         --cacheinfo 100755,{a},a
         --cacheinfo abc,{a},q
         --add --cacheinfo 100600,{a},q6
         --add --cacheinfo 100644,{a},a/ci
         --add --replace --verbose --cacheinfo 100644,{a},a/ci
         --add --cacheinfo 100644,{a},a
         --replace --add a
         --add --cacheinfo 0,{a},q0
         --add --cacheinfo 777,{a},q777
         --add --cacheinfo 120777,{a},l777
         --add --cacheinfo 160000,{a},sm
         --add --cacheinfo 100644 zzz y
         --add --cacheinfo 9 {a} y
         --add --cacheinfo 100644,1234,ci
         --add --cacheinfo 100644
         --cacheinfo
         --add --cacheinfo 100644,{0},zero
         --add --cacheinfo 100644,{1},one",
    );
    let twins = IndexTwins::new(&["--object-format=sha256"]);
    script(
        &twins,
        "--index-info | 100644 {a}\\tii\\n100755 {a} 0\\tii2\\n100644 blob {a}\\tii3\\n0 {0}\\tlink\\n
         --index-info | 100644 {a} 1\\tu\\n100644 {a} 3\\tu\\n
         --index-info | 100644 {a} 2\\ta\\n
         --index-info | 100644 {a} 0\\ta\\n
         --index-info | garbage\\n
         --index-info | 100644 abc\\tx\\n
         --index-info | 100644 {a} 4\\tx\\n
         --index-info | 100644 {a} x\\n
         --index-info | 100644 {a}\\t.git/x\\n
         --index-info | 100644 {a}\\t\"q\\141q\"\\n
         --index-info | 100644 {a}\\t\"q\\n
         -z --index-info | 100644 {a}\\tz\\0
         --index-info -z | 100644 {a}\\tz2\\0
         --index-info | 644 {a}\\tmm\\n
         --index-info | 100644 {a}\\tok\\ngarbage\\n
         --index-info --verbose | 100644 {a}\\tok2\\n
         --verbose --index-info | 100644 {a}\\tok3\\n
         --verbose --index-info | 0 {a}\\tok3\\n
         --verbose --index-info | 100644 {0}\\tok3\\n
         --index-info a | 100644 {a}\\tok4\\n
         --index-info | \\n
         --index-info | 100644 blob {a} 1\\tq\\n
         --index-info | 100644 {a}\\tii/x\\n",
    );
}

#[test]
fn lists_of_paths() {
    let twins = IndexTwins::new(&[]);
    script(
        &twins,
        "--verbose --stdin | a\\nd/b\\nnope\\n
         --verbose --stdin | a\\n\\nd/b
         --verbose -z --stdin | a\\0d/b\\0
         --stdin --add | a\\n
         --stdin | \"a\"\\n
         --stdin | \"a\\n
         --add --verbose --stdin | \"\\141\"\\n
         --stdin d/b | a\\n
         d/b --stdin | a\\n
         --stdin | a\\r\\n",
    );
}

#[test]
fn refreshing() {
    let twins = IndexTwins::new(&[]);
    script(
        &twins,
        "--refresh
         $ touch -d 2001-01-01 a d/b
         --refresh
         $ echo q >> a
         --refresh
         -q --refresh
         --refresh -q
         --really-refresh
         $ rm d/b
         --refresh
         --refresh --ignore-missing
         --ignore-missing --refresh
         $ rm link; mkdir link
         --refresh
         $ chmod +x a
         --refresh
         a
         $ printf '100644 {a} 1\\tu\\n100644 {a} 2\\tu\\n' | git update-index --index-info
         --refresh
         --unmerged --refresh
         -q --unmerged --refresh
         -q --refresh
         u
         --remove u
         $ rmdir link; git checkout -q -f
         --refresh
         $ echo i > ita; git add -N ita
         --refresh
         --verbose ita
         $ echo i > ita2; git add -N ita2; rm ita2
         --refresh
         --remove ita2
         $ printf 'a\\r\\n' > a; echo '* text' > .gitattributes
         --refresh
         a
         --refresh",
    );
}

#[test]
fn marks_and_versions() {
    let twins = IndexTwins::new(&[]);
    script(
        &twins,
        "--assume-unchanged a
         --verbose --assume-unchanged a
         --no-assume-unchanged --verbose a
         --assume-unchanged nofile
         --skip-worktree a
         --verbose --skip-worktree d/b
         --no-skip-worktree nofile
         --skip-worktree
         $ rm a
         --refresh
         --ignore-skip-worktree-entries --remove a
         --remove a
         a
         $ git reset -q --hard; echo z > a
         --assume-unchanged a
         --refresh
         --really-refresh
         a
         --no-assume-unchanged a
         --show-index-version
         --index-version 4 --verbose
         --index-version=3
         --index-version 3 --verbose
         --index-version 1
         --show-index-version
         --index-version 2
         --index-version 0
         --force-write-index
         --verbose --show-index-version
         --clear-resolve-undo
         $ echo io > a
         --info-only a",
    );
    twins.check("-c core.ignoreStat=true update-index --add new a", "");
    for (variables, config) in [
        (&[("GIT_INDEX_VERSION", "4")][..], "x.y=z"),
        (&[("GIT_INDEX_VERSION", "7")], "x.y=z"),
        (&[("GIT_INDEX_VERSION", "x")], "index.version=4"),
        (&[("GIT_INDEX_VERSION", "")], "index.version=4"),
        (&[], "index.version=5"),
        (&[], "index.version=4"),
        (&[], "index.version=foo"),
        (&[], "feature.manyFiles=true"),
        (&[], "index.skipHash=true"),
    ] {
        twins.prepare("rm -f .git/index");
        for line in ["--refresh", "--add a", "--force-write-index"] {
            twins.check_with(variables, "", &format!("-c {config} update-index {line}"), "");
        }
    }
}

#[test]
fn conflicts() {
    let twins = IndexTwins::new(&[]);
    let merge = "$ git reset -q --hard; git merge -q side > /dev/null 2>&1 || true\n";
    let lines = "$ git checkout -q -b side; echo s > a; git commit -qam s; git checkout -q main; echo m > a; git commit -qam m
         MERGE
         $ echo both > a
         a
         --unresolve a
         --unresolve nofile
         --verbose --unresolve a
         $ echo b2 > a
         a
         --clear-resolve-undo
         --unresolve a
         MERGE
         --force-remove a
         --unresolve a
         --chmod=+x a
         MERGE
         --assume-unchanged a
         --refresh
         --remove --chmod=+x a
         MERGE
         --add --cacheinfo 100644,{b},a
         $ git reset -q --hard; echo new >> a
         --verbose -g
         $ git add a; echo more >> a; echo more >> d/b
         --verbose -g
         $ rm a
         -g
         --remove --verbose -g
         $ echo x > nn; git add nn; rm nn
         -g --verbose --remove
         --force-remove -g";
    script(&twins, &lines.replace("MERGE\n", merge));
    twins.check_in("d", "update-index --verbose -g b", "");
}

#[test]
fn file_systems_that_keep_less() {
    let twins = IndexTwins::new(&[]);
    script(
        &twins,
        "$ git config core.ignoreCase true; echo 1 > A2; echo 2 > a2
         --add A2
         --add a2
         --verbose a2
         $ git config core.ignoreCase false; git config core.fileMode false; chmod +x a; echo 9 > ex; chmod +x ex
         --verbose a
         --add ex
         --chmod=+x a
         $ echo zz >> a
         a
         --refresh
         $ git config --unset core.fileMode; git config core.symlinks false; rm link; printf x > link
         link
         --refresh
         $ git config --unset core.symlinks; git config core.trustCtime false; git config core.checkStat minimal
         --refresh",
    );
}

#[test]
fn where_the_index_is() {
    let twins = IndexTwins::new(&[]);
    let check =
        |variables: &[(&str, &str)], below: &str, args: &str| twins.check_with(variables, below, args, "");
    check(&[("GIT_INDEX_FILE", "rel")], "d", "update-index --add b");
    twins.prepare("GIT_INDEX_FILE=rel git ls-files -s | grep -q d/b");
    check(&[("GIT_INDEX_FILE", "nodir/x")], "", "update-index --add a");
    check(&[("GIT_DIR", "../.git")], "d", "update-index --add b");
    check(&[("GIT_DIR", "../.git"), ("GIT_WORK_TREE", "..")], "d", "update-index --add b --verbose");
    check(&[], ".git", "update-index --add config");
    twins.prepare("git init -q --bare b.git; git -C b.git fetch -q .. main");
    check(&[], "b.git", "update-index --add x");
    check(&[], "b.git", "update-index --refresh");
    check(&[], "b.git", "update-index --add --cacheinfo 100644,{a},x");
    twins.prepare("git worktree add -q -b linked wt; echo l > wt/l");
    check(&[], "wt", "update-index --add --verbose l");
    for top in twins.tops() {
        assert!(Git::stock().run(&top.join("wt"), &["ls-files"]).contains("\nl\n"));
    }
    twins.prepare("mkdir real; mv .git/index real/index; ln -s ../real/index .git/index; echo n > a");
    check(&[], "", "update-index a");
    assert!(twins.tops().iter().all(|top| top.join(".git/index").is_symlink()));
}

#[test]
fn a_lock_that_is_held() {
    let twins = IndexTwins::new(&[]);
    script(
        &twins,
        "$ touch .git/index.lock
         a
         $ echo z >> a
         a
         --refresh
         $ touch d/b
         --refresh
         -q --refresh
         --add nofile
         --show-index-version
         --force-write-index
         $ rm .git/index.lock
         a",
    );
}

/// Pipes and sockets; unreadable files, and directories that cannot be searched or written, unless run by
/// root.
#[test]
fn files_that_are_none() {
    let twins = IndexTwins::new(&[]);
    for top in twins.tops() {
        UnixListener::bind(top.join("sock")).unwrap();
    }
    script(
        &twins,
        "$ mkfifo fifo
         --add fifo
         fifo
         --add sock
         $ rm a; mkfifo a
         a
         --refresh
         $ rm a; ln -s fifo a
         a",
    );
    // A link that appears between examining and reading is not followed, so the result for a file that keeps
    // changing is one of the two.
    let ours = &twins.tops()[1];
    let place = ours.join("flips");
    for round in 0..20 {
        let _ = std::fs::remove_file(&place);
        if round % 2 == 0 {
            std::fs::write(&place, "x").unwrap()
        } else {
            symlink("a", &place).unwrap()
        }
        let output = packrace(ours, &["update-index", "--add", "flips"], "");
        assert!(output.status.success(), "{output:?}");
    }
}

/// Damage of all kinds, with a correct checksum: git reports the problem, or accepts what packrace refuses;
/// neither panics.
#[test]
fn damaged_indexes() {
    let twins = IndexTwins::new(&[]);
    let [git, ours] = twins.tops();
    let whole = std::fs::read(git.join(".git/index")).unwrap();
    let body = &whole[..whole.len() - 20];
    let check = |bytes: &[u8], is_same: bool| {
        let mut bytes = bytes.to_vec();
        let mut hasher = packrace_object::TrailerHasher::new(packrace_object::HashKind::Sha1);
        hasher.update(&bytes);
        bytes.extend_from_slice(hasher.finish().as_slice());
        let said = [&git, &ours].map(|top| {
            std::fs::write(top.join(".git/index"), &bytes).unwrap();
            let output = match top == &git {
                true => stock_git(top, &["update-index", "--show-index-version"], ""),
                false => packrace(top, &["update-index", "--show-index-version"], ""),
            };
            let stderr = String::from_utf8_lossy(&output.stderr);
            // Git prints paths relative to its directory.
            (output.status.code(), stderr.replace(&format!("{}/", top.display()), ""))
        });
        if is_same {
            assert_eq!(said[1], said[0]);
        }
    };
    check(&[b"XIRC", &body[4..]].concat(), true);
    check(&[&body[..4], &[0, 0, 0, 7], &body[8..]].concat(), true);
    check(&[body, b"abcd\0\0\0\0"].concat(), true);
    check(&[body, b"ABCD\0\0\0\0"].concat(), false);
    check(b"DIRC", true);
    for at in 0..body.len() {
        let mut bytes = body.to_vec();
        bytes[at] ^= 0xff;
        std::fs::write(ours.join(".git/index"), resealed(&bytes)).unwrap();
        if at % 16 == 0 {
            let output = packrace(&ours, &["update-index", "--refresh"], "");
            assert!(matches!(output.status.code(), Some(0 | 1 | 128)), "{at}: {output:?}");
        }
    }
    std::fs::write(ours.join(".git/index"), &whole[..whole.len() - 1]).unwrap();
    let output = packrace(&ours, &["update-index", "a"], "");
    let words = "error: bad index file sha1 signature\nfatal: index file corrupt\n";
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(128), words));
    assert!(!ours.join(".git/index.lock").exists());
}

fn resealed(bytes: &[u8]) -> Vec<u8> {
    let mut hasher = packrace_object::TrailerHasher::new(packrace_object::HashKind::Sha1);
    hasher.update(bytes);
    [bytes, hasher.finish().as_slice()].concat()
}

/// Five thousand files: the same index and the same objects, with a constant number of syncs.
#[test]
#[ignore = "slow: five thousand files"]
fn many_files() {
    let twins = IndexTwins::new(&[]);
    twins.prepare("mkdir many; for n in $(seq 5000); do echo $n > many/$n; done");
    let list: String = (1..=5000).map(|number| format!("many/{number}\n")).collect();
    twins.check("update-index --add --stdin", &list);
    let [git, ours] = twins.tops();
    for top in [&git, &ours] {
        assert_eq!(Git::stock().run(top, &["status", "--porcelain", "many"]).lines().count(), 5000);
    }
    assert_eq!(Git::stock().run(&ours, &["write-tree"]), Git::stock().run(&git, &["write-tree"]));
    let report = ours.join("report");
    let mut command = Command::new(env!("CARGO_BIN_EXE_packrace"));
    packrace_testkit::clean_environment(&mut command);
    command.current_dir(&ours).env("PACKRACE_IO_REPORT", &report);
    twins.prepare("for n in $(seq 5000); do echo again $n > many/$n; done");
    let status = command.args(["-c", "core.fsync=added", "update-index", "-g"]).status().unwrap();
    assert!(status.success());
    let report = std::fs::read_to_string(report).unwrap();
    let syncs: u64 = report.split("\"sync\":{\"calls\":").skip(1).map(number).sum();
    assert!((1..=8).contains(&syncs), "{report}");
    let index = report.split("\"worktree\":").nth(1).unwrap();
    let writes = number(index.split("\"write\":{\"calls\":").nth(1).unwrap());
    assert_eq!(writes, 1, "{report}");
    assert!(state(&ours).lines().filter(|line| line.contains("many/")).count() == 5000);
}

fn number(text: &str) -> u64 {
    text.split([',', '}']).next().unwrap().parse().unwrap()
}
