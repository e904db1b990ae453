//! `packrace access from-gitolite`: the rules, compared with what gitolite's documentation says.

use super::*;

/// A gitolite file, and its conversion.
struct Converted {
    folder: tempfile::TempDir,
}

impl Converted {
    fn run(conf: &str, args: &[&str]) -> (Self, Output) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("gitolite.conf"), conf).unwrap();
        let converted = Converted { folder };
        let ran = converted.again(args);
        (converted, ran)
    }

    fn again(&self, args: &[&str]) -> Output {
        let mut command = packrace();
        command.current_dir(self.folder.path()).args(["access", "from-gitolite"]).args(args);
        output(command.args(["--output", "rules.toml", "gitolite.conf"]))
    }

    /// Whether a user may do something; `question` has the user, the repository, the operation, and
    /// optionally a ref.
    fn allows(&self, question: &str) -> bool {
        let mut command = packrace();
        command.current_dir(self.folder.path()).args(["access", "check", "--rules", "rules.toml"]);
        let checked = output(command.args(question.split_whitespace()));
        assert!(matches!(checked.status.code(), Some(0 | 1)), "{question}: {checked:?}");
        checked.status.success()
    }

    #[track_caller]
    fn check(&self, yes: &[&str], no: &[&str]) {
        for (questions, expect) in [(yes, true), (no, false)] {
            for question in questions {
                assert_eq!(self.allows(question), expect, "{question}\n{}", self.rules());
            }
        }
    }

    fn rules(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("rules.toml")).unwrap_or_default()
    }
}

/// Everything in the file can be converted; the answers are those of gitolite's documentation.
#[track_caller]
fn check(conf: &str, yes: &[&str], no: &[&str]) {
    let (converted, ran) = Converted::run(conf, &[]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.is_empty(), "{conf}: {said}");
    converted.check(yes, no);
}

/// Something in the file cannot be converted: the list contains these words, and the rules allow less.
#[track_caller]
fn check_partial(conf: &str, words: &[&str], yes: &[&str], no: &[&str]) {
    let (converted, ran) = Converted::run(conf, &[]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(1), "{conf}: {said}");
    assert!(words.iter().all(|words| said.contains(words)), "{conf}: {said}");
    assert_eq!(converted.rules(), "");
    let ran = converted.again(&["--partial"]);
    assert!(ran.status.success(), "{conf}: {}", String::from_utf8_lossy(&ran.stderr));
    assert!(words.iter().all(|words| converted.rules().contains(words)), "{}", converted.rules());
    converted.check(yes, no);
}

#[test]
fn the_example_of_the_documentation() {
    let conf = "\
@teamleads = tina   # groups
@devteam = dora
@devteam = dan
@managers = mary
repo foo bar
    RW+                     =   alice @teamleads
    -   master              =   dilbert @devteam
    -   refs/tags/v[0-9]    =   dilbert @devteam
    RW+ dev/                =   dilbert @devteam
    RW                      =   dilbert @devteam
    R                       =   @managers
";
    let yes = [
        "alice foo force refs/heads/master",
        "tina bar.git delete refs/tags/v1",
        "dora foo force refs/heads/dev/x/y",
        "dan foo delete refs/heads/dev/x",
        "dilbert foo write refs/heads/xyz",
        "dilbert foo create refs/heads/xyz",
        "dilbert foo create refs/tags/nightly",
        "mary foo.git read",
        "dora bar read",
        "dilbert foo read",
    ];
    let no = [
        "dilbert foo write refs/heads/master",
        "dilbert foo write refs/heads/master1",
        "dilbert foo create refs/heads/master/full",
        "dora foo create refs/tags/v1.2",
        "dilbert foo force refs/heads/xyz",
        "dilbert foo delete refs/heads/xyz",
        // Tags can be created, but not updated.
        "dilbert foo write refs/tags/nightly",
        "mary foo write refs/heads/xyz",
        "alice foobar write refs/heads/xyz",
        "zoe foo read",
        "anyone foo read",
        "alice other read",
    ];
    check(conf, &yes, &no);
}

