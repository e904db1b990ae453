//! What a file system monitor says, whoever it is.

/// The longest answer that is read: behind one that is longer, all files are looked at.
pub(super) const MAX_ANSWER_BYTES: u64 = 256 << 20;

/// What has changed since a token.
pub(super) struct MonitorAnswer {
    /// The token of now.
    pub(super) token: Vec<u8>,
    /// Ends of paths are NUL.
    pub(super) changed: Vec<u8>,
}
