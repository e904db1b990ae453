//! Input: a kind (1 byte), then: the value of a header with credentials, a user or addresses; or the path of a repository, a
//! newline and a file of rules, users, tokens or keys, or a gitolite.conf.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_server::for_fuzzing::{access_files, access_headers};

fuzz_target!(|input: &[u8]| {
    let [kind, rest @ ..] = input else { return };
    if kind % 2 == 0 {
        return access_headers(rest);
    }
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return };
    if let Ok(text) = std::str::from_utf8(&rest[end + 1..]) {
        access_files(text, &rest[..end]);
    }
});