#[test]
fn letters_of_permissions() {
    // With a C in one rule of a repository, its other rules no longer allow creation; with a D, deletion.
    // Other repositories are not affected.
    let conf = "\
repo a
    RWC = carol
    RW+ = bob
repo b
    RW+D = dora
    RW+  = bob
    RWD  = dan
repo c
    RW+ = bob
    RW  = carol
repo a b
    RW  = erin
";
    let yes = [
        "carol a create refs/heads/x",
        "bob a write refs/heads/x",
        "bob a force refs/heads/x",
        "bob a delete refs/heads/x",
        "dora b delete refs/heads/x",
        "dan b delete refs/heads/x",
        "bob b create refs/heads/x",
        "bob b force refs/heads/x",
        "bob c delete refs/tags/x",
        "bob c create refs/tags/x",
        "carol c create refs/heads/x",
        "erin b create refs/heads/x",
        "erin a write refs/heads/x",
    ];
    let no = [
        "carol a force refs/heads/x",
        "carol a delete refs/heads/x",
        "bob a create refs/heads/x",
        "erin a create refs/heads/x",
        "bob b delete refs/heads/x",
        "dan b force refs/heads/x",
        "carol c delete refs/heads/x",
        "erin b delete refs/heads/x",
        // Pushes never create repositories.
        "bob c create",
    ];
    check(conf, &yes, &no);
}

#[test]
fn rules_accumulate_in_their_order() {
    let conf = "\
repo @all
    - = eve
@early = foo
@late = @early
@early = bar
repo @late
    RW = late
repo foo
    R = eve reader
repo secret/..*
    R = reader
repo foo
    RW+ release-(one|two)$ = eve reader
    RW+ personal/USER/ = reader other
";
    let yes = [
        // Denials do not affect reading.
        "eve foo read",
        "reader foo read",
        "late foo create refs/heads/x",
        "reader secret/a/b read",
        "reader secret/a.git read",
        "reader foo force refs/heads/release-one",
        "reader foo create refs/heads/personal/reader/a",
    ];
    let no = [
        "eve foo write refs/heads/release-one",
        "late bar read",
        "reader secret read",
        "reader secrets read",
        "reader foo force refs/heads/release-one1",
        "other foo force refs/heads/release-one",
        "reader foo create refs/heads/personal/other/a",
    ];
    check(conf, &yes, &no);
}

#[test]
fn deny_rules_for_reading() {
    let conf = "\
@secret = gitolite-admin hidden/..*
repo @secret
    - = bob
    option deny-rules = 1
repo open
    - = bob
    option deny-rules = 1
repo open
    option deny-rules = 0
repo @all
    R = bob
    RW = alice
";
    let yes = ["bob other read", "bob open read", "alice hidden/x read", "alice hidden/x write refs/heads/a"];
    let no = ["bob gitolite-admin read", "bob hidden/x.git read", "bob open write refs/heads/a"];
    check(conf, &yes, &no);
}

