//! What git says of a path outside the work tree.

use std::io::ErrorKind;

use packrace_os::count::{Op, Role, add};

use super::path_of;

/// That `typed` is outside, or, of an absolute path, which directory on the way is not there.
pub fn said_of_outside(typed: &[u8], top: &[u8]) -> String {
    let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    if let Some((path, why)) = broken_way(typed) {
        return format!("Invalid path '{}': {why}", shown(&path));
    }
    format!("'{}' is outside repository at '{}'", shown(typed), shown(top))
}

/// The first part of an absolute path that cannot be reached, and why. The last one may be missing.
fn broken_way(typed: &[u8]) -> Option<(Vec<u8>, String)> {
    let parts = typed.strip_prefix(b"/")?.split(|byte| *byte == b'/');
    let mut names: Vec<&[u8]> = Vec::new();
    for part in parts.filter(|part| !part.is_empty() && *part != b".") {
        match part {
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let mut way = Vec::new();
    for (at, name) in names.iter().enumerate() {
        way.extend_from_slice(b"/");
        way.extend_from_slice(name);
        let is_last = at + 1 == names.len() && !typed.ends_with(b"/");
        add(Role::WorkTree, Op::Look, 0);
        match std::fs::symlink_metadata(path_of(&way)) {
            Err(error) if error.kind() == ErrorKind::NotFound && is_last => {}
            Err(error) => return Some((way, packrace_os::reason(&error))),
            Ok(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_directory_that_is_missing() {
        let dir = packrace_testkit::scratch_dir();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let below = |path: &str| format!("{}{path}", dir.path().display());
        let check = |path: &str, expect: Option<(&str, &str)>| {
            let expect = expect.map(|(at, why)| format!("Invalid path '{}': {why}", below(at)));
            let typed = below(path);
            let outside = || format!("'{typed}' is outside repository at '/top'");
            assert_eq!(said_of_outside(typed.as_bytes(), b"/top"), expect.unwrap_or_else(outside));
        };
        let missing = "No such file or directory";
        check("/x", None);
        check("/x/", Some(("/x", missing)));
        check("/x/y/z", Some(("/x", missing)));
        check("//./sub/../x//y", Some(("/x", missing)));
        check("/file", None);
        check("/file/x", Some(("/file/x", "Not a directory")));
        assert_eq!(said_of_outside(b"../x/y", b"/top"), "'../x/y' is outside repository at '/top'");
    }
}
