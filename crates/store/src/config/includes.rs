//! Files that a configuration file includes (git-config, "Includes" and "Conditional includes").
//!
//! The parser's crate opens no files; this module does. It reads regular files only, with a bound on their
//! size and number. In a confined server, files that a repository includes must be in the served folder.

use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use gix_config::parse::EventRef;
use gix_glob::wildmatch::{self, Mode};
use packrace_os::count::Role;

use super::{
    Config, ConfigEntry, ConfigScope, ConfigSources, MAX_CONFIG_BYTES, bad_command_line, parse_entries,
};
use crate::error::{Error, Reason};

/// Maximum depth of nested includes, as in git.
const MAX_DEPTH: usize = 10;

/// Maximum number of included files in total. A file may be included many times and include many others.
const MAX_INCLUDED: usize = 1024;

/// The repository that conditions of includes are about.
#[derive(Clone, Copy)]
pub(crate) struct IncludingRepository<'a> {
    /// The git directory of the work tree.
    pub(crate) git_dir: &'a Path,
    /// The full name of the branch that a git directory's `HEAD` points to. Where refs are stored is itself configured.
    pub(crate) branch_of: fn(&Path) -> Result<Option<Vec<u8>>, Error>,
}

/// A file that is being read, and the context of its inclusion.
pub(super) struct FileInclusion<'a> {
    pub(super) scope: ConfigScope,
    /// None for the command line.
    pub(super) path: Option<&'a Path>,
    pub(super) text: &'a [u8],
    pub(super) repository: Option<IncludingRepository<'a>>,
    pub(super) depth: usize,
}

impl FileInclusion<'_> {
    /// git's message, which names the line where an entry ends.
    fn bad_entry(&self, number: usize) -> Error {
        let Some(path) = self.path else { return bad_command_line() };
        let events = gix_config::parse::Events::from_bytes(self.text, None).ok();
        let (mut line, mut entries) = (1, 0);
        for event in events.iter().flat_map(|events| events.iter()) {
            match event {
                EventRef::SectionValueName(_) => entries += 1,
                EventRef::Newline(ends) => line += ends.iter().filter(|byte| **byte == b'\n').count(),
                EventRef::Value(_) | EventRef::ValueDone(_) if entries > number => break,
                _ => {}
            }
        }
        Reason::Config(format!("bad config line {line} in file {}", path.display())).into()
    }
}

/// Reads a configuration file; `None` if there is none. Files that a repository names must be where a
/// confined server may read.
pub(super) fn read(scope: ConfigScope, path: &Path) -> Result<Option<Vec<u8>>, Error> {
    or_absent(scope, path, read_file(scope, path))
}

fn read_file(scope: ConfigScope, path: &Path) -> io::Result<Vec<u8>> {
    packrace_os::read_regular_file(path, scope.is_protected(), Role::Config, MAX_CONFIG_BYTES)
}

fn or_absent(scope: ConfigScope, path: &Path, read: io::Result<Vec<u8>>) -> Result<Option<Vec<u8>>, Error> {
    let path = path.display();
    match read.map_err(|error| (error.kind(), error)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err((ErrorKind::NotFound | ErrorKind::NotADirectory, _)) => Ok(None),
        // git's message: git parses a line first.
        Err((ErrorKind::InvalidData, _)) => {
            Err(Reason::Config(format!("bad config line 1 in file {path}")).into())
        }
        Err((ErrorKind::FileTooLarge, _)) => {
            Err(Reason::Config(format!("config file is too large: {path}")).into())
        }
        Err((_, error)) => {
            let why = packrace_os::reason(&error);
            let why = if error.kind() == ErrorKind::IsADirectory { "Is a directory" } else { &why };
            let text = format!("unable to access '{path}': {why}");
            match scope.is_protected() {
                true => Err(Reason::UnreadableConfig(text).into()),
                false => Err(Reason::Config(text).into()),
            }
        }
    }
}

impl Config {
    /// [`Config::outside`], where includes may have conditions about a repository. What a server has read before is
    /// of no repository, so such conditions never hold there.
    pub(crate) fn around(
        sources: &ConfigSources,
        repository: IncludingRepository<'_>,
    ) -> Result<Self, Error> {
        match sources.last {
            Some(_) => Config::outside(sources),
            None => Config::read_outside(sources, Some(repository)),
        }
    }

