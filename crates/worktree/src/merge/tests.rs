use std::fmt::Write as _;

use packrace_store::OpenOptions;
use packrace_testkit::{Git, Random};
use tempfile::TempDir;

use super::*;

type Files = BTreeMap<String, (&'static str, Vec<u8>)>;

const FILE: &str = "100644";

fn lines(name: &str) -> Vec<u8> {
    (1..=20).map(|number| format!("{name} {number}\n")).collect::<String>().into_bytes()
}

/// The base files of both sides.
fn base() -> Files {
    let files = ["a", "b", "d/c", "d/e/f", "d/g"].map(|name| (name.to_owned(), (FILE, lines(name))));
    let mut files = Files::from(files);
    files.insert("link".into(), ("120000", b"a".to_vec()));
    files
}

fn change(files: &mut Files, path: &str, line: usize, text: &str) {
    let content = String::from_utf8(files[path].1.clone()).unwrap();
    let changed = content.lines().enumerate().map(|(number, old)| if number == line { text } else { old });
    let changed: String = changed.map(|line| format!("{line}\n")).collect();
    files.get_mut(path).unwrap().1 = changed.into_bytes();
}

fn rename(files: &mut Files, from: &str, to: &str) {
    let file = files.remove(from).unwrap();
    files.insert(to.to_owned(), file);
}

fn write(dir: &TempDir, sides: &[(&str, &Files)]) {
    let mut script = Vec::new();
    for (branch, files) in sides {
        script.extend_from_slice(format!("commit refs/heads/{branch}\n").as_bytes());
        script.extend_from_slice(b"committer C <c@x> 1700000000 +0000\ndata 0\ndeleteall\n");
        for (path, (mode, content)) in files.iter() {
            script.extend_from_slice(
                format!("M {mode} inline \"{path}\"\ndata {}\n", content.len()).as_bytes(),
            );
            script.extend_from_slice(content);
            script.push(b'\n');
        }
    }
    let git = Git::stock();
    git.run(dir.path(), &["init", "-q", "--bare", "."]);
    git.run_with_input(dir.path(), &["fast-import", "--quiet"], &script);
}

/// The merge by stock git and by us: the tree, the stages, and the messages.
fn both(dir: &TempDir, config: &[&str]) -> [String; 2] {
    let git = Git::stock();
    for pair in config.chunks(2) {
        git.run(dir.path(), &["config", pair[0], pair[1]]);
    }
    let mut command = git.command(dir.path());
    command.args(["merge-tree", "--write-tree", "--messages", "--merge-base=base", "ours", "theirs"]);
    let theirs = String::from_utf8(command.output().unwrap().stdout).unwrap();

    let repository = Repository::open(dir.path(), &OpenOptions::default()).unwrap();
    let objects = Objects::new(&repository.snapshot().unwrap());
    let tree = |name: &str| {
        let hex = git.run(dir.path(), &["rev-parse", &format!("{name}^{{tree}}")]);
        ObjectId::from_hex(hex.trim().as_bytes()).unwrap()
    };
    let names = Names { base: "base".into(), ours: "ours".into(), theirs: "theirs".into() };
    let trees = ["base", "ours", "theirs"].map(tree);
    let merged = merge(&repository, &objects, trees.each_ref(), &names).unwrap().unwrap();
    let items = merged.files.iter().map(|(path, item)| (path.as_slice(), *item));
    let mut ours = format!("{}\n", crate::listing::make_trees(&objects, items).unwrap());
    for (path, stages) in &merged.conflicts {
        for (number, item) in stages.iter().enumerate() {
            if let Some(TreeItem { mode, id }) = item {
                writeln!(ours, "{:06o} {id} {}\t{path}", mode.bits(), number + 1).unwrap();
            }
        }
    }
    if !merged.messages.is_empty() {
        ours.push('\n');
        merged.messages.iter().for_each(|line| writeln!(ours, "{line}").unwrap());
    }
    [theirs.trim_end().to_owned(), ours.trim_end().to_owned()]
}

fn check(what: &str, ours: impl Fn(&mut Files), theirs: impl Fn(&mut Files), config: &[&str]) {
    let base = base();
    let mut sides = [base.clone(), base.clone()];
    ours(&mut sides[0]);
    theirs(&mut sides[1]);
    let dir = packrace_testkit::scratch_dir();
    write(&dir, &[("base", &base), ("ours", &sides[0]), ("theirs", &sides[1])]);
    let [git, we] = both(&dir, config);
    assert_eq!(git, we, "{what}: git says the left");
}

fn add(files: &mut Files, path: &str, content: &str) {
    files.insert(path.to_owned(), (FILE, content.as_bytes().to_vec()));
}

#[test]
fn content() {
    check("nothing", |_| {}, |_| {}, &[]);
    check("one side", |_| {}, |files| change(files, "a", 4, "theirs"), &[]);
    check("far apart", |files| change(files, "a", 4, "ours"), |files| change(files, "a", 14, "theirs"), &[]);
    check("same line", |files| change(files, "a", 4, "ours"), |files| change(files, "a", 4, "theirs"), &[]);
    check("next line", |files| change(files, "a", 4, "ours"), |files| change(files, "a", 5, "theirs"), &[]);
    check("same change", |files| change(files, "a", 4, "same"), |files| change(files, "a", 4, "same"), &[]);
    check(
        "two files",
        |files| {
            change(files, "d/c", 4, "ours");
            change(files, "a", 4, "ours");
        },
        |files| {
            change(files, "a", 4, "theirs");
            change(files, "d/c", 4, "theirs");
        },
        &[],
    );
    check(
        "modes",
        |files| files.get_mut("a").unwrap().0 = "100755",
        |files| change(files, "a", 5, "theirs"),
        &[],
    );
}

#[test]
fn coming_and_going() {
    check("both gone", |files| drop(files.remove("a")), |files| drop(files.remove("a")), &[]);
    check("modify, delete", |files| change(files, "a", 4, "ours"), |files| drop(files.remove("a")), &[]);
    check("delete, modify", |files| drop(files.remove("a")), |files| change(files, "a", 4, "theirs"), &[]);
    check("same new file", |files| add(files, "n", "1\n"), |files| add(files, "n", "1\n"), &[]);
    check("different new file", |files| add(files, "n", "1\n"), |files| add(files, "n", "2\n"), &[]);
    check("new files", |files| add(files, "m", "1\n"), |files| add(files, "n", "2\n"), &[]);
    let link = |target: &'static str| {
        move |files: &mut Files| files.get_mut("link").unwrap().1 = target.as_bytes().to_vec()
    };
    check("links", link("b"), link("c"), &[]);
}

