//! `packrace for-each-ref` compared with `git for-each-ref`.

mod described;
mod lists;
mod mapped;

use std::path::{Path, PathBuf};

use packrace_object::HashKind;
use packrace_testkit::{Git, RefFormat, RepoBuilder, Size, clean_environment};

use self::lists::{COMMITS, OPTIONS, PATTERNS, SORTS};
use crate::running::{PACKRACE, packrace, stock_git};

/// A repository with a work tree and refs of every kind, packed and loose.
struct Fixture {
    dir: tempfile::TempDir,
    commits: u64,
}

impl Fixture {
    fn new(ref_format: &str) -> Self {
        let mut fixture = Fixture { dir: packrace_testkit::scratch_dir(), commits: 0 };
        let format = format!("--ref-format={ref_format}");
        Git::stock().run(fixture.dir.path(), &["init", "-q", "-b", "main", &format, "repo"]);
        fixture.commit("First subject");
        fixture.commit("Second subject\nover two lines\n\nBody line one\n\nBody line two\n");
        fixture.git(&["checkout", "-q", "-b", "side", "HEAD~1"]);
        fixture.commit("side: Odd /\\ characters & dots.. here...");
        fixture.git(&["checkout", "-q", "main"]);
        fixture.git(&["merge", "-q", "--no-edit", "-s", "ours", "side"]);
        fixture.add_tags();
        fixture.add_tracking();
        let names = ["odd/na-me.x", "q\"uote's", "dol$lar", "Upper", "ümlaut"];
        names.iter().for_each(|name| fixture.git(&["branch", name]));
        fixture.git(&["symbolic-ref", "refs/heads/sym", "refs/heads/side"]);
        fixture.git(&["symbolic-ref", "refs/odd/sym", "refs/heads/sym"]);
        fixture.git(&["symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere"]);
        fixture.git(&["update-ref", "refs/odd/one", "main"]);
        fixture.git(&["update-ref", "refs/main", "side"]);
        fixture.git(&["update-ref", "refs/heads/v1.2", "main"]);
        fixture.git(&["pack-refs", "--all"]);
        fixture.git(&["branch", "loose", "main~1"]);
        fixture.git(&["tag", "loosetag"]);
        fixture.git(&["tag", "-a", "-m", "loose annotated", "looseann"]);
        fixture.commit("   \n  \nFourth");
        fixture.git(&["update-ref", "ORIG_HEAD", "HEAD~1"]);
        fixture.git(&["update-ref", "FOO_HEAD", "HEAD~1"]);
        fixture
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    fn git(&self, args: &[&str]) {
        Git::stock().run(&self.path(), &[&["-c", "advice.nestedTag=false"], args].concat());
    }

    /// Commits a minute after the previous commit.
    fn commit(&mut self, message: &str) {
        self.commits += 60;
        std::fs::write(self.path().join("file"), self.commits.to_string()).unwrap();
        self.git(&["add", "file"]);
        let mut command = Git::stock().command(&self.path());
        let seconds = 1_112_912_053 + self.commits;
        command.env("GIT_AUTHOR_DATE", format!("{seconds} -0700"));
        command.env("GIT_COMMITTER_DATE", format!("{} +0130", seconds + 5));
        command.args(["commit", "-q", "--cleanup=verbatim", "-m", message]);
        assert!(command.status().unwrap().success());
    }

    fn add_tags(&self) {
        let signed =
            "Annotated v1.10\n\nwith body\n-----BEGIN PGP SIGNATURE-----\nabc\n-----END PGP SIGNATURE-----\n";
        self.git(&["tag", "-a", "-m", "Annotated v1.0", "v1.0", "HEAD~1"]);
        self.git(&["tag", "-a", "-m", signed, "v1.10"]);
        self.git(&["tag", "-a", "-m", "tag of tag", "v2.0", "v1.10"]);
        for (name, object) in [("v1.2-rc1", "HEAD"), ("v1.2", "HEAD"), ("V1.2b", "side")] {
            self.git(&["tag", name, object]);
        }
        self.git(&["tag", "-a", "-m", "of tree", "treetag", "HEAD^{tree}"]);
        self.git(&["tag", "lighttree", "HEAD^{tree}"]);
        self.git(&["tag", "blobtag", "HEAD:file"]);
        self.git(&["tag", "-a", "-m", "of blob", "ablobtag", "HEAD:file"]);
    }

    fn add_tracking(&self) {
        self.git(&["update-ref", "refs/remotes/origin/main", "main~1"]);
        self.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
        self.git(&["update-ref", "refs/remotes/origin/side", "side"]);
        self.git(&["branch", "gone"]);
        self.git(&["branch", "local", "side"]);
        for (name, value) in [
            ("remote.origin.url", "/nowhere"),
            ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
            ("remote.other.url", "/nowhere"),
            ("remote.other.fetch", "+refs/heads/*:refs/remotes/oth/*"),
            ("branch.main.remote", "origin"),
            ("branch.main.merge", "refs/heads/main"),
            ("branch.side.remote", "origin"),
            ("branch.side.merge", "refs/heads/side"),
            ("branch.gone.remote", "origin"),
            ("branch.gone.merge", "refs/heads/gone"),
            ("branch.local.remote", "."),
            ("branch.local.merge", "refs/heads/main"),
        ] {
            self.git(&["config", name, value]);
        }
    }
}

/// Both print the same and end the same; of usage texts, only the first line is compared.
fn check_with(repo: &Path, before: &[&str], args: &[&str], input: &str) {
    let args = [before, &["for-each-ref"], args].concat();
    let (of_git, of_ours) = (stock_git(repo, &args, input), packrace(repo, &args, input));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(of_git.status.code(), of_ours.status.code(), "{args:?}: {}", text(&of_ours.stderr));
    assert_eq!(text(&of_git.stdout), text(&of_ours.stdout), "{args:?}");
    // Since 2.55, git names the object of the ref, and reports more of them.
    let is_of_kind = |line: &&str| line.starts_with("error: object ") && line.ends_with("not a commit");
    let said = |output: &std::process::Output| {
        let said = text(&output.stderr);
        let mut lines = said.lines().filter(|line| !is_of_kind(line));
        match output.status.code() {
            Some(129) => lines.next().unwrap_or_default().to_owned(),
            _ => lines.collect::<Vec<_>>().join("\n"),
        }
    };
    assert_eq!(said(&of_git), said(&of_ours), "{args:?}");
}

fn check(repo: &Path, args: &[&str]) {
    check_with(repo, &[], args, "");
}

fn check_formats(repo: &Path, formats: &[&str], more: &[&str]) {
    for format in formats {
        check(repo, &[&["--format", format], more].concat());
    }
}

/// Runs the test in both backends.
fn with_fixtures(test: impl Fn(&Path)) {
    for ref_format in ["files", "reftable"] {
        let fixture = Fixture::new(ref_format);
        test(&fixture.path());
    }
}

#[test]
fn patterns_and_options() {
    with_fixtures(|repo| {
        for args in PATTERNS.iter().chain(OPTIONS) {
            check(repo, args);
        }
        for input in ["", "\n", "refs/tags/v1.0", "refs/tags/v1.0\n\nrefs/heads/side\n", " refs/tags\n#\n"] {
            check_with(repo, &[], &["--stdin"], input);
        }
    });
}

#[test]
fn by_commits() {
    with_fixtures(|repo| {
        COMMITS.iter().for_each(|args| check(repo, args));
        // Also with a commit-graph.
        stock_git(repo, &["commit-graph", "write", "--reachable"], "");
        COMMITS.iter().for_each(|args| check(repo, args));
        check(repo, &["--points-at=main"]);
        check(repo, &["--contains=main~1", "--format=%(ahead-behind:main)"]);
        let id = stock_git(repo, &["rev-parse", "--short=8", "HEAD"], "").stdout;
        let id = String::from_utf8(id).unwrap();
        check(repo, &["--points-at", id.trim()]);
        check(repo, &["--contains", &id[..3]]);
    });
}

#[test]
fn sorted() {
    with_fixtures(|repo| {
        for key in SORTS {
            check(repo, &["--sort", key]);
            check(repo, &["--sort", key, "--ignore-case", "refs/tags"]);
        }
        check(repo, &["--sort"]);
        check(repo, &["--sort=-refname", "--sort=-objecttype"]);
        check(repo, &["--sort=-refname", "--no-sort", "--sort=objecttype"]);
        check(repo, &["--sort=foo", "--format=%(bar)"]);
        for suffixes in [&["-rc"][..], &["-rc", "", "b"], &["", "-rc"]] {
            let options: Vec<String> =
                suffixes.iter().map(|text| format!("versionsort.suffix={text}")).collect();
            let options: Vec<&str> = options.iter().flat_map(|text| ["-c", text]).collect();
            check_with(repo, &options, &["--sort=v:refname", "refs/tags"], "");
            check_with(repo, &options, &["--sort=-v:refname", "--ignore-case", "refs/tags"], "");
        }
        check_with(repo, &["-c", "versionsort.prereleaseSuffix=-rc"], &["--sort=v:refname"], "");
    });
}

#[test]
fn fields_of_refs() {
    with_fixtures(|repo| {
        let names = "%(refname:short)|%(refname:lstrip=1)|%(refname:lstrip=-1)|%(refname:rstrip=1)|%(refname:rstrip=-1)|\
             %(refname:strip=2)|%(refname:lstrip=9)|%(refname:lstrip=-9)|%(refname:rstrip=9)|%(refname:rstrip=-9)|\
             %(refname:lstrip=0)|%(*refname)|%(*refname:short)";
        check_formats(
            repo,
            &[
                names,
                "%(refname)|%(symref)|%(symref:short)|%(symref:lstrip=1)|%(symref:rstrip=-2)|%(HEAD)|%(worktreepath)",
                "%(refname)|%(upstream)|%(upstream:short)|%(upstream:lstrip=2)|%(upstream:rstrip=-1)",
                "%(upstream:track)|%(upstream:trackshort)|%(upstream:track,nobracket)|%(upstream:nobracket,track)",
                "%(upstream:remotename)|%(upstream:remoteref)|%(upstream:nobracket)|%(upstream:trackshort,nobracket)",
                "%(objectname:short)|%(objectname:short=2)|%(objectname:short=12)|%(objectname:short=50)",
                "%(objecttype) %(objectsize) %(objectsize:disk) %(deltabase) %(*objecttype) %(*objectsize)",
                "%(*objectname)|%(*objectname:short=4)|%(*deltabase)",
                "%(refname:)|%(symref:)|%(objectname:)|%(upstream:)|%(contents:)|%(subject:)|%(tree:)|%(author:)",
            ],
            &[],
        );
        check_with(repo, &["-c", "core.warnAmbiguousRefs=false"], &["--format=%(refname:short)"], "");
        for abbrev in ["12", "no", "auto", "4"] {
            let option = format!("core.abbrev={abbrev}");
            check_with(repo, &["-c", &option], &["--format=%(objectname:short)", "refs/heads/main"], "");
        }
        let pushes = "%(push)|%(push:short)|%(push:lstrip=-1)|%(push:track)|%(push:trackshort)|%(push:remotename)|%(push:remoteref)";
        let format = format!("--format=%(refname)|{pushes}");
        check(repo, &[&format]);
        for option in [
            "push.default=nothing",
            "push.default=matching",
            "push.default=current",
            "push.default=upstream",
            "branch.main.pushRemote=other",
            "remote.pushDefault=other",
            "remote.origin.push=refs/heads/*:refs/heads/x/*",
            "remote.origin.push=refs/heads/main:refs/heads/side",
            "remote.origin.mirror=true",
        ] {
            check_with(repo, &["-c", option], &[&format], "");
        }
        check_formats(
            repo,
            &["%(ahead-behind:HEAD) %(refname)", "%(ahead-behind:side)|%(ahead-behind:v1.0)"],
            &["refs/heads"],
        );
        check(repo, &["--format=%(ahead-behind:HEAD) %(refname)", "--sort=-ahead-behind:HEAD", "refs/heads"]);
    });
}

#[test]
fn fields_of_objects() {
    with_fixtures(|repo| {
        let people: Vec<String> = ["author", "committer", "tagger"]
            .iter()
            .map(|who| {
                format!(
                    "%({who})|%({who}name)|%({who}email)|%({who}email:trim)|%({who}email:localpart)|\
                     %({who}email:trim,localpart)|%({who}date)|%(*{who})|%(*{who}date)|%({who}:x)"
                )
            })
            .collect();
        check_formats(repo, &people.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        check_formats(
            repo,
            &[
                "%(tree)|%(tree:short)|%(parent)|%(parent:short=4)|%(numparent)|%(numparent:x)|%(*tree:short)",
                "%(object)|%(type)|%(tag)|%(*type)|%(*tag)|%(object:x)|%(type:x)|%(tag:x)",
                "%(creator)|%(creatordate)|%(*creatordate)|%(creator:x)",
                "%(contents)|%(contents:size)|%(*contents:subject)",
                "%(contents:subject)|%(contents:body)|%(contents:signature)|%(subject)|%(subject:sanitize)|%(body)",
                "%(contents:lines=0)|%(contents:lines=1)|%(contents:lines=2)|%(contents:lines=99)",
                "%(raw)|%(raw:size)|%(*raw)",
            ],
            &[],
        );
        let forms = "default short iso iso8601 iso-strict iso8601-strict rfc rfc2822 raw unix relative local default-local \
             iso-local iso-strict-local short-local raw-local rfc-local unix-local relative-local \
             human human-local auto: auto:human auto:x auto:auto:iso auto:format";
        let dates: Vec<String> = forms.split(' ').map(|form| format!("%(creatordate:{form})")).collect();
        check(repo, &["--format", &dates.join("|"), "--sort=creatordate"]);
        let conversions = "%a %A %b %B %c %C %d %D %e %F %g %G %h %H %I %j %k %l %m %M %n %p %P %r %R %S %t %T %u %U %V %w %W \
             %x %X %y %Y %z %Z %% %s";
        check_formats(
            repo,
            &[
                &format!("%(creatordate:format:{conversions})"),
                &format!("%(*authordate:format-local:{conversions})"),
                "%(creatordate:format:)",
            ],
            &[],
        );
    });
}

#[test]
fn parts_that_open_and_end() {
    with_fixtures(|repo| {
        let quoted = "a%(refname)b%(color:red)%(if)%(HEAD)%(then)q\"x%(refname)%(else)n'%(end)|\
             %(align:20)a%(refname)%(align:40,right)z%(end)%(end)!%(contents)";
        for language in ["--shell", "--perl", "--python", "--tcl"] {
            check(repo, &[language, "--format", quoted, "--color=always"]);
            check(repo, &[language, "--format", "%(raw)", "refs/tags"]);
            check(repo, &[language, "--format", "%(raw:size)", "--count=1"]);
        }
        check_formats(
            repo,
            &[
                "%(if)%(HEAD)%(then)* %(else)  %(end)%(refname:short)%(if)%(symref)%(then) -> %(symref)%(end)",
                "%(if)  %(then)y%(else)n%(end)|%(if:equals=a)a%(then)y%(else)n%(end)|%(if:notequals=a)a%(then)y%(end)",
                "%(if:equals=)%(then)y%(else)n%(end)|%(if)%0a%09 %(then)y%(else)n%(end)|%(if)%0b%(then)y%(end)",
                "%(if)a%(then)%(if)%(then)b%(else)%(align:9,right)c%(end)%(end)%(end)",
                "%(align:5)ab%(end)|%(align:5,right)ab%(end)|%(align:5,middle)ab%(end)|%(align:position=middle,width=6)ab%(end)",
                "%(align:1)abc%(end)|%(align:6,middle)abc%(end)|%(align:left,7)üü%(end)|%(align:7,8)x%(end)|%(align:5)%ff%(end)|",
                "%(align:9)中文%(end)|%(align:9)e%cc%81%(end)|%(align:9)%f0%9f%98%80%(end)|%(align:0)x%(end)|",
                "%(*align:5)x%(end)|%(*if)x%(*then)yy%(end)|",
                "%%|%|%zz|%0|%00x|%41|%4|",
                "%(then:x)",
                "%(end)",
                "%(then)",
                "%(else)",
                "%(if)",
                "%(if)x%(end)",
                "%(if)x%(then)%(then)%(end)",
                "%(if)%(else)%(end)",
                "%(if)x%(then)a%(else)b%(else)c%(end)",
                "%(if)x%(then)a%(else)b%(then)c%(end)",
                "%(if)%(align:5)%(then)%(end)%(end)",
                "%(if)a%(then)%(align:5)%(else)%(end)%(end)",
                "%(if)a%(then)b%(else)c%(end)%(end)",
                "%(align:10)",
                "%(align:10)%(color:red)x%(end)|",
            ],
            &["--color=always"],
        );
        for color in ["bold red", "red blue", "reset", "#ff0080", "200", "no-ul dim", "brightwhite", "normal"]
        {
            let format = format!("%(color:{color})x%(color:reset)y%(*color:{color})");
            check(repo, &["--color=always", "--count=1", "--format", &format]);
        }
    });
}

/// Invalid arguments: the same words.
#[test]
fn errors() {
    let fields = "foo * foo:bar *foo :short -refname version:refname v:refname rest objectmode path creatorname authorfoo \
         refname:foo refname:lstrip=x refname:lstrip refname:short,lstrip=1 symref:x HEAD:x objecttype:x objectsize:x \
         objectname:x objectname:short=x objectname:short=0 objectname:short=-1 objectname:short= deltabase:x upstream:x \
         upstream:track,x upstream:short,track push:x tree:x parent:x authorname:x authoremail:x authoremail:trim,x \
         authordate:x authordate:format authordate:formatx authordate:-local authordate:short:x authordate: authordate:human:x authordate:human: \
         authordate:auto authordate:auto-local contents:x \
         contents:lines contents:lines=x contents:lines=-1 subject:x body:x raw:x raw:size:x color color: color:foo \
         color:256 align align: align:left align:-1 align:5, align:10,x align:width=x align:position=x,5 if:foo \
         if:equals ahead-behind ahead-behind: ahead-behind:xyz ahead-behind:treetag is-base is-base: is-base:xyz is-base:treetag \
         authorname:mailmap, authorname:mailmap,trim authorname:trim authoremail:trim, authoremail:trimx authoremail:mailmapx \
         authoremail:mailmap,,trim authoremail:,mailmap authoremail:foo,mailmap authoremail:mailmap=1 creatorname:mailmap \
         describe:x describe:tags,x describe:x,tags describe:tagsx describe:,tags describe:tags=x describe:match describe:match= \
         describe:match=,tags describe:exclude describe:matchx=1 describe:abbrev describe:abbrev= describe:abbrev,tags \
         describe:abbrev=x describe:abbrev=-1,tags describe:abbrev=5x,tags describe:abbrev=- describe:abbrev=1k describe:all";
    let fixture = Fixture::new("files");
    for field in fields.split_ascii_whitespace().chain(["", "* refname"]) {
        check(&fixture.path(), &["--format", &format!("%({field})")]);
    }
    check_formats(&fixture.path(), &["%(refname", "%(", "%(foo)%(bar"], &[]);
    check(fixture.dir.path(), &[]);
}

/// What git supports and packrace does not is refused by name, never answered.
#[test]
fn what_is_left_out() {
    let fixture = Fixture::new("files");
    let output = packrace(&fixture.path(), &["for-each-ref", "--format=%(authordate:format:%9999999d)"], "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(128), "{said}");
    assert!(said.contains("date format is too wide"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn broken_refs_and_missing_objects() {
    let fixture = Fixture::new("files");
    let heads = fixture.path().join(".git/refs/heads");
    std::fs::write(heads.join("garbage"), "garbage\n").unwrap();
    std::fs::write(heads.join("empty"), "").unwrap();
    std::fs::write(heads.join("hzero"), format!("{}\n", "0".repeat(40))).unwrap();
    std::fs::write(heads.join("badsym"), "ref: refs/heads/../x\n").unwrap();
    std::fs::write(heads.join("missing"), format!("{}\n", "12".repeat(20))).unwrap();
    let (missing, id) = ("refs/heads/missing", "12".repeat(20));
    let points_at = format!("--points-at={id}");
    for args in [
        // Without this, git 2.55 prints what comes before the missing object.
        &["--sort=refname"][..],
        &["--format=%(refname) %(objectname) %(objectname:short)"],
        &["--sort=objecttype"],
        &["--sort=-refname"],
        &["--sort=refname:short", "--format=%(refname)"],
        &[missing, "--format=%(objectsize)"],
        &[missing, "--format=%(objectname) %(*objectname)"],
        &[missing, "--format=%(authorname)"],
        &[missing, "--format=%(tree)"],
        &[&points_at, "--format=%(refname)"],
        &["--points-at=HEAD", "--format=%(refname)"],
        &["--merged=HEAD", "--format=%(refname)"],
        &["--no-merged=side", "--format=%(refname)"],
        &["--contains=HEAD~1", "--format=%(refname)"],
        &["--no-contains=HEAD~1", "--format=%(refname)"],
    ] {
        check(&fixture.path(), args);
    }
    let whole = stock_git(&fixture.path(), &["for-each-ref", "--exclude", missing, "refs/heads"], "");
    let whole = String::from_utf8(whole.stdout).unwrap();
    let is_before = |line: &&str| line.split('\t').nth(1).is_some_and(|name| name < missing);
    let before: String = whole.lines().filter(is_before).map(|line| format!("{line}\n")).collect();
    let ours = packrace(&fixture.path(), &["for-each-ref", "refs/heads"], "");
    assert!(!before.is_empty());
    assert_eq!((ours.status.code(), String::from_utf8(ours.stdout).unwrap()), (Some(128), before));
}

#[test]
fn many_refs_of_every_hash() {
    for (hash, ref_format) in [(HashKind::Sha256, RefFormat::Files), (HashKind::Sha256, RefFormat::Reftable)]
    {
        let repo = RepoBuilder::new(Size::Tiny).hash(hash).ref_format(ref_format).build();
        check(repo.path(), &[]);
        check(
            repo.path(),
            &["--format=%(objectname:short) %(*objectname:short=5) %(deltabase) %(refname:short)"],
        );
        check(repo.path(), &["--format=%(contents)%(raw:size)%(tree)%(parent)", "--sort=-objectname"]);
        check(repo.path(), &["--merged=main~3"]);
        check(repo.path(), &["--contains=main~3", "--sort=*objecttype", "--sort=-v:refname"]);
        check(repo.path(), &["refs/heads", "--format=%(ahead-behind:main~7)"]);
    }
}

/// The reads that packrace reports.
fn reads(repo: &Path, args: &[&str]) -> String {
    let report = tempfile::NamedTempFile::new().unwrap();
    let mut command = std::process::Command::new(PACKRACE);
    clean_environment(&mut command);
    command.current_dir(repo).arg("for-each-ref").args(args).env("PACKRACE_IO_REPORT", report.path());
    assert!(command.output().unwrap().status.success(), "{args:?}");
    std::fs::read_to_string(report.path()).unwrap()
}

/// Names, and what the store knows of tags, need no access to objects.
#[test]
fn names_open_no_object() {
    for ref_format in [RefFormat::Files, RefFormat::Reftable] {
        let repo = RepoBuilder::new(Size::Tiny).ref_format(ref_format).build();
        repo.git(&["pack-refs", "--all"]);
        for args in [
            &["--format=%(refname) %(objectname) %(*objectname)"][..],
            &["--format=%(refname)", "--sort=-v:refname", "refs/tags"],
            &["--format=%(refname:short) %(symref) %(HEAD) %(upstream)"],
        ] {
            let report = reads(repo.path(), args);
            // A table does not record that a ref is no tag (git 2.55 reads the object, too).
            let is_known = ref_format == RefFormat::Files || !args[0].contains("(*");
            let has_looked = report.contains("\"pack\"") || report.contains("\"objects\"");
            assert_eq!(has_looked, !is_known, "{ref_format:?} {args:?}: {report}");
        }
        assert!(reads(repo.path(), &[]).contains("\"pack\""));
    }
}
