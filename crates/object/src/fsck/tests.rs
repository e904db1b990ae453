use std::sync::Arc;

use super::*;
use crate::{HashKind, Kind, ObjectId, oid};

const ID: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

fn rules(settings: &str, skip: &str) -> Arc<Rules> {
    let mut rules = Rules { severities: Severities::strict(), skip: SkipList::default() };
    rules.severities.set_all(settings.as_bytes()).unwrap();
    rules.skip.add(skip.as_bytes(), HashKind::Sha1).unwrap();
    Arc::new(rules)
}

fn id(byte: u8) -> ObjectId {
    ObjectId::Sha1([byte; 20])
}

fn entry(mode: &str, name: &[u8], id: &oid) -> Vec<u8> {
    [mode.as_bytes(), b" ", name, b"\0", id.as_bytes()].concat()
}

fn lines(findings: &[Finding]) -> String {
    let mut text = Vec::new();
    findings.iter().for_each(|finding| finding.write_line(&mut text));
    String::from_utf8(text).unwrap().replace(&id(1).to_string(), "ID")
}

#[track_caller]
fn check(kind: Kind, content: &[u8], settings: &str, expect: &str) {
    let mut checker = Checker::new(rules(settings, ""), HashKind::Sha1);
    assert_eq!(
        lines(&checker.check(kind, &id(1), content)),
        expect,
        "{:?}",
        String::from_utf8_lossy(content)
    );
    let mut skipping = Checker::new(rules(settings, &id(1).to_string()), HashKind::Sha1);
    assert_eq!(skipping.check(kind, &id(1), content), []);
}

#[test]
fn an_error_ends_a_header_and_a_warning_does_not() {
    let commit = format!("tree {ID}\nauthor A <a>\ncommitter <a> 1 +0000\n\n");
    let date = "error: object ID: missingSpaceBeforeDate: invalid author/committer line - missing space before date\n";
    let name = "error: object ID: missingNameBeforeEmail: invalid author/committer line - missing space before email\n";
    check(Kind::Commit, commit.as_bytes(), "", date);
    let both = date.replace("error", "warning") + name;
    check(Kind::Commit, commit.as_bytes(), "missingSpaceBeforeDate=warn", &both);
    check(Kind::Commit, commit.as_bytes(), "missingSpaceBeforeDate=ignore", name);
}

#[test]
fn a_wrong_parent_does_not_hide_what_follows() {
    let commit = format!("tree {ID}\nparent x\nparent y\ncommitter x\n\n");
    let parent = "warning: object ID: badParentSha1: invalid 'parent' line format - bad sha1\n";
    let author = "error: object ID: missingAuthor: invalid format - expected 'author' line\n";
    check(Kind::Commit, commit.as_bytes(), "badParentSha1=warn", &[parent, parent, author].concat());
}

#[test]
fn trees_tell_all() {
    let mut tree = entry("100644", b"b", &id(0));
    tree.extend(entry("0100664", b".git\x01", &id(2)));
    let padded = "error: object ID: nullSha1: contains entries pointing to null sha1\n\
        error: object ID: zeroPaddedFilemode: contains zero-padded file modes\n\
        warning: object ID: badFilemode: contains bad file modes\n\
        error: object ID: treeNotSorted: not properly sorted\n";
    check(Kind::Tree, &tree, "", padded);
    check(
        Kind::Tree,
        b"x",
        "",
        "error: too-short tree object\nerror: object ID: badTree: cannot be parsed as a tree\n",
    );
    check(Kind::Tree, b"", "", "");
}

#[test]
fn control_characters_are_not_handed_on() {
    let tag = format!("object {ID}\ntype tree\ntag \x1b[m\ntagger A <a> 1 +0000\n");
    check(Kind::Tag, tag.as_bytes(), "", "warning: object ID: badTagName: invalid 'tag' name: ?[m\n");
}