    /// The settings of a file in a work tree, such as `.gitmodules`; it includes no others.
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        let mut config = Config::outside(&ConfigSources::default())?;
        if let Some(text) = read(ConfigScope::Local, path)? {
            config.entries = parse_entries(ConfigScope::Local, &text, Some(path))?;
        }
        Ok(config)
    }

    /// Adds the entries of a file to `found`; included entries come directly after the entry that
    /// names their file.
    pub(super) fn follow(
        &mut self,
        reading: &FileInclusion<'_>,
        entries: Vec<ConfigEntry>,
        found: &mut Vec<ConfigEntry>,
    ) -> Result<(), Error> {
        let urls: Vec<Vec<u8>> = entries.iter().chain(&self.entries).filter_map(remote_url).collect();
        for (number, entry) in entries.into_iter().enumerate() {
            let included = self.to_include(&entry, reading, &urls)?;
            found.push(entry);
            if let Some(path) = included {
                self.include(&path, reading, number, found)?;
            }
        }
        Ok(())
    }

    /// Adds the entries of the file that entry `number` of another file includes.
    fn include(
        &mut self,
        path: &Path,
        by: &FileInclusion<'_>,
        number: usize,
        found: &mut Vec<ConfigEntry>,
    ) -> Result<(), Error> {
        if by.depth >= MAX_DEPTH {
            let from = by.path.map_or("the command line".into(), Path::to_string_lossy);
            let text = format!(
                "exceeded maximum include depth ({MAX_DEPTH}) while including\n\t{}\nfrom\n\t{from}\n\
                 This might be due to circular includes.",
                path.display()
            );
            return Err(Reason::Config(text).into());
        }
        self.included_files += 1;
        if self.included_files > MAX_INCLUDED {
            let text = format!("more than {MAX_INCLUDED} files of configuration are included");
            return Err(Reason::Config(text).into());
        }
        if self.is_confined && !by.scope.is_protected() && leads_out(path) {
            self.ignore(format!("include.path = {}", path.display()), "leads out of the served folder");
            return Ok(());
        }
        let read = read_file(by.scope, path);
        if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::IsADirectory) {
            tracing::warn!("unable to access '{}': Is a directory", path.display());
            return Err(by.bad_entry(number));
        }
        let Some(text) = or_absent(by.scope, path, read)? else { return Ok(()) };
        let entries = parse_entries(by.scope, &text, Some(path))?;
        let reading = FileInclusion {
            scope: by.scope,
            path: Some(path),
            text: &text,
            repository: by.repository,
            depth: by.depth + 1,
        };
        self.follow(&reading, entries, found)
    }

    /// The file that an entry includes, if its condition holds.
    fn to_include(
        &self,
        entry: &ConfigEntry,
        reading: &FileInclusion<'_>,
        urls: &[Vec<u8>],
    ) -> Result<Option<PathBuf>, Error> {
        if entry.name != b"include.path" {
            let condition = entry.name.strip_prefix(b"includeif.");
            let Some(condition) = condition.and_then(|rest| rest.strip_suffix(b".path")) else {
                return Ok(None);
            };
            if !self.holds(condition, reading, urls)? {
                return Ok(None);
            }
        }
        let Some(named) = self.path_of_include(entry) else { return Ok(None) };
        if named.is_absolute() {
            return Ok(Some(named));
        }
        match reading.path.and_then(Path::parent) {
            Some(dir) => Ok(Some(dir.join(named))),
            None => Err(Reason::Config("relative config includes must come from files".into()).into()),
        }
    }

    /// Whether the condition of `includeIf` holds; an unknown condition does not.
    fn holds(&self, condition: &[u8], reading: &FileInclusion<'_>, urls: &[Vec<u8>]) -> Result<bool, Error> {
        let matches = |pattern: &[u8], text: &[u8], mode: Mode| {
            gix_glob::wildmatch(pattern.into(), text.into(), wildmatch::Mode::NO_MATCH_SLASH_LITERAL | mode)
        };
        let with_all_below = |pattern: &[u8]| match pattern.ends_with(b"/") {
            true => [pattern, b"**"].concat(),
            false => pattern.to_vec(),
        };
        let (pattern, mode) = match condition {
            _ if condition.starts_with(b"gitdir:") => (&condition[7..], Mode::empty()),
            _ if condition.starts_with(b"gitdir/i:") => (&condition[9..], Mode::IGNORE_CASE),
            _ if condition.starts_with(b"onbranch:") => {
                let Some(IncludingRepository { git_dir, branch_of }) = reading.repository else {
                    return Ok(false);
                };
                let head = branch_of(git_dir)?.unwrap_or_default();
                let branch = head.strip_prefix(b"refs/heads/");
                let pattern = with_all_below(&condition[9..]);
                return Ok(branch.is_some_and(|branch| matches(&pattern, branch, Mode::empty())));
            }
            _ if condition.starts_with(b"hasconfig:remote.*.url:") => {
                return Ok(urls.iter().any(|url| matches(&condition[23..], url, Mode::empty())));
            }
            _ => return Ok(false),
        };
        let Some(IncludingRepository { git_dir, .. }) = reading.repository else { return Ok(false) };
        let mut pattern = match (pattern.strip_prefix(b"~/"), pattern.strip_prefix(b"./")) {
            (Some(rest), _) => match &self.home {
                Some(home) => [home.as_os_str().as_bytes(), b"/", rest].concat(),
                None => return Ok(false),
            },
            (_, Some(rest)) => match reading.path.and_then(Path::parent) {
                Some(dir) => [dir.as_os_str().as_bytes(), b"/", rest].concat(),
                None => return Ok(false),
            },
            _ => pattern.to_vec(),
        };
        if !pattern.starts_with(b"/") {
            pattern.splice(0..0, *b"**/");
        }
        let pattern = with_all_below(&pattern);
        let real = packrace_os::real_path(git_dir).ok();
        let dirs = [Some(git_dir), real.as_deref()];
        Ok(dirs.into_iter().flatten().any(|dir| matches(&pattern, dir.as_os_str().as_bytes(), mode)))
    }
}

fn remote_url(entry: &ConfigEntry) -> Option<Vec<u8>> {
    let is_url = entry.name.starts_with(b"remote.") && entry.name.ends_with(b".url");
    entry.value.clone().filter(|_| is_url)
}

/// Whether a file exists where the server may not read.
fn leads_out(path: &Path) -> bool {
    packrace_os::real_path(path).is_ok_and(|real| !packrace_os::reach::is_allowed(&real))
}
