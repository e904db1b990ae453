//! The configuration of a repository, as git writes it: existing values keep their place and the
//! comments around them.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use packrace_object::HashKind;
use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};

use super::{Begun, NewSection};
use crate::config::{MAX_CONFIG_BYTES, parse_file};
use crate::error::{Error, ErrorKind, Reason};
use crate::publish::Component;

/// Writes the settings for formats and use of the repository, unless they are already set.
pub(super) fn write(begun: &Begun) -> Result<(), Error> {
    let path = begun.common_dir.join("config");
    let io = |error| Error::io(&path, error);
    let old = match packrace_os::read_file(&path, Role::Config, MAX_CONFIG_BYTES) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(io(error)),
    };
    let mut file = lock(&path)?;
    match &old {
        Some(_) => {
            let mode = packrace_os::mode(&path, Role::Config).map_err(io)?;
            file.change_mode(|_| mode).map_err(io)?;
        }
        None => file.change_mode(|mode| begun.policy.file_mode(mode)).map_err(io)?,
    }
    let keeps_modes = file.keeps_executable_bit().map_err(io)?;
    // If the lock is found under its name in upper case, the file system ignores case.
    let other_name = begun.common_dir.join("CONFIG.LOCK");
    let ignores_case = packrace_os::identity(&other_name, Role::Config).map_err(io)?.is_some();
    let has_links = !begun.is_new || has_links(&begun.common_dir)?;
    let disk = DiskAbilities { keeps_modes, ignores_case, has_links };
    let new = edited(begun, &path, old.as_deref().unwrap_or_default(), &disk)?;
    if old.as_ref() == Some(&new) {
        return file.discard().map_err(io);
    }
    file.write(&new).map_err(io)?;
    // A replaced file is always synced.
    if old.is_some() || begun.policy.syncs(Component::Reference) {
        file.sync().map_err(io)?;
    }
    file.replace(&path).map_err(io)
}

fn lock(path: &Path) -> Result<NewFile, Error> {
    let lock = path.with_extension("lock");
    NewFile::create(&lock, 0o666, Role::Config).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            let text = format!("could not lock config file {}: File exists", path.display());
            Reason::Refused(text).into()
        }
        _ => Error::io(lock, error),
    })
}

/// What the file system can do.
struct DiskAbilities {
    keeps_modes: bool,
    ignores_case: bool,
    has_links: bool,
}

/// Whether the file system of a directory has symbolic links.
fn has_links(dir: &Path) -> Result<bool, Error> {
    let link = dir.join("tmp_init_link");
    match durable::make_link(Path::new("testing"), &link, Role::Config) {
        Ok(()) => {
            durable::remove_file(&link, Role::Config).map_err(|error| Error::io(&link, error))?;
            Ok(true)
        }
        Err(error) => match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(true),
            io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => Ok(false),
            _ => Err(Error::io(link, error)),
        },
    }
}

fn edited(begun: &Begun, path: &Path, old: &[u8], disk: &DiskAbilities) -> Result<Vec<u8>, Error> {
    let Begun { options, config, format, .. } = begun;
    let mut settings = InitSettings(parse_file(old, path)?);
    let boolean = |value: bool| if value { "true" } else { "false" };
    // Existing extensions belong to version 1; git 2.47 drops some of them here.
    let has_extensions = !config.local_section("extensions").is_empty();
    let names_submodules = config.boolean("init.defaultSubmodulePathConfig")?.unwrap_or(false);
    let is_extended = format.hash != HashKind::Sha1 || !format.refs.is_usual() || names_submodules;
    let is_version_1 = config.local_integer("core.repositoryFormatVersion")? == Some(1);
    let version = if is_extended || is_version_1 && has_extensions { "1" } else { "0" };
    settings.set("core.repositoryformatversion", version.as_bytes())?;
    let name_hash = |settings: &mut InitSettings| match format.hash == HashKind::Sha256 {
        true => settings.set("extensions.objectformat", b"sha256"),
        false => Ok(()),
    };
    if options.sections.is_empty() {
        name_hash(&mut settings)?;
    }
    if !format.refs.is_usual() {
        settings.set("extensions.refstorage", &format.refs.to_value())?;
    }
    if names_submodules {
        settings.set("extensions.submodulepathconfig", b"true")?;
    }
    settings.set("core.filemode", boolean(disk.keeps_modes).as_bytes())?;
    let is_bare = options.is_bare && !(options.is_bare_guessed && settings.says_not_bare());
    settings.set("core.bare", boolean(is_bare).as_bytes())?;
    if !is_bare {
        if config.string("core.logAllRefUpdates").is_none() {
            settings.set("core.logallrefupdates", b"true")?;
        }
        if let Some(work_tree) = &options.work_tree {
            settings.set("core.worktree", work_tree.as_os_str().as_bytes())?;
        }
    }
    if !disk.has_links {
        settings.set("core.symlinks", b"false")?;
    }
    if begun.is_new && disk.ignores_case {
        settings.set("core.ignorecase", b"true")?;
    }
    if let Some(sharing) = begun.policy.sharing().to_config() {
        settings.set("core.sharedrepository", sharing.as_bytes())?;
        settings.set("receive.denyNonFastforwards", b"true")?;
    }
    let mut text = Vec::from(settings.0.to_bstring());
    if options.sections.is_empty() {
        return Ok(text);
    }
    options.sections.iter().for_each(|section| write_section(section, &mut text));
    // Text that cannot be parsed back would make the repository unusable. When git clones, it learns
    // the hash last.
    let mut settings = InitSettings(parse_file(&text, path)?);
    name_hash(&mut settings)?;
    Ok(settings.0.to_bstring().into())
}

