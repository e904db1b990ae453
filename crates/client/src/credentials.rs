use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

use super::{Error, Url};

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicCredentials {
    /// The name; may be empty if the password is a token.
    pub user: String,
    /// The password or token; never in messages.
    pub password: String,
}

impl fmt::Debug for BasicCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl BasicCredentials {
    /// The value of `Authorization` (RFC 7617); never logged.
    pub(super) fn header(&self) -> HeaderValue {
        let encoded = STANDARD.encode(format!("{}:{}", self.user, self.password));
        // Base64 contains only characters that headers allow.
        let mut value =
            HeaderValue::try_from(format!("Basic {encoded}")).unwrap_or(HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }
}

/// A source of user names and passwords.
pub trait CredentialSource {
    /// Credentials for a server that asked for them, or refused the previous ones; `None` if there are no
    /// others. `challenges` are the values of `WWW-Authenticate`.
    fn fill(&mut self, url: &Url, challenges: &[String]) -> Result<Option<BasicCredentials>, Error>;

    /// The server accepted the last credentials.
    fn approve(&mut self);

    /// The server refused the last credentials.
    fn reject(&mut self);
}

/// Has no credentials: servers that require them cannot be used.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCredentials;

impl CredentialSource for NoCredentials {
    fn fill(&mut self, _url: &Url, _challenges: &[String]) -> Result<Option<BasicCredentials>, Error> {
        Ok(None)
    }

    fn approve(&mut self) {}

    fn reject(&mut self) {}
}
