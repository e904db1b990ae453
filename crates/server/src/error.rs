//! Why a call ended early.

use std::sync::Arc;

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The client broke the protocol, or asked for something that it may not have.
    PeerFault,
    /// The client disconnected.
    PeerGone,
    /// The repository is damaged.
    Corrupt,
    /// A file of the repository could not be read, or was changed in place, while it was in use.
    Fault,
    /// The machine or file system failed; trying again may help.
    Unavailable,
    /// Another process is changing the same, or has changed it meanwhile; trying again may help.
    Conflict,
    /// A limit was reached.
    LimitExceeded,
    /// Too many requests wait already; later there may be room.
    Busy,
}

impl ErrorKind {
    /// Its name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ErrorKind::PeerFault => "peer-fault",
            ErrorKind::PeerGone => "peer-gone",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::Fault => "fault",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Conflict => "conflict",
            ErrorKind::LimitExceeded => "limit-exceeded",
            ErrorKind::Busy => "busy",
        }
    }

    /// Whether the operator of the server must look at it.
    pub(crate) fn is_for_operator(self) -> bool {
        matches!(self, ErrorKind::Corrupt | ErrorKind::Fault | ErrorKind::Unavailable)
    }
}

/// Why a call ended early.
/// The message includes that of the source; [`std::error::Error::source`] has the cause itself.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    was_told: bool,
    is_before_pack: bool,
    /// Shared by all clients of a pack that could not be made.
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    // The cause itself, not the `Arc` around it.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), was_told: false, is_before_pack: false, source: None }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Unavailable, message)
    }

    /// The machine or file system failed: `what` did not work because of `source`.
    pub(crate) fn caused(
        what: impl std::fmt::Display,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Error::unavailable(format!("{what}: {source}")).because(source)
    }

    pub(crate) fn because(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Error { source: Some(Arc::new(source)), ..self }
    }

    /// The client was refused, and got the message.
    pub(crate) fn refused(refusal: &packrace_protocol::Refusal) -> Self {
        use packrace_protocol::RefusalKind;
        let kind = match refusal.kind() {
            RefusalKind::HungUp => ErrorKind::PeerGone,
            RefusalKind::LimitExceeded => ErrorKind::LimitExceeded,
            _ => ErrorKind::PeerFault,
        };
        Error::new(kind, refusal.message()).told()
    }

    /// An input or output of the client failed.
    pub(crate) fn gone(error: std::io::Error) -> Self {
        Error::new(ErrorKind::PeerGone, format!("client disconnected: {error}")).because(error)
    }

    /// The client disconnected before anything was changed.
    pub(crate) fn left() -> Self {
        Error::gone(std::io::ErrorKind::BrokenPipe.into())
    }

    /// The same error, after the client got a message in the protocol's own words.
    pub(crate) fn told(self) -> Self {
        Error { was_told: true, ..self }
    }

    /// Whether the client got a message: the session then ends normally.
    pub fn was_told(&self) -> bool {
        self.was_told
    }

    /// The same error, met before anything was done for the pack.
    pub(crate) fn before_pack(self) -> Self {
        Error { is_before_pack: true, ..self }
    }

    /// Whether it was met as the pack was made: in git, not by `upload-pack` itself, but by its `pack-objects`.
    pub fn is_of_pack(&self) -> bool {
        let is_of_objects = self.source.as_deref().is_some_and(|source| source.is::<packrace_pack::Error>());
        is_of_objects && !self.is_before_pack
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What git says if it is more than one line: the lines of `error:`, and the last message.
    pub fn in_git_words(&self) -> Option<(String, String)> {
        let source = self.source.as_deref()?;
        let of_objects =
            source.downcast_ref::<packrace_pack::Error>().and_then(packrace_pack::Error::in_git_words);
        of_objects.or_else(|| source.downcast_ref::<packrace_store::Error>()?.in_git_words())
    }

    /// All lines that git prints.
    pub fn lines(&self) -> String {
        match self.in_git_words() {
            Some((before, last)) => format!("{before}fatal: {last}\n"),
            None => format!("fatal: {}\n", self.message),
        }
    }
}

impl From<packrace_pack::Error> for Error {
    fn from(error: packrace_pack::Error) -> Self {
        let kind = match error.kind() {
            _ if error.is_fault() => ErrorKind::Fault,
            packrace_pack::ErrorKind::Corrupt => ErrorKind::Corrupt,
            packrace_pack::ErrorKind::Cancelled => ErrorKind::PeerGone,
            packrace_pack::ErrorKind::Conflict => ErrorKind::Conflict,
            packrace_pack::ErrorKind::LimitExceeded => ErrorKind::LimitExceeded,
            packrace_pack::ErrorKind::BadRequest => ErrorKind::PeerFault,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, error.to_string()).because(error)
    }
}

impl From<packrace_store::Error> for Error {
    fn from(error: packrace_store::Error) -> Self {
        let kind = match error.kind() {
            _ if error.is_fault() => ErrorKind::Fault,
            packrace_store::ErrorKind::Corrupt => ErrorKind::Corrupt,
            packrace_store::ErrorKind::Conflict => ErrorKind::Conflict,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, error.to_string()).because(error)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::*;

    #[test]
    fn the_cause_is_kept() {
        let error = Error::caused("cannot start a thread", io::Error::from(io::ErrorKind::OutOfMemory));
        assert!(error.to_string().starts_with("cannot start a thread: "));
        for error in [error.clone(), error.told()] {
            let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
            assert_eq!(cause.unwrap().kind(), io::ErrorKind::OutOfMemory);
        }
    }
}
