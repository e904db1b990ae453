//! `packrace pack-refs` and `refs`: the storage of refs.

use std::path::Path;

use packrace_testkit::{Git, RefFormat, RepoBuilder, Size};

use crate::ref_twins::{RefTwins, in_both_formats};
use crate::running::{packrace, stock_git};

/// Loose files and `packed-refs`.
fn stored(path: &Path) -> String {
    let mut files = Vec::new();
    let mut dirs = vec![path.join("refs")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let found = entry.unwrap().path();
            if found.is_dir() { dirs.push(found) } else { files.push(found) }
        }
    }
    files.sort();
    let files = files.iter().map(|file| file.strip_prefix(path).unwrap().display().to_string() + "\n");
    let packed = std::fs::read_to_string(path.join("packed-refs")).unwrap_or_default();
    files.chain([packed]).collect()
}

#[test]
fn refs_are_packed_as_git_packs_them() {
    in_both_formats(&[], |twins| {
        let lists = [
            "",
            "--include refs/heads/* --exclude refs/heads/new*",
            "--no-prune --all",
            "--all --exclude refs/heads/a",
            "--auto",
            "--all",
            "x",
        ];
        for (number, list) in lists.iter().enumerate() {
            let session = format!(
                "update refs/heads/a {}\nupdate refs/heads/new{number}/x {{c}}\nupdate refs/tags/t{number} {{g}}\n\
                 update refs/bisect/{number} {{c}}\n",
                if number % 2 == 0 { "{e}" } else { "{d}" }
            );
            for path in [twins.git(), twins.ours()] {
                stock_git(&path, &["update-ref", "--stdin"], &twins.filled(&session));
            }
            let words = list.split(' ').filter(|word| !word.is_empty());
            twins.check(&["pack-refs"].into_iter().chain(words).collect::<Vec<_>>(), "");
            let tables = |path: &Path| {
                let list = std::fs::read_to_string(path.join("reftable/tables.list")).unwrap_or_default();
                list.lines().count()
            };
            assert_eq!(tables(&twins.ours()), tables(&twins.git()), "{list}");
            // With --auto, git 2.47 always packs files; git 2.55 and packrace only if it is worth it.
            if *list != "--auto" {
                assert_eq!(stored(&twins.ours()), stored(&twins.git()), "{list}");
            }
            Git::stock().run(&twins.ours(), &["refs", "verify"]);
        }
    });
}

#[test]
fn many_loose_refs_are_worth_packing() {
    let twins = RefTwins::new(RefFormat::Files);
    let add = |from: usize, to: usize| {
        let lines = (from..to).map(|number| format!("create refs/heads/many{number} {{c}}\n"));
        stock_git(&twins.ours(), &["update-ref", "--stdin"], &twins.filled(&lines.collect::<String>()));
    };
    add(0, 8);
    packrace(&twins.ours(), &["pack-refs", "--all", "--auto"], "");
    assert!(twins.ours().join("refs/heads/many0").exists());
    add(8, 40);
    packrace(&twins.ours(), &["refs", "optimize", "--all", "--auto"], "");
    assert!(!twins.ours().join("refs/heads/many0").exists());
}

#[test]
fn refs_exist() {
    in_both_formats(&[], |twins| {
        let check = |args: &[&str], code: i32, stderr: &str| {
            let said = packrace(&twins.ours(), args, "");
            let found = (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned());
            assert_eq!(found, (Some(code), stderr.to_owned()), "{args:?}");
        };
        check(&["refs", "exists", "refs/heads/main"], 0, "");
        check(&["refs", "exists", "refs/heads/dangling"], 0, "");
        check(&["refs", "exists", "main"], 2, "error: reference does not exist\n");
        // The words of git 2.55; 2.47 does not have it.
        check(&["refs", "exists"], 128, "fatal: 'git refs exists' requires a reference\n");
    });
}

