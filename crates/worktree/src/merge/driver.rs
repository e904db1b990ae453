//! Merge programs (gitattributes, "Defining a custom merge driver").
//!
//! `gix-merge` gives up if a program reports a conflict, and runs it in the current directory. So the program is run by a
//! shell script that goes to the top of the work tree first, and writes a mark behind the result of a conflict.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use gix_merge::blob::Driver;
use gix_object::bstr::ByteSlice as _;
use packrace_object::{Kind, ObjectId};
use packrace_store::Config;

use crate::error::WorkError;
use crate::filter::shell_word;
use crate::objects::Objects;

/// Tells of a program that failed.
const FAILED: &str = "echo 'error: failed to execute internal merge for '%P >&2";

/// The merge programs of one merge.
pub(super) struct MergeDrivers {
    /// What follows the result of a program that reports a conflict.
    mark: String,
    /// The results with conflicts, without the mark.
    conflicts: RefCell<BTreeSet<ObjectId>>,
}

impl MergeDrivers {
    pub(super) fn new() -> Self {
        let nobody_knows = RandomState::new().build_hasher().finish();
        MergeDrivers { mark: format!("{nobody_knows:016x}"), conflicts: RefCell::default() }
    }

    /// The configured programs. The work tree is at `top`.
    pub(super) fn configured(&self, config: &Config, top: Option<&Path>) -> Vec<Driver> {
        let mut drivers: Vec<Driver> = Vec::new();
        for (driver, key, value) in config.subsections("merge") {
            let at = drivers.iter().position(|known| known.name == driver).unwrap_or_else(|| {
                drivers.push(Driver { name: driver.into(), ..Driver::default() });
                drivers.len() - 1
            });
            let value = value.unwrap_or_default();
            match key {
                b"name" => drivers[at].display_name = value.into(),
                b"driver" => drivers[at].command = value.into(),
                b"recursive" => drivers[at].recursive = Some(value.into()),
                _ => {}
            }
        }
        drivers.retain(|driver| !driver.command.is_empty());
        for driver in &mut drivers {
            driver.command = self.marking(&driver.command, top).into();
        }
        drivers
    }

    /// A shell script that runs this command at the top of the work tree, with files there, as git does.
    fn marking(&self, command: &[u8], top: Option<&Path>) -> Vec<u8> {
        let current = std::env::current_dir().ok();
        let Some(top) = top.or(current.as_deref()) else {
            return format!("{FAILED}; exit 130").into_bytes();
        };
        let mark = &self.mark;
        let file = |side: char| format!(".merge_file_{mark}{side}");
        let [base, ours, theirs] = ['O', 'A', 'B'].map(file);
        // `gix-merge` does not quote the names of its files.
        let named = |side: char| format!("_{mark}{side}=$(cat <<'{mark}'\n%{side}\n{mark}\n)\n");
        let named = ['O', 'A', 'B'].map(named).concat();
        let copied = format!(
            " && cp \"$_{mark}O\" {base} && cp \"$_{mark}A\" {ours} && cp \"$_{mark}B\" {theirs} && (\n"
        );
        let behind = format!(
            "\n)\ncode=$?\nif test $code -gt 128 || ! test -e {ours}\nthen\n\
             rm -f {base} {ours} {theirs}\n{FAILED}\nexit 130\nfi\n\
             test $code -eq 0 || printf {mark} >>{ours}\ncat {ours} >\"$_{mark}A\"\nrm -f {base} {ours} {theirs}\nexit 0"
        );
        let (named, copied, behind) = (named.as_bytes(), copied.as_bytes(), behind.as_bytes());
        [named, b"cd ", &quoted(top), copied, &with_files(command, &file), behind].concat()
    }

    /// Stores a merged blob.
    pub(super) fn store(&self, objects: &Objects, content: &[u8]) -> Result<ObjectId, WorkError> {
        let whole = content.strip_suffix(self.mark.as_bytes());
        let id = objects.make(Kind::Blob, whole.unwrap_or(content).to_vec())?;
        if whole.is_some() {
            self.conflicts.borrow_mut().insert(id);
        }
        Ok(id)
    }

    /// Whether a program made this blob, and reported a conflict.
    pub(super) fn has_conflict(&self, blob: &ObjectId) -> bool {
        self.conflicts.borrow().contains(blob)
    }
}

/// A path as a word for the shell, in which `gix-merge` sees no pattern.
fn quoted(path: &Path) -> Vec<u8> {
    shell_word(path.as_os_str().as_bytes()).replace("%", br#"'"$(printf '\045')"'"#)
}

/// The command with the names of its files. `%%` is for git one character, for `gix-merge` two.
fn with_files(command: &[u8], file: &dyn Fn(char) -> String) -> Vec<u8> {
    let mut named = Vec::new();
    let mut rest = command;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match (first, rest.first()) {
            (b'%', Some(side @ (b'O' | b'A' | b'B'))) => {
                named.extend_from_slice(file(char::from(*side)).as_bytes());
                rest = &rest[1..];
            }
            (b'%', Some(b'%')) if !rest.get(1).is_some_and(|next| b"LPSXY".contains(next)) => {
                named.push(b'%');
                rest = &rest[1..];
            }
            _ => named.push(*first),
        }
    }
    named
}
