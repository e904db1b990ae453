//! Pathspecs from the command line or from a file (git-add, "--pathspec-from-file").

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use packrace_os::count::Role;
use packrace_store::unquote_line;
use packrace_worktree::paths::Pathspecs;

use crate::call::Call;
use crate::call::fatal::Fatal;

/// The longest file.
const MAX_BYTES: u64 = 1 << 30;

/// Pathspec arguments from the command line.
pub(crate) struct PathspecSource<'a> {
    pub(crate) typed: &'a [OsString],
    pub(crate) file: Option<&'a OsString>,
    pub(crate) ends_in_nul: bool,
    /// The top of the work tree, where git reads the file, also if the current directory is elsewhere.
    pub(crate) top: &'a Path,
    /// The directory below it that paths are relative to, also shown with the file's name.
    pub(crate) prefix: &'a [u8],
}

impl PathspecSource<'_> {
    /// The pathspecs. As in git, those that were typed are parsed before the options about files are looked at.
    pub(crate) fn read(&self, call: &Call) -> Result<Pathspecs, Fatal> {
        let typed: Vec<Vec<u8>> = self.typed.iter().map(|spec| spec.clone().into_vec()).collect();
        let typed = self.parse(call, &typed)?;
        let Some(file) = self.file.filter(|file| !file.is_empty()) else {
            return match self.ends_in_nul {
                true => Err(Fatal::new("the option '--pathspec-file-nul' requires '--pathspec-from-file'")),
                false => Ok(typed),
            };
        };
        if !self.typed.is_empty() {
            let text = "'--pathspec-from-file' and pathspec arguments cannot be used together";
            return Err(Fatal::new(text));
        }
        self.parse(call, &elements(&self.content(call, Path::new(file))?, self.ends_in_nul)?)
    }

    fn parse(&self, call: &Call, elements: &[Vec<u8>]) -> Result<Pathspecs, Fatal> {
        if !elements.is_empty() {
            call.environment.booleans.check_pathspecs()?;
        }
        let top = self.top.as_os_str().as_bytes();
        Pathspecs::parse(elements, self.prefix, top, call.environment.pathspecs).map_err(Fatal::new)
    }

    fn content(&self, call: &Call, file: &Path) -> Result<Vec<u8>, Fatal> {
        if file == Path::new("-") {
            let mut list = Vec::new();
            call.streams.input().take(MAX_BYTES).read_to_end(&mut list).map_err(Fatal::new)?;
            return Ok(list);
        }
        let shown = Path::new(OsStr::from_bytes(self.prefix)).join(file);
        packrace_os::read_file(&self.top.join(&shown), Role::WorkTree, MAX_BYTES).map_err(|error| {
            let why = packrace_os::reason(&error);
            Fatal::new(format!("could not open '{}' for reading: {why}", shown.display()))
        })
    }
}

/// Lines, possibly quoted, or NUL-terminated strings. The last terminator is optional.
fn elements(list: &[u8], ends_in_nul: bool) -> Result<Vec<Vec<u8>>, Fatal> {
    let end = if ends_in_nul { 0 } else { b'\n' };
    let mut elements = Vec::new();
    for element in list.split_inclusive(|byte| *byte == end) {
        let element = element.strip_suffix(&[end]).unwrap_or(element);
        if ends_in_nul {
            elements.push(element.to_vec());
            continue;
        }
        let line = element.strip_suffix(b"\r").unwrap_or(element);
        let path = unquote_line(line)
            .ok_or_else(|| Fatal::new(format!("line is badly quoted: {}", String::from_utf8_lossy(line))))?;
        elements.push(path.into_owned());
    }
    Ok(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let check = |list: &[u8], nul: bool, expect: &[&str]| {
            let found = elements(list, nul).unwrap();
            assert_eq!(found, expect.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>());
        };
        check(b"", false, &[]);
        check(b"\n", false, &[""]);
        check(b"a\nb", false, &["a", "b"]);
        check(b"a\r\n\"b\\tc\"\r\n", false, &["a", "b\tc"]);
        check(b"a\0\"b\n\0", true, &["a", "\"b\n"]);
        assert_eq!(elements(b"\"a", false).unwrap_err().message, "line is badly quoted: \"a");
    }
}
