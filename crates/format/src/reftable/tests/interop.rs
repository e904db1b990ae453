//! Stock git reads our tables and adds to them, and we read the result.

use std::collections::BTreeMap;

use packrace_testkit::Random;

use super::model::{Change, Model, Value};
use super::*;

/// Names within git's default settings; unless configured otherwise, refs to commits and tags of `repo`.
fn model(random: &mut Random, repo: &Path, count: usize, pad: usize) -> Model {
    let ids = run(repo, &["rev-parse", "main", "inner", "outer"]);
    let ids: Vec<ObjectId> = ids.lines().map(|id| ObjectId::from_hex(id.as_bytes()).unwrap()).collect();
    let mut model = Model::default();
    model.refs.insert(b"HEAD".to_vec(), (5, Value::Symbolic(b"refs/heads/main".to_vec())));
    model.refs.insert(b"refs/heads/main".to_vec(), (5, Value::Id(ids[0])));
    for number in 0..count {
        let value = match number % 5 {
            0 => Value::Tag(ids[1], ids[0]),
            1 => Value::Tag(ids[2], ids[0]),
            2 if number % 20 == 2 => Value::Symbolic(b"refs/heads/main".to_vec()),
            _ => Value::Id(ids[0]),
        };
        let name =
            format!("refs/{}/{}{number:x}", ["tags", "heads/a", "changes/01"][number % 3], "x".repeat(pad));
        let name = name.into_bytes();
        for back in 0..random.below(4) {
            let change = Change {
                ids: [ids[0].kind().null(), ids[0]],
                texts: [b"A U Thor".to_vec(), b"a@example.com".to_vec(), random.line().into_bytes()],
                seconds: 1_112_912_053 + back as u64,
                zone: [-700, 0, 1245][number % 3],
            };
            model.logs.insert((name.clone(), !(5 - back as u64)), Some(change));
        }
        model.refs.insert(name, (2 + number as u64 % 4, value));
    }
    model
}

/// Makes `tables`, oldest first, the repository's stack.
fn place(repo: &Path, tables: &[(&Vec<u8>, u64, u64)]) {
    let dir = repo.join("reftable");
    let mut names = Vec::new();
    for (bytes, min_update_index, max_update_index) in tables {
        let (min_update_index, max_update_index) = (*min_update_index, *max_update_index);
        let name = TableName { min_update_index, max_update_index, random: 0x600d }.to_string();
        std::fs::write(dir.join(&name), bytes).unwrap();
        names.push(name);
    }
    std::fs::write(dir.join("tables.list"), format_list(names)).unwrap();
}

/// Compares git's listing of refs and logs with the model.
fn check_git(repo: &Path, model: &Model) {
    run(repo, &["refs", "verify"]);
    let mut lines = Vec::new();
    let main = match &model.refs[&b"refs/heads/main"[..]] {
        (_, Value::Id(id)) => *id,
        other => panic!("{other:?}"),
    };
    for (name, (_, value)) in model.refs.iter().filter(|(name, _)| name.starts_with(b"refs/")) {
        let (id, target) = match value {
            Value::Deletion => continue,
            Value::Id(id) | Value::Tag(id, _) => (*id, ""),
            Value::Symbolic(target) => (main, str::from_utf8(target).unwrap()),
        };
        lines.push(format!("{} {id} {target}", String::from_utf8_lossy(name)));
    }
    let listing = run(repo, &["for-each-ref", "--format=%(refname) %(objectname) %(symref)"]);
    assert!(listing.lines().eq(&lines), "{} {}", listing.lines().count(), lines.len());
    let tips = run(repo, &["show-ref", "-d"]);
    let peeled = model.refs.iter().filter(|(_, (_, value))| matches!(value, Value::Tag(..))).count();
    assert_eq!(tips.lines().filter(|line| line.ends_with("^{}")).count(), peeled);
    let mut logs: BTreeMap<&[u8], Vec<&Change>> = BTreeMap::new();
    for ((name, _), change) in &model.logs {
        logs.entry(name).or_default().extend(change);
    }
    let listed = run(repo, &["reflog", "list"]);
    let expect: Vec<_> = logs.keys().map(|name| String::from_utf8_lossy(name)).collect();
    assert!(listed.lines().eq(expect.iter()), "{listed}");
    let with_commits = logs.iter().filter(|(name, _)| matches!(model.refs[**name].1, Value::Id(_)));
    for (name, changes) in with_commits.step_by(1 + logs.len() / 12) {
        let name = str::from_utf8(name).unwrap();
        let format = "--format=%gn <%ge> %gd|%gs";
        let found = run(repo, &["log", "-g", "--date=raw", format, name]);
        let expect = changes.iter().map(|change| {
            let [who, email, message] = change.texts.each_ref().map(|text| str::from_utf8(text).unwrap());
            let moment = format!("{} {:+05}", change.seconds, change.zone);
            let short = name.strip_prefix("refs/heads/").or(name.strip_prefix("refs/tags/"));
            let short = short.unwrap_or(name.strip_prefix("refs/").unwrap());
            format!("{who} <{email}> {short}@{{{moment}}}|{}", message.trim_end())
        });
        assert_eq!(found.lines().map(str::trim_end).collect::<Vec<_>>(), expect.collect::<Vec<_>>());
    }
}

