//! Checks `.gitmodules` (gitmodules): what a clone would do with its names, paths, URLs and commands.

use super::message::MessageId as Id;
use super::report::Report;
use super::{config_text, submodule_url};

/// Checks every setting up to the first syntax error.
pub(super) fn check(text: &[u8], report: &mut Report<'_>) {
    let read = config_text::for_each(text, |name, value| {
        let Some((submodule, key)) = submodule_and_key(name) else { return };
        if !is_safe_name(submodule) {
            disallowed(report, Id::GitmodulesName, b"disallowed submodule name: ", submodule);
        }
        let Some(value) = value else { return };
        match key {
            b"url" if !submodule_url::is_safe(value) => {
                disallowed(report, Id::GitmodulesUrl, b"disallowed submodule url: ", value);
            }
            // A path could be taken for an option.
            b"path" if value.first() == Some(&b'-') => {
                disallowed(report, Id::GitmodulesPath, b"disallowed submodule path: ", value);
            }
            // The setting is a command.
            b"update" if value.first() == Some(&b'!') => {
                disallowed(report, Id::GitmodulesUpdate, b"disallowed submodule update setting: ", value);
            }
            _ => {}
        }
    });
    if read.is_err() {
        report.note(Id::GitmodulesParse, b"could not parse gitmodules blob".as_slice());
    }
}

fn disallowed(report: &mut Report<'_>, id: Id, words: &[u8], value: &[u8]) {
    report.note(id, [words, value].concat());
}

/// The parts of `submodule.<name>.<key>`.
fn submodule_and_key(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = name.strip_prefix(b"submodule.")?;
    let dot = memchr::memrchr(b'.', rest)?;
    Some((&rest[..dot], &rest[dot + 1..]))
}

/// Whether the name is safe for a directory below `modules/`.
fn is_safe_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.split(|byte| matches!(byte, b'/' | b'\\')).any(|part| part == b"..")
}
