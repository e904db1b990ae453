use super::*;

fn shell(script: &str) -> ChildProcess {
    confined(script, Confinement::default())
}

fn confined(script: &str, confinement: Confinement) -> ChildProcess {
    let program = Program {
        argv: ["/bin/sh", "-c", script].map(OsString::from).to_vec(),
        hook: None,
        directory: "/".into(),
        environment: vec![("PACKRACE_X".into(), Some("x y".into())), ("HOME".into(), None)],
        reads_messages: true,
        confinement,
    };
    ChildProcess::start(&program).unwrap()
}

/// Checks a script's output, messages, and whether it succeeded.
fn check(script: &str, input: &[u8], expect: (&[u8], &str, bool)) {
    let mut child = shell(script);
    let (mut rest, mut output, mut messages) = (input, Vec::new(), Vec::new());
    let (mut out, mut err) = ([0; 100], [0; 100]);
    let mut closed = (false, false);
    while closed != (true, true) {
        if rest.is_empty() {
            child.close_input();
        }
        let did = child.transfer(rest, &mut out, &mut err, Duration::from_secs(5)).unwrap();
        rest = &rest[did.written..];
        for (read, from, to, closed) in [
            (did.output, &out, &mut output, &mut closed.0),
            (did.messages, &err, &mut messages, &mut closed.1),
        ] {
            match read {
                Read::Bytes(length) => to.extend_from_slice(&from[..length]),
                Read::Closed => *closed = true,
                Read::Nothing => {}
            }
        }
    }
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(END_INTERVAL);
    };
    let messages = String::from_utf8(messages).unwrap();
    assert_eq!((output.as_slice(), messages.as_str(), status.success()), expect, "{script}");
}

#[test]
fn streams_environment_and_status() {
    check("cat", b"abc", (b"abc", "", true));
    check("echo \"$PACKRACE_X ${HOME-none} $PWD\" >&2; exit 3", b"", (b"", "x y none /\n", false));
    check("exec 1>&- 2>&-; kill -9 $$", b"", (b"", "", false));
}

#[test]
fn a_program_runs_to_its_end() {
    let check = |script: &str, input: &[u8], expect: (&[u8], Option<i32>)| {
        let mut said = Vec::new();
        let status = shell(script).run(input, &mut |bytes| said.extend_from_slice(bytes)).unwrap();
        assert_eq!((said.as_slice(), status.code()), expect, "{script}");
    };
    check("cat; exit 2", b"abc", (b"abc", Some(2)));
    check("cat >&2", b"abc", (b"abc", Some(0)));
    check("exec <&- 1>&- 2>&-; sleep 0.1; exit 7", &vec![b'x'; 1 << 20], (b"", Some(7)));
    check("kill -9 $$", b"", (b"", None));
}

#[test]
fn nobody_waits_for_the_other() {
    let much = vec![b'x'; 3 << 20];
    check("cat", &much, (&much, "", true));
    check("exit 0", &much, (b"", "", true));
    check("head -c 3 >&2; exec <&-; echo done", &much, (b"done\n", "xxx", true));
}

