//! `index-pack` and `verify-pack` compared with stock git's: the same words, exit codes and files.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use packrace_object::{HashKind, Kind, ObjectId, TrailerHasher, object_id};
use packrace_testkit::handmade::{HandmadeDelta, HandmadeEntry, HandmadePack};
use packrace_testkit::{Git, clean_environment};

use crate::running::{PACKRACE, copy};

/// Shell scripts, each in a new repository with the packs beside it; `$i` and `$v` are the two commands.
const SCRIPTS: &[&str] = &[
    "cd /; $i",
    "$i",
    "$i a.pack b.pack",
    "$i none.pack",
    "$i --stdin < ok.pack",
    "$i --stdin -o x/o.idx < ok.pack",
    "$i --stdin x/p.pack < ok.pack; ls x",
    "$i --stdin x/p.foo < ok.pack",
    "$i --stdin x/p < ok.pack",
    "$i --stdin -o x/o.idx x/p.pack < ok.pack",
    "$i --stdin --keep < ok.pack; $i --stdin --keep=again < ok.pack",
    "$i --stdin --keep=why --promisor=where < ok.pack",
    "$i --stdin --promisor < ok.pack",
    "$i --stdin --no-rev-index < ok.pack",
    "$i --stdin --index-version=1 < ok.pack",
    "$i --stdin --index-version=2 < ok.pack",
    "$i --stdin --index-version=2,0x40 < ok.pack",
    "$i --stdin --index-version=2,100 < ok.pack",
    "$i --stdin --index-version=3 < ok.pack",
    "$i --stdin --index-version=2,0x4z < ok.pack",
    "git config pack.indexVersion 1; $i --stdin < ok.pack",
    "git config pack.writeReverseIndex false; $i --stdin < ok.pack",
    "git config pack.writeReverseIndex false; $i --stdin --rev-index < ok.pack",
    "git config pack.indexVersion 3; $i --stdin --index-version=2 < ok.pack",
    "git config pack.compression 100; $i --stdin < ok.pack; $i ok.pack",
    "git config core.compression 100; git config pack.compression 1; $i --stdin < ok.pack",
    "git config pack.window x; git config pack.depth x; $i --stdin < ok.pack; $v ok",
    "$i --stdin --object-format=sha1 < ok.pack",
    "$i --object-format=sha1 ok.pack",
    "$i --object-format=sha9 ok.pack",
    "$i --fix-thin ok.pack",
    "$i --threads=1 ok.pack",
    "$i --threads=0 ok.pack",
    "$i --max-input-size=100 --stdin < ok.pack",
    "$i --max-input-size=100 ok.pack",
    "$i --max-input-size=1k --stdin < ok.pack",
    "$i --max-input-size=100k --stdin < ok.pack",
    "$i --unknown ok.pack",
    "$i ok.pack",
    "$i ok.pack; $i ok.pack",
    "$i -o y.idx ok.pack",
    "$i -o y.foo ok.pack",
    "cp ok.pack ok; $i ok",
    "cp ok.pack ok.foo; $i ok.foo",
    "$i --keep=k ok.pack",
    "cat ok.pack junk > both; dd if=both bs=1M status=none | $i --stdin",
    "cat ok.pack junk > both; $i --stdin < both",
    "cat ok.pack junk > j.pack; chmod +w j.pack; $i j.pack",
    "tail -c +13 ok.pack | $i --stdin --pack_header=2,4",
    "tail -c +13 ok.pack | $i --stdin --pack_header=2,+04",
    "tail -c +13 ok.pack | $i --stdin --pack_header=2",
    "tail -c +13 ok.pack | $i --stdin --pack_header=2,x",
    "$i --pack_header=2,3,4 ok.pack",
    "$i --pack_header=x",
    "$i --stdin --report-end-of-input < ok.pack",
    "$i --stdin < thin.pack",
    "$i --stdin --fix-thin < thin.pack",
    "$i --stdin --fix-thin < thin.pack; git init -q --bare e; cd e; $i --stdin --fix-thin < ../thin.pack",
    "$i --stdin --strict < ok.pack",
    "$i --stdin --strict < twice.pack",
    "$i --stdin < twice.pack",
    "$i --stdin --strict < badtree.pack",
    "$i --stdin --fsck-objects < badtree.pack",
    "$i --stdin < badtree.pack",
    "$i --stdin --strict=fullPathname=warn < badtree.pack",
    "$i --stdin --strict=fullPathname=ignore < badtree.pack",
    "$i --stdin --fsck-objects=fullPathname=warn < badtree.pack",
    "$i --stdin --strict=nothing=warn < badtree.pack",
    "$i --stdin --strict=fullPathname=nothing < badtree.pack",
    "$i --stdin --strict=fullPathname=ignore --strict < badtree.pack",
    "$i --stdin --strict=fullPathname=ignore --fsck-objects=fullPathname=error < badtree.pack",
    "$i --stdin --fsck-objects=fullPathname=error --strict=fullPathname=ignore < badtree.pack",
    "$i --stdin --fsck-objects=fullPathname=ignore --fsck-objects < badtree.pack",
    "$i --stdin --fsck-objects=fullPathname=ignore --strict=nothing=warn < badtree.pack",
    "$i --stdin --fsck-objects=nothing=warn --strict=fullPathname=nothing < badtree.pack",
    "$i --stdin --fsck-objects --strict < leaves.pack",
    "$i --stdin --strict < badcommit.pack",
    "$i --stdin --check-self-contained-and-connected < badcommit.pack",
    "$i --stdin < badcommit.pack",
    "$i --stdin --strict < leaves.pack",
    "$i --stdin --fsck-objects < leaves.pack",
    "$i --stdin --check-self-contained-and-connected < leaves.pack",
    "$i --stdin --check-self-contained-and-connected < ok.pack",
    "echo outside | git hash-object -w --stdin; $i --stdin --check-self-contained-and-connected < leaves.pack",
    "echo outside | git hash-object -w --stdin; $i --stdin --strict < leaves.pack",
    "$i --stdin < empty.pack",
    "$i empty.pack; $i --verify-stat empty.pack",
    "$i --stdin < cut.pack",
    "$i --stdin < /dev/null",
    "$i cut.pack",
    "$i --stdin < flipped.pack",
    "$i --stdin < nosuchtype.pack",
    "$i --stdin < outofbound.pack",
    "$i --stdin < badbase.pack",
    "$i --stdin < baddelta.pack",
    "$i --stdin < short.pack",
    "$i --stdin < loop.pack",
    "$i ok.pack; $i --verify ok.pack",
    "$i ok.pack; $i --verify-stat ok.pack",
    "$i ok.pack; $i --verify-stat-only ok.pack",
    "$i --verify ok.pack",
    "$i --verify --stdin < ok.pack",
    "$i ok.pack; chmod +w ok.idx; printf x | dd of=ok.idx bs=1 seek=1090 conv=notrunc; $i --verify ok.pack",
    "$v",
    "$v none",
    "$i ok.pack; $v ok.idx",
    "$i ok.pack; $v ok.pack; $v ok; $v -v ok; $v -s ok; $v -sv ok",
    "$i ok.pack; $i deep.pack; $v -v ok.idx deep.pack",
    "$i ok.pack; $v ok none; $v -v none ok",
    "$i --index-version=1 deep.pack; $v -v deep",
    "$i --index-version=2,0x40 deep.pack; $v deep",
    "$i ok.pack; rm ok.idx; $v ok",
    "$i ok.pack; chmod +w ok.pack; printf x | dd of=ok.pack bs=1 seek=40 conv=notrunc; $v -v ok",
];

