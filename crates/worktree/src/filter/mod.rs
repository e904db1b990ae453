//! Converts file content between work tree and objects (gitattributes, "Checking-out and checking-in").
//!
//! [`Filters`] looks up attributes, one path after the other; the result for a path, a [`Conversion`], is
//! small. [`Converter`] converts, on any thread. To objects: the external filter, the encoding, line endings,
//! `$Id$`; to the work tree in reverse.

pub(crate) mod attributes;
mod driver;
mod encoding;
mod eol;
mod ident;
mod process;
mod settings;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gix_filter::eol::AttributesDigest;
use packrace_object::{HashKind, ObjectId};
use packrace_os::trace::{self, TraceStep};
use packrace_store::{ObjectReader, Repository, Snapshot, cache_bytes};

use self::attributes::{Asked, Attributes};
pub use self::driver::BlobSource;
pub(crate) use self::driver::shell_word;
use self::driver::{FilterTask, Processes, Way};
use self::encoding::Encoding;
pub use self::encoding::reencoded;
use self::eol::Safety;
use self::settings::FilterSettings;
use crate::paths::{AttributeState, FindStaged, path_of};

/// Where attribute files are read from first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// In the work tree, then in the index.
    CheckIn,
    /// In the index, then in the work tree.
    CheckOut,
}

/// Why content is converted for git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Only to compare (`hash-object` without `-w`, refreshing): no warnings about line endings, and content
    /// that cannot be encoded stays unchanged.
    Compare,
    /// To store it.
    Store,
    /// To store it as if the index were empty (`--renormalize`).
    Renormalize,
}

/// Why content could not be converted, in git's words.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Refused; git dies with `fatal:` and this text.
    #[error("{0}")]
    Refused(String),
    /// The repository could not be read.
    #[error(transparent)]
    Store(#[from] packrace_store::Error),
    /// A file could not be read.
    #[error("{what}: {source}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}

/// How to convert the content of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    eol: AttributesDigest,
    is_ident: bool,
    /// The index of the driver in the settings.
    driver: Option<usize>,
    encoding: Option<Encoding>,
}

impl Conversion {
    /// Whether content stays unchanged, so that it need not be in memory.
    pub fn is_identity(&self) -> bool {
        self.eol == AttributesDigest::Binary
            && !self.is_ident
            && self.driver.is_none()
            && self.encoding.is_none()
    }
}

/// Looks up conversions of paths.
pub struct Filters {
    attributes: Attributes,
    reader: ObjectReader,
    way: Way,
    converter: Arc<Converter>,
}

/// Converts content; threads may share it.
pub struct Converter {
    settings: FilterSettings,
    hash: HashKind,
    top: PathBuf,
    processes: Mutex<Processes>,
    reader: Mutex<ObjectReader>,
}

impl Filters {
    /// Reads configuration and files outside the work tree at `top`. Lines for standard error are added to
    /// `messages`, here and in other functions with this argument.
    pub fn new(
        repository: &Repository,
        snapshot: &Arc<Snapshot>,
        top: &Path,
        direction: Direction,
        messages: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let converter = Converter {
            settings: FilterSettings::of(repository.config())?,
            hash: repository.hash_kind(),
            top: top.to_owned(),
            processes: Mutex::default(),
            reader: Mutex::new(snapshot.reader(cache_bytes::FEW_OBJECTS)),
        };
        Ok(Filters {
            attributes: Attributes::open(repository, top, direction, attributes::names(), messages)?,
            reader: snapshot.reader(cache_bytes::FEW_OBJECTS),
            way: if direction == Direction::CheckIn { Way::Clean } else { Way::Smudge },
            converter: Arc::new(converter),
        })
    }

    /// What programs get from now on beside the variables of this process.
    pub fn set_variables(&self, variables: &[(OsString, OsString)]) {
        self.converter.processes().variables = variables.to_vec();
    }

    /// The converter.
    pub fn converter(&self) -> &Arc<Converter> {
        &self.converter
    }

    /// The conversion for `path`, which is relative to the top of the work tree.
    pub fn conversion(
        &mut self,
        path: &[u8],
        staged: FindStaged<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Conversion, Error> {
        let asked = self.attributes.of(path, staged, &mut self.reader, messages)?;
        self.converter.conversion(&asked, self.way)
    }

    /// Whether the content of `path` must be in memory to be converted; otherwise it is stored unchanged.
    pub fn needs_content(
        &mut self,
        path: &[u8],
        staged: FindStaged<'_>,
        messages: &mut Vec<String>,
    ) -> Result<bool, Error> {
        Ok(!self.conversion(path, staged, messages)?.is_identity())
    }

    /// [`Filters::conversion`] and [`Converter::to_git`] at once.
    pub fn to_git<'a>(
        &mut self,
        path: &[u8],
        content: &'a [u8],
        purpose: Purpose,
        staged: FindStaged<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Cow<'a, [u8]>, Error> {
        let conversion = self.conversion(path, staged, messages)?;
        self.converter.to_git(&conversion, path, content, purpose, staged, messages)
    }

    /// [`Filters::conversion`] and [`Converter::to_worktree`] at once.
    pub fn to_worktree<'a>(
        &mut self,
        path: &[u8],
        content: &'a [u8],
        source: &BlobSource,
        staged: FindStaged<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Cow<'a, [u8]>, Error> {
        let conversion = self.conversion(path, staged, messages)?;
        self.converter.to_worktree(&conversion, path, content, source, messages)
    }
}