#[test]
fn renames() {
    let moved = |to: &'static str| move |files: &mut Files| rename(files, "a", to);
    check("rename, modify", moved("z"), |files| change(files, "a", 4, "theirs"), &[]);
    check("modify, rename", |files| change(files, "a", 4, "ours"), moved("z"), &[]);
    check("same rename", moved("z"), moved("z"), &[]);
    check("two renames", moved("y"), moved("z"), &[]);
    check("rename, delete", moved("z"), |files| drop(files.remove("a")), &[]);
    check("delete, rename", |files| drop(files.remove("a")), moved("z"), &[]);
    let both = |files: &mut Files| {
        rename(files, "a", "z");
        change(files, "z", 4, "theirs");
    };
    check("modify, rename and modify", |files| change(files, "a", 4, "ours"), both, &[]);
    check("far from each other", |files| change(files, "a", 14, "ours"), both, &[]);
}

#[test]
fn renamed_directories() {
    let moved = |files: &mut Files| {
        for name in ["c", "e/f", "g"] {
            rename(files, &format!("d/{name}"), &format!("q/{name}"));
        }
    };
    check("added there", moved, |files| add(files, "d/new", "new\n"), &[]);
    check("added here", |files| add(files, "d/new", "new\n"), moved, &[]);
    check("allowed", moved, |files| add(files, "d/new", "new\n"), &["merge.directoryRenames", "true"]);
}

#[test]
fn random_changes_merge_as_gits() {
    let mut random = Random::new(7);
    for round in 0..25 {
        let mut base = Files::new();
        for name in ["a", "b", "c"] {
            let content: String = (0..30).map(|_| format!("{}\n", random.line())).collect();
            base.insert(name.to_owned(), (FILE, content.into_bytes()));
        }
        let mut sides = [base.clone(), base.clone()];
        for files in &mut sides {
            for name in ["a", "b", "c"] {
                let content = String::from_utf8(files[name].1.clone()).unwrap();
                let mut lines: Vec<String> = content.lines().map(str::to_owned).collect();
                for _ in 0..random.below(4) {
                    let at = random.below(lines.len());
                    match random.below(3) {
                        0 => drop(lines.remove(at)),
                        1 => lines.insert(at, random.line()),
                        _ => lines[at] = random.line(),
                    }
                }
                let content: String = lines.into_iter().map(|line| line + "\n").collect();
                files.get_mut(name).unwrap().1 = content.into_bytes();
            }
        }
        let dir = packrace_testkit::scratch_dir();
        write(&dir, &[("base", &base), ("ours", &sides[0]), ("theirs", &sides[1])]);
        let [git, we] = both(&dir, &[]);
        assert_eq!(git, we, "round {round}: git says the left");
    }
}