#[test]
fn what_is_wrong_is_found() {
    in_both_formats(&[], |twins| {
        let id = twins.filled("{c}");
        twins.check_said(&["refs", "verify"], "");
        if twins.ours().join("reftable").exists() {
            let list = twins.ours().join("reftable/tables.list");
            let text = std::fs::read_to_string(&list).unwrap();
            let name = text.lines().next().unwrap();
            std::fs::rename(twins.ours().join("reftable").join(name), twins.ours().join("reftable/odd.ref"))
                .unwrap();
            std::fs::write(&list, text.replace(name, "odd.ref")).unwrap();
            let said = packrace(&twins.ours(), &["refs", "verify"], "");
            let warning = "warning: odd.ref: badReftableTableName: invalid reftable table name\n";
            assert_eq!(
                (said.status.code(), String::from_utf8_lossy(&said.stderr).as_ref()),
                (Some(0), warning)
            );
            assert_eq!(packrace(&twins.ours(), &["refs", "verify", "--strict"], "").status.code(), Some(255));
            return;
        }
        let heads = twins.ours().join("refs/heads");
        for (name, content) in [
            ("bad", "junk\n".to_owned()),
            ("nonl", id.clone()),
            ("trail", format!("{id} trailing\n")),
            ("sym2", "ref: foo\n".to_owned()),
            ("symbad", "ref: refs/heads/..\n".to_owned()),
            ("a~b", format!("{id}\n")),
            ("zero", format!("{}\n", "0".repeat(40))),
        ] {
            std::fs::write(heads.join(name), content).unwrap();
        }
        std::os::unix::fs::symlink("main", heads.join("link")).unwrap();
        let mut packed = std::fs::read_to_string(twins.ours().join("packed-refs")).unwrap();
        packed.push_str(&format!("{id} refs/a\n^{id}x\n{id} refs/z..\n{id}  refs/x\ngarbage\n{id} refs/zz"));
        std::fs::write(twins.ours().join("packed-refs"), &packed).unwrap();
        let lines = packed.lines().count();
        let at = |back: usize| lines - back;
        // The words of git 2.55; 2.47 supports only the name and the type. That `refs/a` is not in order is not told
        // beside lines that cannot be read.
        let expect = [
            "error: refs/heads/a~b: badRefName: invalid refname format".to_owned(),
            "error: refs/heads/bad: badRefContent: junk".to_owned(),
            "warning: refs/heads/link: symlinkRef: use deprecated symbolic link for symref".to_owned(),
            "warning: refs/heads/nonl: refMissingNewline: misses LF at the end".to_owned(),
            "error: refs/heads/sym2: badReferentName: points to invalid refname 'foo'".to_owned(),
            "error: refs/heads/symbad: badReferentName: points to invalid refname 'refs/heads/..'".to_owned(),
            "warning: refs/heads/trail: trailingRefContent: has trailing garbage: ' trailing".to_owned(),
            "'".to_owned(),
            format!("error: refs/heads/zero: badRefOid: points to invalid object ID '{}'", "0".repeat(40)),
            format!(
                "error: packed-refs line {}: badPackedRefEntry: has trailing garbage after peeled oid 'x'",
                at(4)
            ),
            format!("error: packed-refs line {}: badRefName: has bad refname 'refs/z..'", at(3)),
            format!("error: packed-refs line {}: badRefName: has bad refname ' refs/x'", at(2)),
            format!("error: packed-refs line {}: badPackedRefEntry: 'garbage' has invalid oid", at(1)),
            format!(
                "error: packed-refs line {}: packedRefEntryNotTerminated: '{id} refs/zz' is not terminated with a newline",
                at(0)
            ),
        ];
        let said = packrace(&twins.ours(), &["refs", "verify"], "");
        let found = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(found.lines().collect::<Vec<_>>(), expect);
        assert_eq!(said.status.code(), Some(255));
        let theirs = stock_git(&twins.ours(), &["refs", "verify"], "");
        assert_eq!(theirs.status.code(), Some(255), "git finds the bad name too");
    });
}

#[test]
fn refs_are_listed_as_by_for_each_ref() {
    in_both_formats(&[], |twins| {
        for args in
            [&["--format=%(refname) %(objecttype)", "refs/heads"][..], &["--count=2"], &["--points-at={c}"]]
        {
            let args: Vec<String> = args.iter().map(|argument| twins.filled(argument)).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let theirs = stock_git(&twins.git(), &[&["for-each-ref"], &args[..]].concat(), "");
            let ours = packrace(&twins.ours(), &[&["refs", "list"], &args[..]].concat(), "");
            assert_eq!(ours, theirs, "{args:?}");
        }
    });
}

/// git 2.55's `refs migrate` writes annotated tags with one id, and old files are marked `peeled` without a
/// `^` line; git 2.55 then reads the object.
#[test]
fn tags_are_peeled_that_are_stored_without_what_they_tag() {
    use packrace_format::reftable::{RefRecord, RefValue, TableOptions, Writer};
    use packrace_object::{HashKind, ObjectId};
    for format in [RefFormat::Reftable, RefFormat::Files] {
        let dir = packrace_testkit::scratch_dir();
        let path = dir.path().join("r.git");
        RepoBuilder::new(Size::Tiny).ref_format(format).build_at(&path, Git::stock());
        Git::stock().run(&path, &["tag", "-a", "-m", "annotated", "bare-tag", "main"]);
        let id = |name: &str| Git::stock().run(&path, &["rev-parse", name]).trim().to_owned();
        let (tag, commit) = (id("refs/tags/bare-tag"), id("refs/heads/main"));
        match format {
            RefFormat::Files => {
                Git::stock().run(&path, &["pack-refs", "--all"]);
                let text = format!(
                    "# pack-refs with: peeled \n{commit} refs/heads/main\n{tag} refs/tags/bare-tag\n"
                );
                std::fs::write(path.join("packed-refs"), text).unwrap();
            }
            RefFormat::Reftable => {
                let mut file = Vec::new();
                let options = TableOptions::new(HashKind::Sha1);
                let index = 1 << 20;
                let mut writer =
                    Writer::new(&options, index, index, |bytes: &[u8]| file.extend_from_slice(bytes))
                        .unwrap();
                let value = RefValue::Id(ObjectId::from_hex(tag.as_bytes()).unwrap());
                writer
                    .add_ref(&RefRecord { name: b"refs/tags/bare-tag", update_index: index, value })
                    .unwrap();
                writer.finish().unwrap();
                let name = format!("0x{index:012x}-0x{index:012x}-00000001.ref");
                let list = path.join("reftable/tables.list");
                std::fs::write(path.join("reftable").join(&name), file).unwrap();
                let names = std::fs::read_to_string(&list).unwrap();
                std::fs::write(&list, format!("{names}{name}\n")).unwrap();
            }
        }
        let output = packrace(&path, &["for-each-ref", "--format=%(*objectname)", "refs/tags/bare-tag"], "");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), commit, "{format:?}");
        let output = packrace(&path, &["show-ref", "-d", "bare-tag"], "");
        let expect = format!("{tag} refs/tags/bare-tag\n{commit} refs/tags/bare-tag^{{}}\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expect, "{format:?}");
        let output = packrace(&path, &["upload-pack", "--advertise-refs", "."], "");
        let advertised = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            advertised.contains(&format!("{commit} refs/tags/bare-tag^{{}}\n")),
            "{format:?}: {advertised}"
        );
    }
}
