//! Why a call ended early.

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The client broke the protocol or asked for what it may not have.
    PeerFault,
    /// The client left.
    PeerGone,
    /// The repository is damaged.
    Corrupt,
    /// A file of the repository could not be read, or was changed in place, while it was in use.
    Fault,
    /// The machine or file system failed; trying again may help.
    Unavailable,
    /// A limit was reached.
    LimitExceeded,
    /// Too many others wait already; later there may be room.
    Busy,
}

/// Why a call ended early.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    was_told: bool,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), was_told: false }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Unavailable, message)
    }

    /// The client was refused, and told so.
    pub(crate) fn refused(refusal: &packrace_protocol::Refusal) -> Self {
        use packrace_protocol::RefusalKind;
        let kind = match refusal.kind() {
            RefusalKind::HungUp => ErrorKind::PeerGone,
            RefusalKind::LimitExceeded => ErrorKind::LimitExceeded,
            RefusalKind::Malformed | RefusalKind::Unsupported | RefusalKind::NotOurs => ErrorKind::PeerFault,
        };
        Error::new(kind, refusal.message()).told()
    }

    /// An input or output of the client failed.
    pub(crate) fn gone(error: std::io::Error) -> Self {
        Error::new(ErrorKind::PeerGone, format!("the client is gone: {error}"))
    }

    /// The client left before anything was changed.
    pub(crate) fn left() -> Self {
        Error::gone(std::io::ErrorKind::BrokenPipe.into())
    }

    /// The same error, after the client was told in the protocol's own words.
    pub(crate) fn told(self) -> Self {
        Error { was_told: true, ..self }
    }

    /// Whether the client knows: the conversation then ends in good order.
    pub fn was_told(&self) -> bool {
        self.was_told
    }

    /// The remedy.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl From<packrace_pack::Error> for Error {
    fn from(error: packrace_pack::Error) -> Self {
        let kind = match error.kind() {
            _ if error.is_fault() => ErrorKind::Fault,
            packrace_pack::ErrorKind::Corrupt => ErrorKind::Corrupt,
            packrace_pack::ErrorKind::Cancelled => ErrorKind::PeerGone,
            packrace_pack::ErrorKind::Unavailable => ErrorKind::Unavailable,
            packrace_pack::ErrorKind::LimitExceeded => ErrorKind::LimitExceeded,
            packrace_pack::ErrorKind::Misconfigured => ErrorKind::Unavailable,
            packrace_pack::ErrorKind::BadRequest => ErrorKind::PeerFault,
        };
        Error::new(kind, error.to_string())
    }
}

impl From<packrace_store::Error> for Error {
    fn from(error: packrace_store::Error) -> Self {
        let kind = match error.kind() {
            _ if error.is_fault() => ErrorKind::Fault,
            packrace_store::ErrorKind::Corrupt => ErrorKind::Corrupt,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, error.to_string())
    }
}