#[test]
fn files_are_checked_once_whoever_saw_them() {
    let rules = rules("", "");
    let new = || Checker::new(rules.clone(), HashKind::Sha1);
    let (mut first, mut second) = (new(), new());
    let modules = b"[submodule \"..\"]\n path = x\n";
    // The content is checked before the tree that names it.
    assert_eq!(first.check(Kind::Blob, &id(1), modules), []);
    let tree = [entry("100644", b".gitattributes", &id(3)), entry("100644", b".gitmodules", &id(1))].concat();
    assert_eq!(second.check(Kind::Tree, &id(2), &tree), []);
    let attributes = Pending { file: SpecialFile::Attributes, id: id(3) };
    let modules_file = Pending { file: SpecialFile::Modules, id: id(1) };
    assert_eq!(second.pending(), [modules_file, attributes]);
    let found = "error: object ID: gitmodulesName: disallowed submodule name: ..\n";
    assert_eq!(lines(&second.clone().check(Kind::Blob, &id(1), modules)), found);
    assert_eq!(second.check(Kind::Blob, &id(3), b"x\n"), []);
    first.merge(second);
    assert_eq!(first.pending(), [modules_file]);
    assert_eq!(lines(&first.check_pending(modules_file, Content::Blob(modules))), found);
    let check = |content, text: &str| {
        assert_eq!(lines(&first.check_pending(modules_file, content)), format!("error: object ID: {text}\n"));
    };
    check(Content::Missing, "gitmodulesMissing: unable to read .gitmodules blob");
    check(Content::OtherKind, "gitmodulesBlob: non-blob found at .gitmodules");
    check(Content::TooLarge, "gitmodulesLarge: .gitmodules too large to parse");
    let large = first.check_large_blob(&id(1));
    assert_eq!(lines(&large), "error: object ID: gitmodulesLarge: .gitmodules too large to parse\n");
    assert_eq!((first.check_large_blob(&id(1)), first.pending()), (vec![], vec![]));
}

/// Cut or flipped input may give findings, but never a panic.
#[test]
fn every_cut_and_every_flipped_bit() {
    let tree = [
        entry("40000", b".gitmodules\xe2\x80\x8c", &id(1)),
        entry("120000", b"a\\git~1", &id(2)),
        entry("100644", b"gi7eba~1", &id(3)),
    ];
    let modules = "[submodule \"a\\\\b\"]\n\tpath = \"x\" # c\n\turl = http://u:p@h:80/a/../%0a?x\n[submodule.x]update=!y\r\n";
    let objects = [
        (
            Kind::Commit,
            format!("tree {ID}\nparent {ID}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n")
                .into(),
        ),
        (Kind::Tag, format!("object {ID}\ntype tree\ntag v1\ntagger A <a@b> 1 +0000\n\nx\n").into()),
        (Kind::Tree, tree.concat()),
        (Kind::Blob, modules.as_bytes().to_vec()),
    ];
    let mut count = 0;
    let mut look = |kind, content: &[u8]| {
        let mut checker = Checker::new(rules("", ""), HashKind::Sha1);
        count += checker.check(kind, &id(1), content).len();
        count += usize::from(readable(kind, &id(1), content, HashKind::Sha1).is_err());
        count += usize::from(links(kind, content, HashKind::Sha1, |_, _| {}).is_err());
        for file in [SpecialFile::Modules, SpecialFile::Attributes] {
            count += checker.check_pending(Pending { file, id: id(1) }, Content::Blob(content)).len();
        }
    };
    for (kind, content) in objects {
        let mut content: Vec<u8> = content;
        for end in 0..=content.len() {
            look(kind, &content[..end]);
            look(kind, &content[end..]);
        }
        for at in 0..content.len() {
            for bit in 0..8 {
                content[at] ^= 1 << bit;
                look(kind, &content);
                content[at] ^= 1 << bit;
            }
        }
    }
    assert!(count > 1000, "{count}");
}