fn content(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * number / 3) as u8).collect()
}

/// Packs, by their names in scripts.
fn packs() -> Vec<(&'static str, Vec<u8>)> {
    let blob = content(7, 500);
    let id = object_id(HashKind::Sha1, Kind::Blob, &blob).unwrap();
    let tree = |name: &str, id: &ObjectId| [format!("100644 {name}\0").as_bytes(), id.as_slice()].concat();
    let commit = |tree: &ObjectId| {
        format!("tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n").into_bytes()
    };
    let mut packs = Vec::new();

    let mut ok = HandmadePack::default();
    let start = ok.entry(&id, HandmadeEntry::Whole(Kind::Blob), blob.len() as u64, &blob);
    let tree_id = ok.whole(Kind::Tree, &tree("a", &id));
    ok.whole(Kind::Commit, &commit(&tree_id));
    let delta = HandmadeDelta::new(500, 105).copy(10, 100).insert(b"after");
    ok.delta(&id, HandmadeEntry::ByDistance(start), delta.bytes());
    let ok = ok.sealed();

    let mut deep = HandmadePack::default();
    let mut base = deep.entry(&id, HandmadeEntry::Whole(Kind::Blob), blob.len() as u64, &blob);
    for number in 0..40u8 {
        let delta = HandmadeDelta::new(500, 500).copy(0, 495).insert(&[number; 5]);
        let next = deep.delta(&id, HandmadeEntry::ByDistance(base), delta.bytes());
        base = if number % 5 == 0 { base } else { next };
    }
    packs.push(("deep", deep.sealed()));

    let known = b"known\n".repeat(50);
    let known_id = object_id(HashKind::Sha1, Kind::Blob, &known).unwrap();
    let mut thin = HandmadePack::default();
    let delta = HandmadeDelta::new(300, 205).copy(100, 200).insert(b"after");
    thin.delta(&id, HandmadeEntry::ByName(&known_id), delta.bytes());
    packs.push(("thin", thin.sealed()));

    let mut one = |name, fill: &dyn Fn(&mut HandmadePack)| {
        let mut pack = HandmadePack::default();
        fill(&mut pack);
        packs.push((name, pack.sealed()));
    };
    one("empty", &|_| {});
    one("twice", &|pack| {
        pack.whole(Kind::Blob, &blob);
        pack.whole(Kind::Blob, &blob);
    });
    one("badtree", &|pack| {
        pack.whole(Kind::Blob, &blob);
        pack.whole(Kind::Tree, &tree("a/b", &id));
    });
    one("badcommit", &|pack| {
        pack.whole(Kind::Commit, b"abc");
    });
    let outside = object_id(HashKind::Sha1, Kind::Blob, b"outside\n").unwrap();
    one("leaves", &|pack| {
        pack.whole(Kind::Tree, &tree("a", &outside));
    });
    one("outofbound", &|pack| {
        let start = pack.entry(&id, HandmadeEntry::Whole(Kind::Blob), 500, &blob);
        assert_eq!(start, 12);
        pack.delta(&id, HandmadeEntry::ByDistance(start - 12), b"\x05\x05");
    });
    one("badbase", &|pack| {
        let start = pack.entry(&id, HandmadeEntry::Whole(Kind::Blob), 500, &blob);
        let delta = HandmadeDelta::new(500, 105).copy(10, 100).insert(b"after");
        pack.delta(&id, HandmadeEntry::ByDistance(start + 1), delta.bytes());
    });
    one("baddelta", &|pack| {
        let start = pack.entry(&id, HandmadeEntry::Whole(Kind::Blob), 500, &blob);
        let delta = HandmadeDelta::new(400, 105).copy(10, 100).insert(b"after");
        pack.delta(&id, HandmadeEntry::ByDistance(start), delta.bytes());
    });
    one("short", &|pack| {
        let start = pack.entry(&id, HandmadeEntry::Whole(Kind::Blob), 500, &blob);
        pack.delta(&id, HandmadeEntry::ByDistance(start), HandmadeDelta::new(500, 0).bytes());
    });
    one("loop", &|pack| {
        let delta = HandmadeDelta::new(500, 105).copy(10, 100).insert(b"after");
        pack.delta(&id, HandmadeEntry::ByName(&tree_id), delta.bytes());
        pack.delta(&tree_id, HandmadeEntry::ByName(&id), delta.bytes());
    });

    packs.push(("cut", ok[..ok.len() / 2].to_vec()));
    let mut flipped = ok.clone();
    *flipped.last_mut().unwrap() ^= 1;
    packs.push(("flipped", flipped));
    let mut no_such_type = ok[..ok.len() - 20].to_vec();
    no_such_type[12] = no_such_type[12] & 0x8f | 0x50;
    let mut hasher = TrailerHasher::new(HashKind::Sha1);
    hasher.update(&no_such_type);
    no_such_type.extend_from_slice(hasher.finish().as_slice());
    packs.push(("nosuchtype", no_such_type));
    packs.push(("ok", ok));
    packs
}

