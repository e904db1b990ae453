//! What was left behind, by the table in `stale_files`.

use std::path::Path;
use std::time::Duration;

use packrace_maintenance::stale_files;
use packrace_os::clock::time_of_day;
use packrace_testkit::{RepoBuilder, Size};

use crate::{assert_sound, open};

const HOUR: Duration = Duration::from_secs(60 * 60);

fn make(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "left behind").unwrap();
}

#[test]
fn what_is_old_and_nobody_s_goes() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    // With the hours after which each goes; `None`: never.
    let cases = [
        ("objects/tmp_obj_abcdef", Some(24)),
        ("objects/17/tmp_obj_abcdef", Some(24)),
        ("objects/pack/tmp_pack_abcdef", Some(24)),
        ("shallow_abcdef", Some(24)),
        ("objects/pack/.tmp-123-pack-abc.pack", Some(24)),
        ("objects/info/commit-graphs/tmp_graph_abcdef", Some(24)),
        ("objects/tmp_objdir-incoming-abcdef/pack/tmp_pack_x", Some(24)),
        ("objects/pack/.tmp-1-pack-12.idx", None),
        ("objects/pack/.tmp-1-pack-12.pack", None),
        ("objects/pack/.tmp-1-pack-12.rev", None),
        ("objects/pack/pack-1234.pack", Some(1)),
        ("objects/pack/pack-1234.rev", Some(1)),
        ("objects/pack/pack-5678.pack", None),
        ("objects/pack/pack-5678.keep", None),
        ("objects/pack/multi-pack-index.lock", Some(24)),
        ("objects/info/commit-graph.lock", Some(24)),
        ("packed-refs.lock", Some(24)),
        ("refs/heads/main.lock", Some(24)),
        ("packrace-bundles/tmp_bundle_abcdef", Some(24)),
        ("packrace-bundles/1-full.bundle", None),
        ("HEAD.lock", Some(24)),
        ("config.lock", None),
        ("index.lock", None),
        ("shallow.lock", None),
        ("objects/pack/notes.txt", None),
        ("tmp_mine", None),
    ];
    for (path, _) in cases {
        make(&repo.path().join(path));
    }
    let now = time_of_day() + Duration::from_secs(10);
    for hours in [0, 1, 23, 24, 1000] {
        stale_files::find(&open(repo.path()), now + hours * HOUR, None).unwrap().remove();
        for (path, goes) in cases {
            let is_there = repo.path().join(path).exists();
            assert_eq!(is_there, goes.is_none_or(|after| hours < after), "{path} after {hours} hours");
        }
    }
    for (path, _) in cases {
        let _ = std::fs::remove_file(repo.path().join(path));
    }
    assert_sound(repo.path(), "without what was left");
}