#[test]
fn what_cannot_be_said_is_listed_and_denied() {
    let no_x = "alice a write refs/heads/x";
    let all = "    RW = alice\n";
    let allow = format!("repo a\n    RW+ (x|y)+z = alice\n    config a.b = c\n{all}");
    let words = ["gitolite.conf:2: no pattern for", "gitolite.conf:3: not a rule: config a.b"];
    check_partial(&allow, &words, &[no_x, "alice a read"], &["alice a force refs/heads/xz"]);
    let deny = format!("repo a\n    - x*y = alice\n{all}");
    check_partial(&deny, &["gitolite.conf:2: no pattern"], &["alice a read"], &[no_x]);
    let alternatives = format!("repo a\n    - x|y = alice\n{all}");
    check_partial(&alternatives, &["all are denied instead"], &[], &[no_x]);
    let vref = format!("repo a\n{all}    - VREF/COUNT/5 = alice\n");
    check_partial(&vref, &["gitolite.conf:3: VREF is not supported"], &["alice a read"], &[no_x]);
    let wild = "repo foo/CREATOR/..*\n    C = @all\n    RW+ = CREATOR\n    R = READERS alice\n";
    let words = [
        "their own repositories",
        "CREATOR cannot be resolved to users",
        "READERS cannot be resolved to users",
    ];
    check_partial(wild, &words, &[], &["alice foo/alice/x read", "CREATOR foo/a/x read"]);
    let merges = format!("repo a\n{all}    RWM = bob\n");
    check_partial(&merges, &["merges"], &["bob a write refs/heads/x", "alice a read"], &[no_x]);
    let unknown = format!("repo a\n    - = @ldap\n{all}");
    check_partial(
        &unknown,
        &["@ldap cannot be resolved to users; all users are denied instead"],
        &["alice a read"],
        &[no_x],
    );
    let creates = "repo @all\n    RW = alice\nrepo b\n    RWC = bob\n";
    check_partial(creates, &["allows no new refs"], &[no_x], &["alice b create refs/heads/x"]);
    let suffix = "repo foo/dev..*\n    R = alice\n";
    check_partial(
        suffix,
        &["could also match other names"],
        &["alice foo/dev/x read"],
        &["alice foo/dev.git read"],
    );
    let reads = format!("repo a\n    - x = alice\n    option deny-rules = 1\n{all}");
    check_partial(&reads, &["with deny-rules"], &[], &["alice a read", no_x]);
}

#[test]
fn what_is_not_understood_ends_it() {
    let check = |conf: &str, expect: &str| {
        let (converted, ran) = Converted::run(conf, &["--partial"]);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(said, format!("fatal: {expect}\n"), "{conf:?}");
        assert_eq!((ran.status.code(), converted.rules()), (Some(128), String::new()), "{conf:?}");
    };
    check("repo a\n  RX = b\n", "gitolite.conf:2: 'RX' is not a permission");
    check("repo a\n  frob\n", "gitolite.conf:2: 'frob' is not supported, and could deny something");
    check("  R = b\n", "gitolite.conf:1: rule before any repo line");
    check("repo a\n  R =\n", "gitolite.conf:2: rule without users");
    check("repo a\n\n  R = a,b\n", "gitolite.conf:3: 'a,b' is not a user name");
    check("repo a\n  - x#y = b\n", "gitolite.conf:2: cannot tell whether # starts a comment");
    check("@a = @b\n", "gitolite.conf:1: group @b is used before it is defined");
    check("subconf \"x\"\n", "gitolite.conf:1: 'subconf' is not supported, and could deny something");
    check("include \"none\"\n", "gitolite.conf:1: none: No such file or directory");
    let doubling = (0..40).map(|_| "@a = @a @a\n").collect::<String>();
    check(&format!("@a = b\n{doubling}"), "gitolite.conf:10: more than 200000 names");
}

#[test]
fn files_include_others() {
    let (converted, _) =
        Converted::run("include \"sub/*.conf\"\nrepo a\n  R = \\\n  bob\ninclude \"gitolite.conf\"\n", &[]);
    let sub = converted.folder.path().join("sub");
    std::fs::create_dir(&sub).unwrap();
    std::fs::write(sub.join("b.conf"), "repo a\n  - x$ = alice\n").unwrap();
    std::fs::write(sub.join("a.conf"), "repo a\n  RW y$ = alice\n").unwrap();
    std::fs::write(sub.join("not"), "nonsense\n").unwrap();
    let ran = converted.again(&[]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(converted.rules().contains("# sub/a.conf:2: RW y$ = alice"), "{}", converted.rules());
    converted.check(&["alice a write refs/heads/y", "bob a read"], &["alice a write refs/heads/x"]);
    // Existing files are not overwritten.
    assert_eq!(converted.again(&[]).status.code(), Some(128));
}
