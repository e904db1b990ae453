use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

use super::{Error, Url};

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicCredentials {
    /// The name; may be empty where a token is the password.
    pub user: String,
    /// The password or token. It is in no message.
    pub password: String,
}

impl fmt::Debug for BasicCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl BasicCredentials {
    /// The value of `Authorization` (RFC 7617). Never part of what is logged.
    pub(super) fn header(&self) -> HeaderValue {
        let encoded = STANDARD.encode(format!("{}:{}", self.user, self.password));
        // Base64 has no character that a header may not have.
        let mut value =
            HeaderValue::try_from(format!("Basic {encoded}")).unwrap_or(HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }
}

/// Knows user names and passwords.
pub trait CredentialSource {
    /// Credentials for a server that has asked for them, or has refused those before; `None` where there are no others.
    /// `challenges` are the values of `WWW-Authenticate`.
    fn fill(&mut self, url: &Url, challenges: &[String]) -> Result<Option<BasicCredentials>, Error>;

    /// The server has accepted the last ones.
    fn approve(&mut self);

    /// The server has refused the last ones.
    fn reject(&mut self);
}

/// Knows none: servers that ask for credentials cannot be used.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCredentials;

impl CredentialSource for NoCredentials {
    fn fill(&mut self, _url: &Url, _challenges: &[String]) -> Result<Option<BasicCredentials>, Error> {
        Ok(None)
    }

    fn approve(&mut self) {}

    fn reject(&mut self) {}
}
