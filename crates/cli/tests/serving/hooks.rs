//! Hooks of pushes to `serve`: their rights and limits, and pushes whose hooks fail.

use packrace_testkit::write_program;

use super::hostile::{PUSHING, push, refs};
use super::*;

#[test]
fn a_push_whose_hook_cannot_say_yes_is_refused() {
    let server = Server::start(&format!("{PUSHING}[hooks]\nmax-time = \"500ms\"\n"), &[], &[]);
    let hooks = server.repository().join("hooks");
    let ways: [(&str, &str); 5] = [
        ("#!/nowhere/sh\n", "fatal: cannot exec '/a.git/hooks/{}': No such file or directory"),
        ("#!/bin/sh\nsleep 1000\n", "/a.git/hooks/{} was killed: time limit exceeded"),
        ("#!/bin/sh\nexec 1>&- 2>&-; trap '' TERM; sleep 1000\n", "/a.git/hooks/{} was killed"),
        ("#!/bin/sh\nkill -9 $$\n", "error: hooks/{} died of signal 9"),
        ("#!/bin/sh\nexit 1\n", ""),
    ];
    for (name, declined) in [("pre-receive", "pre-receive hook declined"), ("update", "hook declined")] {
        let hook = hooks.join(name);
        for (text, words) in ways {
            write_program(&hook, text);
            let answer = push(&server, "refs/heads/new");
            assert!(answer.contains(&format!("ng refs/heads/new {declined}")), "{name} {text}: {answer}");
            assert!(answer.contains(&words.replace("{}", name)), "{name} {text}: {answer}");
            assert_eq!(refs(&server), "", "{name} {text}");
        }
        // It cannot be determined whether the hook exists.
        std::fs::remove_file(&hook).unwrap();
        std::os::unix::fs::symlink(name, &hook).unwrap();
        let answer = push(&server, "refs/heads/new");
        assert!(!answer.contains("ok refs/heads/new"), "{name}: {answer}");
        assert!(answer.contains("Too many levels of symbolic links"), "{name}: {answer}");
        assert_eq!(refs(&server), "", "{name}");
        std::fs::remove_file(&hook).unwrap();
    }
    // A hook that runs after the push does not affect it.
    write_program(&hooks.join("post-receive"), "#!/bin/sh\nsleep 1000\n");
    let answer = push(&server, "refs/heads/new");
    assert!(answer.contains("ok refs/heads/new") && answer.contains("time limit exceeded"), "{answer}");
    assert_eq!(refs(&server), "refs/heads/new\n");
}

#[test]
fn hooks_get_what_they_need_and_no_more() {
    let settings = "[hooks]\nenvironment = [\"KEPT_*\"]\nmax-memory = \"2g\"\nmax-cpu-time = \"77s\"\nmax-processes = 1000\n";
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "sesame").unwrap();
    let inside = tempfile::tempdir().unwrap();
    let variables = [
        ("SECRET_TOKEN", "x"),
        ("KEPT_WORD", "y"),
        ("NOTIFY_SOCKET", "/run/x"),
        ("TMPDIR", inside.path().to_str().unwrap()),
    ];
    let server = Server::start(&format!("{PUSHING}{settings}"), &[], &variables);
    let hook = format!(
        "#!/bin/sh\nenv >environment\ncat /proc/self/limits >limits\ngrep NoNewPrivs /proc/self/status >status\n\
         git rev-parse --git-dir >git-dir\necho x >\"$TMPDIR/made\"\ncat {0} >read 2>refused\necho x >{0} 2>/dev/null\n\
         exit 0\n",
        secret.display()
    );
    write_program(&server.repository().join("hooks/pre-receive"), &hook);
    let answer = push(&server, "refs/heads/new");
    assert!(answer.contains("ok refs/heads/new"), "{answer}\n{}", server.log());
    let recorded = |name: &str| std::fs::read_to_string(server.repository().join(name)).unwrap();
    let environment = recorded("environment");
    for name in
        ["PATH=", "KEPT_WORD=y", "GIT_DIR=.", "REMOTE_ADDR=127.0.0.1", "GIT_QUARANTINE_PATH=", "TMPDIR="]
    {
        assert!(environment.lines().any(|line| line.starts_with(name)), "{name}: {environment}");
    }
    assert!(!environment.contains("SECRET_TOKEN") && !environment.contains("NOTIFY_SOCKET"), "{environment}");
    let limits = recorded("limits");
    for (name, limit) in
        [("Max cpu time", "77"), ("Max address space", "2147483648"), ("Max processes", "1000")]
    {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        assert_eq!(line[name.len()..].split_whitespace().next(), Some(limit), "{line}");
    }
    assert_eq!(recorded("status").trim(), "NoNewPrivs:\t1");
    assert_eq!(recorded("git-dir"), ".\n");
    assert!(inside.path().join("made").exists());
    if server.log().contains("Landlock is missing or disabled") {
        return eprintln!("NOT TESTED: this kernel has no Landlock");
    }
    assert!(server.log().contains("sandbox: Landlock"), "{}", server.log());
    assert_eq!(recorded("read"), "");
    assert!(recorded("refused").contains("Permission denied"), "{}", recorded("refused"));
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "sesame");
}

#[test]
fn without_a_sandbox_hooks_reach_what_their_user_may() {
    let outside = tempfile::tempdir().unwrap();
    let inside = tempfile::tempdir().unwrap();
    let variables = [("TMPDIR", inside.path().to_str().unwrap())];
    let server = Server::start(PUSHING, &["--set", "sandbox.enabled=false"], &variables);
    let made = outside.path().join("made");
    write_program(
        &server.repository().join("hooks/update"),
        &format!("#!/bin/sh\necho x >{}\n", made.display()),
    );
    assert!(push(&server, "refs/heads/new").contains("ok refs/heads/new"));
    assert!(made.exists());
    assert!(server.log().contains("sandbox: disabled"), "{}", server.log());
    let refused = output(packrace().args(["serve", "--set", "hooks.user=nobody-of-that-name", "/"]));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(said, "fatal: hooks.user: no such user: nobody-of-that-name\n");
}

#[test]
fn configured_hooks_of_the_server_run_and_those_of_a_repository_do_not() {
    let home = tempfile::tempdir().unwrap();
    let (global, folder) = (home.path().join("config"), home.path().join("hooks"));
    let hook = "[hook \"all\"]\n\tevent = pre-receive\n\tcommand = \"echo asked; test ! -e closed\"\n";
    std::fs::write(&global, hook).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let variables = [("GIT_CONFIG_GLOBAL", global.to_str().unwrap())];
    for from in ["repository", folder.to_str().unwrap(), "none"] {
        let server = Server::start(PUSHING, &["--set", &format!("serve.hooks={from}")], &variables);
        let repository = server.repository();
        let config = std::fs::read_to_string(repository.join("config")).unwrap();
        let own = "[hook \"own\"]\n\tevent = pre-receive\n\tcommand = \"touch own; exit 1\"\n";
        std::fs::write(repository.join("config"), config + own).unwrap();
        let is_run = from != "none";
        let answer = push(&server, "refs/heads/new");
        assert!(answer.contains("ok refs/heads/new"), "{from}: {answer}");
        assert_eq!(answer.contains("asked"), is_run, "{from}: {answer}");
        std::fs::write(repository.join("closed"), "").unwrap();
        let answer = push(&server, "refs/heads/other");
        assert_eq!(answer.contains("pre-receive hook declined"), is_run, "{from}: {answer}");
        assert!(!repository.join("own").exists(), "{from}");
    }
}
