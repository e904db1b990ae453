//! Input: a kind (1 byte), then: the first packet of git://; or the target of a request of HTTP, `path?query`, with GET or
//! POST; or the command of an SSH client. What they lead to lies below the served folder, and under one name only.
#![no_main]

use std::path::Component;

use libfuzzer_sys::fuzz_target;
use packrace_server::for_fuzzing::{git_path, http_path, shell_path};

fuzz_target!(|input: &[u8]| {
    let [kind, rest @ ..] = input else { return };
    let found = match kind % 4 {
        0 => git_path(rest),
        3 => shell_path(rest),
        kind => {
            let Ok(target) = std::str::from_utf8(rest) else { return };
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            http_path(if kind == 1 { "GET" } else { "POST" }, path, query)
        }
    };
    let Some(path) = found else { return };
    let name = path.as_os_str().as_encoded_bytes();
    assert!(!name.contains(&0) && !name.starts_with(b"/") && !name.ends_with(b"/"), "{path:?}");
    assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
    assert_eq!(path.components().collect::<std::path::PathBuf>().as_os_str(), path.as_os_str());
});