/// The content of the repository's only table.
fn read_only_table(repo: &Path) -> Model {
    Model::read(&Table::open(&only_table(repo)[..]).unwrap()).unwrap()
}

#[test]
fn git_reads_what_is_written() {
    let mut random = Random::new(1);
    for (hash, block_bytes, restart_interval, count, pad) in [
        (HashKind::Sha1, 4096, 16, 0, 0),
        (HashKind::Sha1, 4096, 16, 2000, 0),
        (HashKind::Sha256, 4096, 16, 2000, 0),
        (HashKind::Sha1, 512, 3, 1000, 0),
        (HashKind::Sha256, 65_536, 64, 3000, 0),
        (HashKind::Sha1, 0, 16, 1000, 0),
        (HashKind::Sha256, 0, 1, 10, 0),
        // Index blocks longer than the others.
        (HashKind::Sha1, 4096, 16, 100, 2500),
        (HashKind::Sha256, 1024, 16, 100, 600),
        (HashKind::Sha1, MAX_BLOCK_BYTES, 65_535, 500, 0),
    ] {
        let dir = repository(hash, 0, &[("core.logAllRefUpdates", "false")]);
        let repo = dir.path();
        let model = model(&mut random, repo, count, pad);
        let options = TableOptions { block_bytes, restart_interval, ..TableOptions::new(hash) };
        let bytes = model.write(&options, 2, 5).unwrap();
        place(repo, &[(&bytes, 2, 5)]);
        check_git(repo, &model);
        // Git adds records, with the table's block size so that long names fit.
        run(repo, &["config", "reftable.blockSize", "65536"]);
        run(repo, &["update-ref", "refs/heads/new", "main"]);
        run(repo, &["update-ref", "-d", "refs/heads/new"]);
        run(repo, &["pack-refs"]);
        let packed = read_only_table(repo);
        assert!(packed.refs == model.refs && packed.logs == model.logs, "{hash} {block_bytes}");
    }
}

#[test]
fn git_reads_a_stack_and_its_compaction() {
    let mut random = Random::new(2);
    for hash in HASHES {
        let dir = repository(hash, 0, &[("core.logAllRefUpdates", "false")]);
        let repo = dir.path();
        let options = TableOptions { block_bytes: 512, ..TableOptions::new(hash) };
        let oldest = model(&mut random, repo, 300, 0);
        let mut newest = Model::default();
        let mut expect = oldest.clone();
        for (name, _) in oldest.refs.iter().filter(|(name, _)| name.starts_with(b"refs/tags/")) {
            newest.refs.insert(name.clone(), (6, Value::Deletion));
            expect.refs.remove(name);
        }
        for key in oldest.logs.keys().filter(|(name, _)| name.starts_with(b"refs/tags/")) {
            newest.logs.insert(key.clone(), None);
            expect.logs.remove(key);
        }
        let bytes = [oldest.write(&options, 2, 5).unwrap(), newest.write(&options, 6, 6).unwrap()];
        place(repo, &[(&bytes[0], 2, 5), (&bytes[1], 6, 6)]);
        check_git(repo, &expect);
        let tables = bytes.each_ref().map(|bytes| Table::open(&bytes[..]).unwrap());
        let mut one = Vec::new();
        compact(&tables, 0..2, &options, |_| true, |bytes| one.extend_from_slice(bytes)).unwrap();
        place(repo, &[(&one, 2, 6)]);
        check_git(repo, &expect);
        place(repo, &[(&bytes[0], 2, 5), (&bytes[1], 6, 6)]);
        run(repo, &["config", "reftable.blockSize", "512"]);
        run(repo, &["pack-refs"]);
        let packed = only_table(repo);
        assert!(Model::read(&Table::open(&packed[..]).unwrap()).unwrap() == expect);
        // Equal, except for the deflated logs, and with them the index of logs and the footer.
        let logs_at = u64::from_be_bytes(packed[packed.len() - 20..][..8].try_into().unwrap()) as usize;
        assert_eq!(one[..logs_at], packed[..logs_at]);
    }
}

