//! The users of this machine, from `/etc/passwd` (passwd(5)).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_os::count::Role;

/// Largest user file that is searched.
const MAX_PASSWD_BYTES: u64 = 16 << 20;

/// A user account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: String,
    /// The full name, up to the first comma.
    pub full_name: String,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// The user ID and the group ID.
    pub ids: Option<(u32, u32)>,
}

/// The user with this name.
pub fn named(name: &[u8]) -> Option<User> {
    find(&all()?, 0, name)
}

/// The user with this ID.
pub fn numbered(number: u32) -> Option<User> {
    find(&all()?, 2, number.to_string().as_bytes())
}

fn all() -> Option<Vec<u8>> {
    packrace_os::read_file(Path::new("/etc/passwd"), Role::Config, MAX_PASSWD_BYTES).ok()
}

/// The first user whose line has `value` in this field.
fn find(users: &[u8], field: usize, value: &[u8]) -> Option<User> {
    let lines = users.split(|byte| *byte == b'\n');
    let mut lines = lines.map(|line| line.split(|byte| *byte == b':').collect::<Vec<_>>());
    let fields = lines.find(|fields| fields.get(field) == Some(&value))?;
    let text = |at: usize| String::from_utf8_lossy(fields.get(at).copied().unwrap_or_default()).into_owned();
    let name = text(0);
    let person = text(4);
    // In the full name, `&` stands for the capitalized login name.
    let mut letters = name.chars();
    let capital = letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>());
    let full_name = person.split(',').next().unwrap_or_default();
    let full_name = full_name.replace('&', &capital.unwrap_or_default());
    let home = fields.get(5).filter(|home| !home.is_empty());
    let ids = text(2).parse().ok().zip(text(3).parse().ok());
    Some(User { name, full_name, ids, home: home.map(|home| PathBuf::from(OsStr::from_bytes(home))) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let users =
            b"root:x:0:0:root:/root:/bin/sh\nann:x:7:7:& Miller,,:/users/ann:\nbob:x:8\nsys:x:9:9:::\n";
        let check = |field, value: &str, expect: Option<(&str, &str, Option<&str>)>| {
            let found = find(users, field, value.as_bytes());
            let found = found.map(|user| (user.name, user.full_name, user.home));
            let expect = expect.map(|(name, full_name, home)| {
                (name.to_owned(), full_name.to_owned(), home.map(PathBuf::from))
            });
            assert_eq!(found, expect, "{value}");
        };
        check(0, "root", Some(("root", "root", Some("/root"))));
        check(0, "ann", Some(("ann", "Ann Miller", Some("/users/ann"))));
        check(2, "7", Some(("ann", "Ann Miller", Some("/users/ann"))));
        check(0, "bob", Some(("bob", "", None)));
        check(0, "sys", Some(("sys", "", None)));
        check(0, "an", None);
    }
}
