//! Reads gitolite's configuration and what it includes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{ConvertedRules, convert_gitolite};
use crate::settings_file;

/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Maximum number of folder entries for an `include` with a star.
const MAX_ENTRIES: usize = 10_000;

/// Converts a file and its includes. Relative paths lead from `directory`; errors and left-out lines name files
/// as they are given.
pub fn convert_gitolite_file(directory: &Path, conf: &Path) -> Result<ConvertedRules, String> {
    let folder = conf.parent().unwrap_or(Path::new(""));
    let mut is_first = true;
    let mut read = |name: &str| {
        let paths = match std::mem::take(&mut is_first) {
            true => vec![conf.to_owned()],
            false => included(directory, folder, name)?,
        };
        paths.iter().map(|path| Ok((path.display().to_string(), text(directory, path)?))).collect()
    };
    convert_gitolite("", &mut read)
}

/// The files of an `include`: one, or with a star in the last component all matching files, in order.
fn included(directory: &Path, folder: &Path, name: &str) -> Result<Vec<PathBuf>, String> {
    let path = folder.join(name);
    if !name.contains(['*', '?', '[', '{']) {
        return Ok(vec![path]);
    }
    let last = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let parent = path.parent().unwrap_or(Path::new(""));
    let is_elsewhere = parent.to_string_lossy().contains(['*', '?', '[', '{']);
    let star = last.split_once('*').filter(|(before, after)| {
        !is_elsewhere && !before.contains(['?', '[', '{']) && !after.contains(['*', '?', '[', '{'])
    });
    let (before, after) =
        star.ok_or_else(|| format!("include {name:?}: only one * in the last path component is supported"))?;
    let here = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let failed = |error: std::io::Error| format!("{}: {error}", here.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory.join(here)).map_err(failed)? {
        let file_name = entry.map_err(failed)?.file_name();
        let is_meant = file_name.to_str().is_some_and(|file| {
            let rest = file.strip_prefix(before).filter(|_| !before.is_empty() || !file.starts_with('.'));
            rest.is_some_and(|rest| rest.ends_with(after))
        });
        if is_meant {
            paths.push(parent.join(file_name));
        }
        if paths.len() > MAX_ENTRIES {
            return Err(format!("include {name:?}: more than {MAX_ENTRIES} files"));
        }
    }
    paths.sort();
    Ok(paths)
}

fn text(directory: &Path, path: &Path) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let read = settings_file::read(&directory.join(path), MAX_FILE_BYTES);
    let (bytes, _) = read.map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|_| failed(&"is not UTF-8"))
}