/// The output of a script, and the files that it leaves: names, and contents except those of completed packs.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    files: BTreeMap<String, Vec<u8>>,
}

/// Makes what every script begins with.
fn prepare(dir: &Path) {
    std::fs::create_dir_all(dir.join("x")).unwrap();
    Git::stock().run(dir, &["init", "-q"]);
    for (name, pack) in packs() {
        std::fs::write(dir.join(format!("{name}.pack")), pack).unwrap();
    }
    std::fs::write(dir.join("junk"), b"junk\n").unwrap();
    Git::stock().run_with_input(dir, &["hash-object", "-w", "--stdin"], &b"known\n".repeat(50));
}

fn outcome(script: &str, prepared: &Path, dir: &Path, program: &str) -> Outcome {
    let _ = std::fs::remove_dir_all(dir);
    copy(prepared, dir);
    let mut command = Command::new("sh");
    clean_environment(&mut command);
    let script = script
        .replace("$i", &format!("{program} index-pack"))
        .replace("$v", &format!("{program} verify-pack"));
    command.args(["-c", &script]).current_dir(dir);
    let output = command.output().unwrap();
    let mut files = BTreeMap::new();
    list(dir, dir, &mut files);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Outcome { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr), files }
}

fn list(top: &Path, dir: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(top, &path, files);
        } else {
            let name = path.strip_prefix(top).unwrap().to_string_lossy().into_owned();
            // Git leaves what it received of a refused pack.
            if !name.contains("tmp_") {
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
}

#[test]
fn words_codes_and_files_are_gits() {
    let dir = packrace_testkit::scratch_dir();
    let work = dir.path().join("work");
    let mut different = Vec::new();
    let prepared = dir.path().join("prepared");
    prepare(&prepared);
    for script in SCRIPTS {
        let mut theirs = outcome(script, &prepared, &work, Git::stock().binary().to_str().unwrap());
        let mut ours = outcome(script, &prepared, &work, PACKRACE);
        assert!(!ours.stderr.contains("panicked"), "{script}: {}", ours.stderr);
        // Usage texts differ.
        if theirs.code == Some(129) && ours.code == Some(129) {
            (theirs.stderr, ours.stderr) = (String::new(), String::new());
        }
        for outcome in [&mut theirs, &mut ours] {
            outcome.stderr =
                outcome.stderr.lines().filter(|line| is_kept(line)).collect::<Vec<_>>().join("\n");
        }
        if script.contains("--fix-thin <") {
            // The appended base is compressed by another library, which changes the name of the pack.
            for outcome in [&mut theirs, &mut ours] {
                let objects = outcome.files.keys().filter(|name| name.contains("objects/pack/"));
                outcome.stdout = format!(
                    "{} files, {:?}",
                    objects.count(),
                    outcome.stdout.split_once('\t').map(|(word, _)| word)
                );
                outcome.files.clear();
            }
        }
        if theirs != ours {
            let names = |outcome: &Outcome| outcome.files.keys().cloned().collect::<Vec<_>>().join(" ");
            different.push(format!(
                "{script}\n git: {:?} {:?} {:?}\n  we: {:?} {:?} {:?}\n files: {}\n",
                theirs.code,
                theirs.stdout,
                theirs.stderr,
                ours.code,
                ours.stdout,
                ours.stderr,
                if theirs.files == ours.files {
                    String::new()
                } else {
                    format!("{}\n    {}", names(&theirs), names(&ours))
                },
            ));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Words of zlib and dd are not compared.
fn is_kept(line: &str) -> bool {
    let is_of_others = line.starts_with("error: inflate:") || line.starts_with("error: delta replay");
    !is_of_others && !line.contains("records") && !line.contains("copied")
}