impl Converter {
    fn conversion(&self, asked: &Asked, way: Way) -> Result<Conversion, Error> {
        let driver = match &asked.filter {
            AttributeState::Value(name) => {
                self.settings.drivers.iter().position(|driver| driver.name.as_bytes() == name)
            }
            _ => None,
        };
        Ok(Conversion {
            eol: eol::digest(asked, self.settings.eol),
            is_ident: asked.ident == AttributeState::Set,
            driver: driver.filter(|at| self.settings.drivers[*at].does_something(way)),
            encoding: Encoding::of(&asked.encoding).map_err(Error::Refused)?,
        })
    }

    /// Converts content of the work tree to git's.
    pub fn to_git<'a>(
        &self,
        conversion: &Conversion,
        path: &[u8],
        content: &'a [u8],
        purpose: Purpose,
        staged: FindStaged<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Cow<'a, [u8]>, Error> {
        let shown = String::from_utf8_lossy(path);
        let source = BlobSource::default();
        let task = FilterTask { way: Way::Clean, path, content, source: &source };
        let driven = self.driven(conversion, &task, messages)?;
        let mut content = driven.map_or(Cow::Borrowed(content), Cow::Owned);
        if let Some(encoding) = &conversion.encoding
            && !content.is_empty()
        {
            match self.decoded(encoding, &content, &shown, purpose) {
                Ok(converted) => content = Cow::Owned(converted),
                Err(refusal) => {
                    messages.extend(refusal.hint);
                    if purpose != Purpose::Compare {
                        return Err(Error::Refused(refusal.error));
                    }
                    messages.push(format!("error: {}", refusal.error));
                }
            }
        }
        let has_crlf_staged = || self.has_crlf_staged(path, purpose, staged);
        let (mut content, changes) =
            eol::to_git(content, conversion.eol, self.settings.eol, has_crlf_staged)?;
        if let Some(changes) = changes.filter(|_| purpose == Purpose::Store) {
            match self.settings.safety {
                Safety::Ignored => {}
                Safety::Warned => messages.push(changes.warning(&shown)),
                Safety::Refused => return Err(Error::Refused(changes.refusal(&shown))),
            }
        }
        if conversion.is_ident {
            content = ident::to_git(content);
        }
        Ok(content)
    }

    /// Converts a blob's content to that of the work tree.
    pub fn to_worktree<'a>(
        &self,
        conversion: &Conversion,
        path: &[u8],
        content: &'a [u8],
        source: &BlobSource,
        messages: &mut Vec<String>,
    ) -> Result<Cow<'a, [u8]>, Error> {
        let shown = String::from_utf8_lossy(path);
        let mut content = Cow::Borrowed(content);
        if conversion.is_ident {
            content = ident::to_worktree(content, self.hash);
        }
        let mut content = eol::to_worktree(content, conversion.eol, self.settings.eol);
        if let Some(encoding) = &conversion.encoding
            && !content.is_empty()
        {
            match encoding.to_worktree(&content) {
                Some(converted) => content = Cow::Owned(converted),
                None => {
                    messages
                        .push(format!("error: failed to encode '{shown}' from UTF-8 to {}", encoding.name));
                }
            }
        }
        let task = FilterTask { way: Way::Smudge, path, content: &content, source };
        let driven = self.driven(conversion, &task, messages)?;
        Ok(driven.map_or(content, Cow::Owned))
    }

    /// What the external filter makes of the file; `None` if there is none, or it may fail.
    fn driven(
        &self,
        conversion: &Conversion,
        task: &FilterTask<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Some(at) = conversion.driver else { return Ok(None) };
        let driver = &self.settings.drivers[at];
        match self.processes().convert(driver, task, &self.top, messages) {
            None if driver.is_required => {
                let (path, name) = (String::from_utf8_lossy(task.path), &driver.name);
                Err(Error::Refused(match task.way {
                    Way::Clean => format!("{path}: clean filter '{name}' failed"),
                    Way::Smudge => format!("{path}: smudge filter {name} failed"),
                }))
            }
            converted => Ok(converted),
        }
    }

    fn decoded(
        &self,
        encoding: &Encoding,
        content: &[u8],
        path: &str,
        purpose: Purpose,
    ) -> Result<Vec<u8>, encoding::EncodingRefusal> {
        let decoded = encoding.to_git(content, path)?;
        let checked = &self.settings.checked_encodings;
        let is_checked = purpose != Purpose::Compare
            && checked.iter().any(|name| name.eq_ignore_ascii_case(&encoding.name));
        if is_checked && trace::is_on() {
            trace::tell(TraceStep::Note(&format!("Checking roundtrip encoding for {}...", encoding.name)));
        }
        if is_checked && encoding.to_worktree(&decoded).as_deref() != Some(content) {
            let name = &encoding.name;
            let error = format!("encoding '{path}' from {name} to UTF-8 and back is not the same");
            return Err(encoding::EncodingRefusal { hint: None, error });
        }
        Ok(decoded)
    }

    fn has_crlf_staged(&self, path: &[u8], purpose: Purpose, staged: FindStaged<'_>) -> Result<bool, Error> {
        if purpose == Purpose::Renormalize {
            return Ok(false);
        }
        let Some(id) = staged(path) else { return Ok(false) };
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(eol::is_text_with_crlf(&reader.read(&id)?.data))
    }

    fn processes(&self) -> std::sync::MutexGuard<'_, Processes> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds no staged blob: for an empty index.
pub fn nothing_staged(_path: &[u8]) -> Option<ObjectId> {
    None
}
