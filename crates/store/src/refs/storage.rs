//! How and where refs are stored.

/// How refs are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// One file per ref, and `packed-refs`.
    Files,
    /// A stack of reftables.
    Reftable,
}

impl Backend {
    /// The backend of this name (gitrepository-layout, "refStorage").
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "files" => Some(Backend::Files),
            "reftable" => Some(Backend::Reftable),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Files => "files",
            Backend::Reftable => "reftable",
        }
    }
}

/// How and where refs are stored: `<format>` or `<format>://<path>` (git-config, "extensions.refStorage").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefStorage {
    /// The form of the files.
    pub backend: Backend,
    /// The directory, relative to that of the repository; `None` for the latter.
    pub place: Option<Vec<u8>>,
}

impl RefStorage {
    /// Parses a value; an unknown one is an error with the format that it names.
    pub fn parse(value: &[u8]) -> Result<Self, String> {
        let at = value.windows(3).position(|part| part == b"://");
        let (format, place) = at.map_or((value, &b""[..]), |at| (&value[..at], &value[at + 3..]));
        let format = String::from_utf8_lossy(format);
        let backend = Backend::of_name(&format).ok_or_else(|| format.into_owned())?;
        Ok(RefStorage { backend, place: (!place.is_empty()).then(|| place.to_vec()) })
    }

    /// Whether a repository has this without saying so: files, in its own directory.
    pub(crate) fn is_usual(&self) -> bool {
        self.backend == Backend::Files && self.place.is_none()
    }

    /// The value that says this.
    pub fn to_value(&self) -> Vec<u8> {
        let name = self.backend.name().as_bytes();
        self.place.as_ref().map_or_else(|| name.to_vec(), |place| [name, b"://", place].concat())
    }
}

impl From<Backend> for RefStorage {
    fn from(backend: Backend) -> Self {
        RefStorage { backend, place: None }
    }
}
