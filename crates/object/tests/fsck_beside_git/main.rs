//! Compares our fsck with stock git's `index-pack --fsck-objects`: generated odd and broken commits, trees,
//! tags and special files, thousands per pack. Message ids, severities, texts and their order must be equal.

mod generate;
mod pack;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Stdio;
use std::sync::Arc;

use packrace_object::fsck::{
    Checker, Content, Finding, MessageId, Rules, Severities, SkipList, SpecialFile, readable,
};
use packrace_object::{HashKind, Kind, ObjectId, object_id};
use packrace_testkit::{Git, Random};

/// All errors, demoted to warnings so that git continues; without `badParentSha1`, which as a warning makes
/// git 2.47 run forever.
const ALL_WARN: &str = "badDate badDateOverflow badEmail badFilemode badName badTagName badTimezone badTree badTreeSha1 badType \
    duplicateEntries emptyName extraHeaderEntry fullPathname gitattributesBlob gitattributesLarge gitattributesLineLength \
    gitattributesMissing gitattributesSymlink gitignoreSymlink gitmodulesBlob gitmodulesLarge gitmodulesMissing \
    gitmodulesName gitmodulesParse gitmodulesPath gitmodulesSymlink gitmodulesUpdate gitmodulesUrl hasDot hasDotdot \
    hasDotgit mailmapSymlink missingAuthor missingCommitter missingEmail missingNameBeforeEmail \
    missingObject missingSpaceBeforeDate missingSpaceBeforeEmail missingTag missingTagEntry missingTaggerEntry missingTree \
    missingType missingTypeEntry multipleAuthors nulInCommit nullSha1 treeNotSorted unknownType zeroPaddedDate \
    zeroPaddedFilemode";

/// An object and its name.
pub struct Object {
    kind: Kind,
    content: Vec<u8>,
    id: ObjectId,
}

impl Object {
    fn new(hash: HashKind, kind: Kind, content: Vec<u8>) -> Self {
        let id = object_id(hash, kind, &content).unwrap();
        Object { kind, content, id }
    }
}

struct Outcome {
    /// The lines about each object, together with preceding lines that name no object.
    lines: BTreeMap<String, Vec<String>>,
    /// Special files that the pack lacks.
    missing: BTreeSet<String>,
    is_success: bool,
}

fn rules(settings: &str) -> Arc<Rules> {
    let mut severities = Severities::strict();
    severities.set_all(settings.as_bytes()).unwrap();
    Arc::new(Rules { severities, skip: SkipList::default() })
}

fn ours(objects: &[Object], hash: HashKind, settings: &str) -> Outcome {
    let mut checker = Checker::new(rules(settings), hash);
    let mut findings: Vec<Finding> = Vec::new();
    for object in objects {
        findings.extend(checker.check(object.kind, &object.id, &object.content));
    }
    let mut missing = BTreeSet::new();
    let by_id: HashMap<ObjectId, &Object> = objects.iter().map(|object| (object.id, object)).collect();
    for pending in checker.pending() {
        let content = match by_id.get(&pending.id) {
            Some(object) if object.kind == Kind::Blob => Content::Blob(&object.content),
            Some(_) => Content::OtherKind,
            None if pending.file == SpecialFile::Modules => {
                missing.insert(pending.id.to_string());
                continue;
            }
            None => Content::Missing,
        };
        findings.extend(checker.check_pending(pending, content));
    }
    let mut text = Vec::new();
    findings.iter().for_each(|finding| finding.write_line(&mut text));
    let is_success = !findings.iter().any(|finding| finding.severity.is_error());
    Outcome { lines: by_object(&text), missing, is_success }
}

fn gits(objects: &[Object], hash: HashKind, settings: &str) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    Git::stock().run(dir.path(), &["init", "-q", "--bare", &format!("--object-format={hash}"), "."]);
    let path = dir.path().join("in.pack");
    std::fs::write(&path, pack::of(objects, hash)).unwrap();
    let mut command = Git::stock().command(dir.path());
    command.args(["index-pack", "--threads=1", &format!("--fsck-objects={settings}"), "--stdin"]);
    command.stdin(std::fs::File::open(&path).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let missing = stdout.lines().filter(|line| !line.starts_with("pack")).map(str::to_owned).collect();
    Outcome { lines: by_object(&output.stderr), missing, is_success: output.status.success() }
}

