//! Tables of our writer can be read back, and equal git's.

use super::*;

/// A new table with the records of `table`.
fn rewritten<D: AsRef<[u8]>>(table: &Table<D>, options: &TableOptions) -> Vec<u8> {
    let mut out = Vec::new();
    let (min, max) = table.update_indexes();
    let mut writer = Writer::new(options, min, max, |bytes: &[u8]| out.extend_from_slice(bytes)).unwrap();
    let mut refs = table.refs_from(b"").unwrap();
    while refs.advance().unwrap() {
        writer.add_ref(&refs.current().unwrap()).unwrap();
    }
    let mut logs = table.logs().unwrap();
    while logs.advance().unwrap() {
        writer.add_log(&logs.current().unwrap()).unwrap();
    }
    let written = writer.finish().unwrap();
    assert_eq!(written.bytes, out.len() as u64);
    out
}

#[test]
fn tables_without_logs_are_those_of_git() {
    for (hash, count, settings, options) in [
        (HashKind::Sha1, 0, &[][..], TableOptions::new(HashKind::Sha1)),
        (HashKind::Sha1, 1000, &[], TableOptions::new(HashKind::Sha1)),
        (HashKind::Sha256, 1000, &[], TableOptions::new(HashKind::Sha256)),
        (
            HashKind::Sha1,
            1000,
            &[("blockSize", "256"), ("restartInterval", "5")],
            TableOptions { block_bytes: 256, restart_interval: 5, ..TableOptions::new(HashKind::Sha1) },
        ),
        (
            HashKind::Sha256,
            2000,
            &[("blockSize", "333"), ("restartInterval", "1"), ("indexObjects", "false")],
            TableOptions {
                block_bytes: 333,
                restart_interval: 1,
                index_objects: false,
                ..TableOptions::new(HashKind::Sha256)
            },
        ),
        (
            HashKind::Sha1,
            2000,
            &[("blockSize", "65536"), ("restartInterval", "64")],
            TableOptions { block_bytes: 65536, restart_interval: 64, ..TableOptions::new(HashKind::Sha1) },
        ),
    ] {
        let dir = repository(hash, count, &[("core.logAllRefUpdates", "false")]);
        for (key, value) in settings {
            run(dir.path(), &["config", &format!("reftable.{key}"), value]);
        }
        run(dir.path(), &["update-ref", "refs/heads/more", "main"]);
        run(dir.path(), &["pack-refs"]);
        let expect = only_table(dir.path());
        let found = rewritten(&Table::open(&expect[..]).unwrap(), &options);
        assert!(
            found == expect,
            "{hash} {count} {settings:?}: first other byte at {}",
            found.iter().zip(&expect).take_while(|(l, r)| l == r).count()
        );
    }
}