/// Compares the tables that git merges, when it may merge the whole stack.
#[test]
fn git_compacts_the_tables_that_are_chosen() {
    let mut random = Random::new(3);
    let mut chosen = 0;
    for round in 0..24 {
        let dir = repository(HashKind::Sha1, 0, &[("core.logAllRefUpdates", "false")]);
        let repo = dir.path();
        let factor = [2, 2, 3, 5][round % 4];
        run(repo, &["config", "reftable.geometricFactor", &factor.to_string()]);
        let id = run(repo, &["rev-parse", "main"]);
        let id = ObjectId::from_hex(id.trim().as_bytes()).unwrap();
        let mut counts: Vec<usize> = (0..2 + random.below(6)).map(|_| 1 << random.below(9)).collect();
        if round % 3 > 0 {
            counts.sort_by(|left, right| right.cmp(left));
        }
        let mut tables = Vec::new();
        for (count, update) in counts.into_iter().zip(5..) {
            let mut model = Model::default();
            if update == 5 {
                model.refs.insert(b"HEAD".to_vec(), (5, Value::Symbolic(b"refs/heads/main".to_vec())));
            }
            for number in 0..count {
                let name = format!("refs/heads/{update}/{number:x}").into_bytes();
                model.refs.insert(name, (update, Value::Id(id)));
            }
            tables.push((model.write(&TableOptions::new(HashKind::Sha1), update, update).unwrap(), update));
        }
        let placed: Vec<_> = tables.iter().map(|(bytes, update)| (bytes, *update, *update)).collect();
        place(repo, &placed);
        let list = || std::fs::read(repo.join("reftable/tables.list")).unwrap();
        let before = list();
        run(repo, &["pack-refs", "--auto"]);
        let after = list();
        let opened = tables.iter().map(|(bytes, _)| Table::open(&bytes[..]).unwrap());
        let sizes: Vec<u64> = opened.map(|table| table.content_bytes()).collect();
        let (before, after) = (parse_list(&before).unwrap(), parse_list(&after).unwrap());
        let range = geometric(&sizes, factor);
        chosen += usize::from(range.is_some());
        let Some(range) = range else {
            assert_eq!(before, after, "{sizes:?}");
            continue;
        };
        let kept = before.len() - range.len() + 1;
        assert_eq!(after.len(), kept, "{sizes:?} {range:?} {factor}");
        assert_eq!(after[..range.start], before[..range.start], "{sizes:?}");
        assert_eq!(after[range.start + 1..], before[range.end..], "{sizes:?}");
    }
    assert!((5..24).contains(&chosen), "{chosen}");
}

/// Finds the size from which on git considers a table too small: it counts the table without header and
/// footer, plus one byte.
#[test]
fn git_counts_the_content_of_tables() {
    for hash in HASHES {
        let dir = repository(hash, 0, &[("core.logAllRefUpdates", "false")]);
        let repo = dir.path();
        let table = |update: u64, target_bytes: usize| {
            let mut model = Model::default();
            let target = format!("refs/heads/{}", "x".repeat(target_bytes));
            model.refs.insert(
                format!("refs/heads/{update}").into_bytes(),
                (update, Value::Symbolic(target.into())),
            );
            if update == 5 {
                model.refs.insert(b"HEAD".to_vec(), (update, Value::Symbolic(b"refs/heads/main".to_vec())));
            }
            model.write(&TableOptions::new(hash), update, update).unwrap()
        };
        let newer = table(6, 300);
        let mut is_chosen = Vec::new();
        let wanted = 2 * Table::open(&newer[..]).unwrap().content_bytes();
        let tables = (300..1000).map(|bytes| table(5, bytes));
        for older in
            tables.filter(|older| Table::open(&older[..]).unwrap().content_bytes().abs_diff(wanted) < 4)
        {
            place(repo, &[(&older, 5, 5), (&newer, 6, 6)]);
            run(repo, &["pack-refs", "--auto"]);
            let list = std::fs::read(repo.join("reftable/tables.list")).unwrap();
            let is_one = parse_list(&list).unwrap().len() == 1;
            let sizes = [&older, &newer].map(|bytes| Table::open(&bytes[..]).unwrap().content_bytes());
            assert_eq!(is_one, geometric(&sizes, 2).is_some(), "{sizes:?}");
            is_chosen.push(is_one);
        }
        assert_eq!(is_chosen, [true, true, true, false, false, false, false]);
    }
}
