use super::*;

const RULES: &str = r#"
admins = ["root", "@ops"]

[groups]
ops = ["oscar"]
core = ["alice", "@ops"]

[[rule]]
repository = ["public/**", "docs"]
who = "anyone"
allow = ["read"]

[[rule]]
repository = "team/"
who = "@core"
deny = ["force", "delete"]
refs = ["refs/heads/main", "refs/heads/release/*"]

[[rule]]
repository = "team/"
who = "@core"
allow = ["read", "write", "create", "force", "delete"]

[[rule]]
repository = "team/*"
who = "users"
allow = ["read"]

[[rule]]
repository = "team/?ool[0-9].git"
who = "bob"
allow = ["write"]
refs = "refs/heads/bob/**"
"#;

fn rules() -> AccessRules {
    AccessRules::parse(Path::new("rules"), RULES).unwrap()
}

fn principal(user: &str) -> Principal {
    if user.is_empty() { Principal::anonymous() } else { Principal::named(user) }
}

fn change(kind: ChangeKind, name: &str) -> Ask<'_> {
    Ask::Ref(RefChange { name: name.as_bytes(), kind })
}

#[track_caller]
fn check(user: &str, path: &str, ask: Ask<'_>, expect: bool, line: Option<usize>) {
    let verdict = rules().decide(&principal(user), path.as_bytes(), ask);
    assert_eq!(verdict, Verdict { is_allowed: expect, line }, "{user} {path} {ask:?}");
}

#[test]
fn the_first_rule_that_matches_decides() {
    use ChangeKind::{Create, Delete, FastForward, Force};
    check("", "public/a.git", Ask::Read, true, Some(8));
    check("", "public/a/b/c", Ask::Read, true, Some(8));
    check("", "docs.git", Ask::Read, true, Some(8));
    check("", "docs/inner.git", Ask::Read, false, None);
    check("", "team/x.git", Ask::Read, false, None);
    check("", "public/a.git", Ask::Push, false, None);
    check("alice", "team/x.git", Ask::Read, true, Some(19));
    check("alice", "team/x/y.git", Ask::Read, true, Some(19));
    check("carol", "team/x.git", Ask::Read, true, Some(24));
    check("carol", "team/x/y.git", Ask::Read, false, None);
    check("carol", "team/x.git", Ask::Push, false, None);
    check("oscar", "team/x.git", change(Force, "refs/heads/main"), false, Some(13));
    check("alice", "team/x.git", change(FastForward, "refs/heads/main"), true, Some(19));
    check("alice", "team/x.git", change(Force, "refs/heads/topic"), true, Some(19));
    check("alice", "team/x.git", change(Delete, "refs/heads/release/1"), false, Some(13));
    check("alice", "team/x.git", change(Delete, "refs/heads/release/1/2"), true, Some(19));
    check("alice", "team/x.git", Ask::Push, true, Some(19));
    check("alice", "team/new.git", Ask::Create, true, Some(19));
    check("bob", "team/tool1.git", Ask::Push, true, Some(29));
    check("bob", "team/tool1", Ask::Push, false, None);
    check("bob", "team/tool1.git", change(FastForward, "refs/heads/bob/a/b"), true, Some(29));
    check("bob", "team/tool1.git", change(FastForward, "refs/heads/main"), false, None);
    check("bob", "team/tool1.git", change(Create, "refs/heads/bob/a"), false, None);
    check("bob", "team/new.git", Ask::Create, false, None);
}

#[test]
fn admins_look_after_the_server() {
    for (user, expect) in [("root", true), ("oscar", true), ("alice", false), ("", false)] {
        check(user, "", Ask::Look, expect, None);
        check(user, "team/x.git", Ask::Delete, expect, None);
    }
}

#[test]
fn groups_of_a_request_count_too() {
    let given = Principal::named("zoe").in_groups(vec!["core".to_owned()]);
    assert!(rules().decide(&given, b"team/x.git", Ask::Push).is_allowed);
    // A user cannot call itself a group.
    check("@core", "team/x.git", Ask::Push, false, None);
    check("users", "docs", Ask::Push, false, None);
}

#[test]
fn a_push_that_is_denied_wholly_is_refused_at_once() {
    let text = r#"
[[rule]]
repository = "a"
who = "users"
deny = ["write", "create", "force", "delete"]

[[rule]]
repository = "**"
who = "users"
allow = ["read", "write", "create", "force", "delete"]
"#;
    let rules = AccessRules::parse(Path::new("rules"), text).unwrap();
    let verdict = |path: &[u8]| rules.decide(&principal("alice"), path, Ask::Push);
    assert_eq!(verdict(b"a"), Verdict { is_allowed: false, line: Some(2) });
    assert_eq!(verdict(b"b"), Verdict { is_allowed: true, line: Some(7) });
}

#[test]
fn mistakes_are_refused_with_their_place() {
    let check = |text: &str, expect: &str| {
        let error = AccessRules::parse(Path::new("rules"), text).unwrap_err().to_string();
        assert!(error.starts_with("rules:") && error.contains(expect), "{text:?}: {error}");
    };
    let rule = |body: &str| format!("\n[[rule]]\n{body}\n");
    check("[[rule]", "rules:1:");
    check("color = 1", "unknown field");
    check(&rule("who = \"a\"\nallow = [\"read\"]"), "missing field `repository`");
    check(&rule("repository = \"a\"\nwho = \"a\"\nallow = [\"fly\"]"), ":5:10: unknown variant");
    check(&rule("repository = \"a\"\nwho = \"a\""), ":2:1: a rule needs either allow or deny, not both");
    check(
        &rule("repository = \"a\"\nwho = \"a\"\nallow = [\"read\"]\ndeny = [\"read\"]"),
        "either allow or deny",
    );
    check(&rule("repository = \"a\"\nwho = \"a\"\nallow = []"), "needs an operation");
    check(&rule("repository = []\nwho = \"a\"\nallow = [\"read\"]"), "needs an operation");
    check(&rule("repository = \"a\"\nwho = []\nallow = [\"read\"]"), "who: is empty");
    check(&rule("repository = \"a\"\nwho = 7\nallow = [\"read\"]"), "a string or a list of strings");
    check(&rule("repository = \"/a\"\nwho = \"a\"\nallow = [\"read\"]"), "starts with a slash");
    check(&rule("repository = \"a\"\nwho = \"@x\"\nallow = [\"read\"]"), "unknown group x");
    check(
        &rule("repository = \"a\"\nwho = \"a\"\nallow = [\"read\"]\nrefs = \"refs/**\""),
        "read applies to whole repositories",
    );
    check(&rule("repository = \"a\"\nwho = \"a\"\nallow = [\"write\"]\nrefs = \"main\""), "full ref names");
    let stars = "*a".repeat(17);
    check(
        &rule(&format!("repository = \"{stars}\"\nwho = \"a\"\nallow = [\"read\"]")),
        "more than 16 wildcards",
    );
    check("[groups]\na = [\"@b\"]\n", "unknown group b");
    check("[groups]\na = [\"anyone\"]\n", "not a valid user name");
    check("admins = [\"@x\"]\n", "unknown group x");
}

#[test]
fn groups_that_hold_each_other_end() {
    let text = "[groups]\na = [\"@b\", \"x\"]\nb = [\"@a\", \"y\"]\n";
    let rules = AccessRules::parse(Path::new("rules"), text).unwrap();
    let mut groups = rules.groups["x"].clone();
    groups.sort();
    assert_eq!(groups, ["a".into(), "b".into()]);
}