fn by_object(text: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut before, mut last) = (String::new(), String::new());
    for line in
        String::from_utf8_lossy(text).lines().filter(|line| !line.starts_with("fatal: fsck error in pack"))
    {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["error:" | "warning:", "object", id, _] if id.ends_with(':') => {
                last = id.to_owned();
                lines.entry(last.clone()).or_default().push(std::mem::take(&mut before) + line);
            }
            ["fatal:", ..] => {
                lines.entry(String::new()).or_default().push(std::mem::take(&mut before) + line)
            }
            ["error:", ..] => before = format!("{line} | "),
            // A name that contains a newline.
            _ => lines.entry(last.clone()).or_default().last_mut().expect("a line before").push_str(line),
        }
    }
    lines
}

fn assert_same(objects: &[Object], ours: &Outcome, gits: &Outcome) {
    for id in gits.lines.keys().chain(ours.lines.keys()) {
        let empty = Vec::new();
        let (our_lines, git_lines) =
            (ours.lines.get(id).unwrap_or(&empty), gits.lines.get(id).unwrap_or(&empty));
        if our_lines != git_lines {
            let object = objects.iter().find(|object| id.starts_with(&object.id.to_string()));
            let content = object.map(|object| String::from_utf8_lossy(&object.content));
            panic!("{content:?}\n ours: {our_lines:?}\n git's: {git_lines:?}");
        }
    }
    assert_eq!(ours.missing, gits.missing, "files that are not in the pack");
    assert_eq!(ours.is_success, gits.is_success);
}

/// Checks in one run the objects that git accepts with warnings; returns the rest.
fn check_together(mut objects: Vec<Object>, hash: HashKind) -> Vec<Object> {
    let settings = ALL_WARN.split_whitespace().map(|id| format!("{id}=warn")).collect::<Vec<_>>().join(",");
    let settings = format!("{settings},largePathname=warn:100");
    let mut names = BTreeSet::new();
    objects.retain(|object| names.insert(object.id));
    let rules = rules(&settings);
    let (together, alone): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| {
        let findings = Checker::new(rules.clone(), hash).check(object.kind, &object.id, &object.content);
        let is_loop = |finding: &Finding| finding.message == MessageId::BadParentSha1;
        readable(object.kind, &object.id, &object.content, hash).is_ok()
            && !findings.iter().any(|finding| finding.severity.is_error() || is_loop(finding))
    });
    let (ours, gits) = (ours(&together, hash, &settings), gits(&together, hash, &settings));
    assert_same(&together, &ours, &gits);
    assert!(gits.is_success);
    let told = gits.lines.values().map(Vec::len).sum::<usize>();
    assert!(told * 6 > together.len(), "{told} findings in {} objects", together.len());
    alone
}

/// Checks each object by itself, with git's own severities: objects that git cannot parse, or refuses
/// regardless of settings.
fn check_alone(objects: &[Object], hash: HashKind) {
    for object in objects {
        let objects = std::slice::from_ref(object);
        let gits = gits(objects, hash, "");
        match readable(object.kind, &object.id, &object.content, hash) {
            Ok(()) => assert_same(objects, &ours(objects, hash, ""), &gits),
            Err(unreadable) => {
                let text = String::from_utf8_lossy(&object.content);
                assert!(!gits.is_success && gits.lines.len() == 1, "{unreadable:?}: {text:?}");
                let said = gits.lines[""].concat();
                let why = unreadable.why.map(|why| format!("error: {} | ", String::from_utf8_lossy(&why)));
                let expect = format!("{}fatal: invalid {}", why.unwrap_or_default(), object.kind);
                assert_eq!(expect.replace(|byte: char| byte.is_ascii_control(), "?"), said, "{text:?}");
            }
        }
    }
}

fn check(seed: u64, count: usize, alone: usize, generate: impl Fn(&mut Random, HashKind) -> Vec<Object>) {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let mut random = Random::new(seed);
        let mut objects = Vec::new();
        while objects.len() < count {
            objects.extend(generate(&mut random, hash));
        }
        let rest = check_together(objects, hash);
        check_alone(&rest[..rest.len().min(alone)], hash);
    }
}

#[test]
fn commits() {
    check(1, 1500, 60, |random, hash| vec![generate::commit(random, hash)]);
}

#[test]
fn tags() {
    check(2, 1500, 60, |random, hash| vec![generate::tag(random, hash)]);
}

#[test]
fn trees() {
    check(3, 3000, 30, |random, hash| vec![generate::tree(random, hash)]);
}

#[test]
fn names_in_trees() {
    check(4, 3000, 0, |random, hash| vec![generate::special_name(random, hash)]);
}

#[test]
fn files_that_git_reads() {
    check(5, 3000, 0, generate::modules);
    check(6, 300, 0, generate::attributes);
}

#[test]
fn addresses_of_submodules() {
    check(7, 4000, 0, generate::submodule_url);
}
