//! `packrace access from-gitolite`: converts gitolite's configuration files to rules.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use packrace_commands::{Call, Fatal, in_directory};
use packrace_server::access::convert_gitolite;
use packrace_server::settings_file;

use crate::args::FromGitolite;

/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Maximum number of folder entries for an `include` with a star.
const MAX_ENTRIES: usize = 10_000;

pub fn run(call: &Call, args: &FromGitolite) -> Result<(), Fatal> {
    let folder = args.conf.parent().unwrap_or(Path::new("")).to_owned();
    let mut is_first = true;
    let mut read = |name: &str| {
        let paths = match std::mem::take(&mut is_first) {
            true => vec![args.conf.clone()],
            false => included(call, &folder, name)?,
        };
        paths.iter().map(|path| Ok((path.display().to_string(), text(call, path)?))).collect()
    };
    let converted = convert_gitolite("", &mut read).map_err(Fatal::new)?;
    let left_out: String = converted.left_out.iter().map(|line| format!("{line}\n")).collect();
    if !left_out.is_empty() && !args.partial {
        let why = "some rules cannot be converted; nothing was written; see --partial";
        return Err(Fatal::error(why).after(left_out));
    }
    match &args.output {
        None => call.streams.write(converted.toml.as_bytes())?,
        Some(path) => {
            let failed = |error: std::io::Error| Fatal::new(format!("{}: {error}", path.display()));
            let path = in_directory(call, path)?;
            let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
            file.write_all(converted.toml.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        }
    }
    call.streams.errors.clone().write_all(left_out.as_bytes()).map_err(Fatal::new)
}

/// The files of an `include`: one, or with a star in the last component all matching files, in order.
fn included(call: &Call, folder: &Path, name: &str) -> Result<Vec<PathBuf>, String> {
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
    let listed =
        in_directory(call, here).map_err(|error| String::from_utf8_lossy(&error.text()).into_owned())?;
    let failed = |error: std::io::Error| format!("{}: {error}", here.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&listed).map_err(failed)? {
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

fn text(call: &Call, path: &Path) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let real =
        in_directory(call, path).map_err(|error| String::from_utf8_lossy(&error.text()).into_owned())?;
    let (bytes, _) = settings_file::read(&real, MAX_FILE_BYTES).map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|_| failed(&"is not UTF-8"))
}