#[test]
fn the_whole_group_ends_also_when_it_does_not_listen() {
    for script in ["sleep 1000 & echo $!; wait", "trap '' TERM; sleep 1000 & echo $!; wait"] {
        let mut child = shell(script);
        let mut output = [0; 20];
        let did = child.transfer(b"", &mut output, &mut [0; 9], Duration::from_secs(5)).unwrap();
        let Read::Bytes(length) = did.output else { panic!("{did:?}") };
        let sleeper: i32 = std::str::from_utf8(&output[..length]).unwrap().trim().parse().unwrap();
        child.end();
        let is_there = || {
            let stat = std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        // Its new parent reaps it eventually.
        assert!(
            (0..200).any(|_| {
                std::thread::sleep(END_INTERVAL);
                !is_there()
            }),
            "{script}"
        );
    }
}

#[test]
fn time_is_up_for_the_whole_group() {
    let confinement = || Confinement { time: Some(Duration::from_millis(50)), ..Confinement::default() };
    // Silent; reading nothing; with its outputs closed; writing all the time.
    for script in
        ["sleep 1000", "trap '' TERM; sleep 1000", "exec 1>&- 2>&-; sleep 1000", "while :; do echo; done"]
    {
        let error = confined(script, confinement()).run(b"", &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{script}");
    }
}

#[test]
fn what_is_inherited_and_how_much_there_is() {
    let check = |script: &str, confinement: Confinement, expect: &str| {
        let mut said = Vec::new();
        confined(script, confinement).run(b"", &mut |bytes| said.extend_from_slice(bytes)).unwrap();
        assert_eq!(String::from_utf8_lossy(&said), expect, "{script}");
    };
    let path = || ("PATH".into(), std::env::var_os("PATH").unwrap());
    let keep = Confinement { inherits: Some(Arc::new(vec![path()])), ..Confinement::default() };
    // Cargo sets some; the given ones are added.
    let names = "env | grep -o '^[A-Z]*_PKG_NAME=\\|^PATH=\\|^PACKRACE_X=' | sort | tr -d '\\n'";
    check(names, Confinement::default(), "CARGO_PKG_NAME=PACKRACE_X=PATH=");
    check(names, keep, "PACKRACE_X=PATH=");
    let limits = Confinement {
        memory_bytes: Some(1 << 30),
        processes: Some(1000),
        cpu_seconds: Some(77),
        ..Confinement::default()
    };
    let shown = "grep -E 'Max (cpu|processes|address)' /proc/self/limits | tr -s ' ' | cut -d' ' -f4";
    check(shown, limits, "77\n1000\n1073741824\n");
}

#[test]
fn what_cannot_be_started_is_an_error() {
    let program = Program {
        argv: Vec::new(),
        hook: None,
        directory: "/".into(),
        environment: Vec::new(),
        reads_messages: false,
        confinement: Confinement::default(),
    };
    assert!(ChildProcess::start(&program).is_err());
    let program = Program { argv: vec!["/no/such".into()], ..program };
    assert_eq!(ChildProcess::start(&program).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_file_of_no_known_format_is_a_script() {
    let dir = tempfile::tempdir().unwrap();
    let run = |content: &str, name: &str, confinement: Confinement| {
        let path = dir.path().join("script");
        // Not open in this process, where another thread may fork: it could not be run then.
        let write = ["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\""].map(OsString::from);
        let write = Command::new("sh").args(write).arg(&path).arg(content).status();
        assert!(write.unwrap().success());
        let found = std::env::var("PATH").unwrap();
        let program = Program {
            argv: vec![name.into(), "a b".into(), "c".into()],
            hook: None,
            directory: dir.path().into(),
            environment: vec![("PATH".into(), Some(format!("{}:{found}", dir.path().display()).into()))],
            reads_messages: true,
            confinement,
        };
        let mut said = Vec::new();
        let status = ChildProcess::start(&program)?.run(b"x", &mut |text| said.extend_from_slice(text))?;
        Ok::<_, io::Error>((status.code(), String::from_utf8(said).unwrap()))
    };
    let here = dir.path().join("script").display().to_string();
    let limited = Confinement { cpu_seconds: Some(60), ..Confinement::default() };
    for confinement in [Confinement::default(), limited] {
        let run = |content, name| run(content, name, confinement.clone()).unwrap();
        let script = "echo \"$0|$1|$2|$#|$(cat)\"; exit 3";
        assert_eq!(run(script, "./script"), (Some(3), "./script|a b|c|2|x\n".to_owned()));
        assert_eq!(run(script, &here), (Some(3), format!("{here}|a b|c|2|x\n")));
        assert_eq!(run(script, "script").0, Some(3));
        assert_eq!(run("", "./script"), (Some(0), String::new()));
    }
    // A program with an interpreter that is missing is not a script.
    let error = run("#!/no/such\n", "./script", Confinement::default()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}