/// Appends a section as git writes it (git-config, "Syntax").
fn write_section(section: &NewSection, text: &mut Vec<u8>) {
    text.extend_from_slice(format!("[{} \"", section.name).as_bytes());
    for byte in &section.subsection {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text.extend_from_slice(b"\"]\n");
    for (key, value) in &section.entries {
        let needs_quotes = value.starts_with(b" ")
            || value.ends_with(b" ")
            || value.iter().any(|byte| matches!(byte, b';' | b'#' | b'\r'));
        let quote: &[u8] = if needs_quotes { b"\"" } else { b"" };
        text.extend_from_slice(format!("\t{key} = ").as_bytes());
        text.extend_from_slice(quote);
        for byte in value {
            match byte {
                b'\n' => text.extend_from_slice(b"\\n"),
                b'\t' => text.extend_from_slice(b"\\t"),
                b'"' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
                other => text.push(*other),
            }
        }
        text.extend_from_slice(quote);
        text.push(b'\n');
    }
}

struct InitSettings(gix_config::File);

impl InitSettings {
    /// Sets the last value of this name, or adds it to the last section it belongs to.
    fn set(&mut self, name: &str, value: &[u8]) -> Result<(), Error> {
        if self.0.raw_value(name).is_ok_and(|old| old.as_slice() == value) {
            return Ok(());
        }
        if let Some(with) = self.with_new_key(name, value) {
            self.0 = with;
            return Ok(());
        }
        let set = self.0.set_raw_value(name, value);
        set.map(drop).map_err(|error| {
            Error::caused(ErrorKind::Refused, format!("could not set '{name}': {error}"), error)
        })
    }

    /// The file with a new key after the last key of its section: comments after that belong to what follows.
    fn with_new_key(&mut self, name: &str, value: &[u8]) -> Option<gix_config::File> {
        let (section, key) = name.split_once('.')?;
        if self.0.raw_value(name).is_ok() {
            return None;
        }
        let section = Vec::from(self.0.section_mut(section, None).ok()?.to_bstring());
        let text = Vec::from(self.0.to_bstring());
        let at = text.windows(section.len()).rposition(|window| window == section)?;
        let lines: Vec<&[u8]> = section.split_inclusive(|byte| *byte == b'\n').collect();
        let is_trivia = |line: usize| {
            let is_continued = line > 0 && lines[line - 1].trim_ascii_end().ends_with(b"\\");
            !is_continued && matches!(lines[line].trim_ascii_start().first(), None | Some(b'#' | b';'))
        };
        let count = (1..lines.len()).rev().find(|line| !is_trivia(*line)).map_or(1, |last| last + 1);
        let end = at + lines.iter().take(count).map(|line| line.len()).sum::<usize>();
        let (before, after) = text.split_at(end);
        let line_end: &[u8] = if before.ends_with(b"\n") { b"" } else { b"\n" };
        let new = [before, line_end, b"\t", key.as_bytes(), b" = ", value, b"\n", after].concat();
        let file = parse_file(&new, Path::new("config")).ok()?;
        // Other values, such as ones that need quotes, are left to the library.
        file.raw_value(name).is_ok_and(|read| read.as_slice() == value).then_some(file)
    }

    fn says_not_bare(&self) -> bool {
        let value = self.0.raw_value("core.bare");
        value.is_ok_and(|value| crate::config::parse_boolean(&value) == Some(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(subsection: &str, value: &str, expect: &str) {
        let entries = vec![("url", value.as_bytes().to_vec())];
        let section = NewSection { name: "remote", subsection: subsection.into(), entries };
        let mut text = Vec::new();
        write_section(&section, &mut text);
        assert_eq!(String::from_utf8_lossy(&text), expect);
        let file = parse_file(&text, Path::new("config")).unwrap();
        let read = file.raw_value_by("remote", Some(subsection.into()), "url").unwrap();
        assert_eq!(String::from_utf8_lossy(&read), value);
    }

    /// As git 2.47.3 writes them.
    #[test]
    fn sections_are_written_as_git_writes_them() {
        check("origin", "git://a/b", "[remote \"origin\"]\n\turl = git://a/b\n");
        check("a\"b\\c", "x", "[remote \"a\\\"b\\\\c\"]\n\turl = x\n");
        check("o", "a#b;c", "[remote \"o\"]\n\turl = \"a#b;c\"\n");
        check("o", " a\tb\"c\\d", "[remote \"o\"]\n\turl = \" a\\tb\\\"c\\\\d\"\n");
    }
}
