//! The target directory of a clone.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use packrace_os::count::Role;
use packrace_os::durable;

use super::shown;
use crate::call::Call;
use crate::call::discovery::in_directory;
use crate::call::fatal::Fatal;

/// The directory of a new repository.
#[derive(Debug)]
pub struct CloneTarget {
    /// Its absolute path.
    pub path: PathBuf,
    /// The path for messages.
    pub shown: String,
    /// Whether it exists already, empty.
    pub is_there: bool,
}

impl CloneTarget {
    /// The named directory, or one derived from the URL; it must be empty.
    pub fn find(call: &Call, url: &OsStr, named: Option<&OsStr>) -> Result<Self, Fatal> {
        let name = match named {
            Some(named) => without_slashes(named.as_bytes()).to_vec(),
            None => guessed(url.as_bytes())?,
        };
        let name = PathBuf::from(OsString::from_vec(name));
        let start = in_directory(call, Path::new("."))?;
        let path = packrace_os::real_path(&start).map_err(Fatal::new)?.join(&name);
        let shown = shown(&name);
        let is_there = match packrace_os::identity(&path, Role::Config) {
            Ok(None) => false,
            Ok(Some(found)) if found.is_dir => {
                let entries = packrace_os::list_dir(&path, Role::Config).map_err(Fatal::new)?;
                if !entries.is_empty() {
                    return Err(taken(&shown));
                }
                true
            }
            Ok(Some(_)) | Err(_) => return Err(taken(&shown)),
        };
        Ok(CloneTarget { path, shown, is_there })
    }

    /// Creates it with all its parents.
    pub fn make(&self) -> Result<(), Fatal> {
        let is_missing =
            |path: &&Path| packrace_os::identity(path, Role::Config).is_ok_and(|found| found.is_none());
        let mut missing: Vec<&Path> = self.path.ancestors().take_while(is_missing).collect();
        while let Some(dir) = missing.pop() {
            durable::make_dir(dir, |mode| mode, Role::Config).map_err(|error| {
                let why = packrace_os::reason(&error);
                match missing.is_empty() {
                    true => Fatal::new(format!("could not create work tree dir '{}': {why}", self.shown)),
                    false => {
                        Fatal::new(format!("could not create leading directories of '{}': {why}", self.shown))
                    }
                }
            })?;
        }
        Ok(())
    }
}

fn taken(shown: &str) -> Fatal {
    Fatal::new(format!("destination path '{shown}' already exists and is not an empty directory."))
}

/// Removes trailing slashes; the root stays.
fn without_slashes(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(path.len().min(1), |last| last + 1);
    &path[..end]
}

/// The last usable component of a URL, with `.git` appended; for a server's root, the host name.
fn guessed(url: &[u8]) -> Result<Vec<u8>, Fatal> {
    let scheme = url.windows(3).position(|window| window == b"://");
    let mut rest = scheme.map_or(url, |at| &url[at + 3..]);
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    if let Some(at) = rest[..end].iter().rposition(|byte| *byte == b'@') {
        rest = &rest[at + 1..];
    }
    let trimmed = |mut rest: &[u8]| -> Vec<u8> {
        while let [before @ .., b'/' | b' ' | b'\t' | b'\n'] = rest {
            rest = before;
        }
        rest.to_vec()
    };
    let mut rest = trimmed(rest);
    if rest.ends_with(b"/.git") {
        rest = trimmed(&rest[..rest.len() - 5]);
    }
    if !rest.contains(&b'/')
        && let Some(at) = rest.iter().rposition(|byte| *byte == b':')
        && rest[at + 1..].iter().all(u8::is_ascii_digit)
    {
        rest.truncate(at);
    }
    let start = rest.iter().rposition(|byte| matches!(byte, b'/' | b':')).map_or(0, |at| at + 1);
    let name = rest[start..].strip_suffix(b".git").unwrap_or(&rest[start..]);
    // Control characters are removed; names that are no file names are refused.
    let words = name.split(|byte| *byte <= 0x20 || *byte == 0x7f).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join(&b' ');
    if name.is_empty() || name == b"." || name == b".." {
        return Err(Fatal::new(
            "No directory name could be guessed.\nPlease specify a directory on the command line",
        ));
    }
    Ok([name.as_slice(), b".git"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_urls() {
        let check = |url: &str, expect: Option<&str>| {
            let got = guessed(url.as_bytes()).ok().map(|name| String::from_utf8(name).unwrap());
            assert_eq!(got.as_deref(), expect, "{url}");
        };
        check("http://a/b", Some("b.git"));
        check("http://a/b.git", Some("b.git"));
        check("http://a/b/c.git///", Some("c.git"));
        check("http://a/b/.git", Some("b.git"));
        check("git://127.0.0.1:9418/", Some("127.0.0.1.git"));
        check("http://u:p@a/", Some("a.git"));
        check("http://a/b c", Some("b c.git"));
        check("http://a/x\u{1}y", Some("x y.git"));
        check("http://", None);
        check("http://a/..", None);
    }
}
