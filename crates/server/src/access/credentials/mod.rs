//! Names and passwords of users, and tokens, in HTTP headers.

mod basic;
mod htpasswd;
mod tokens;
mod verified;

use http::{HeaderMap, HeaderValue, header};

pub(super) use htpasswd::PasswordFile;
pub use htpasswd::hash_password;
pub(super) use tokens::{TokenFile, is_token};
pub use tokens::{check_tokens, new_token};
pub(super) use verified::VerifiedSecrets;

/// The longest `Authorization` header.
const MAX_HEADER_BYTES: usize = 8 << 10;

/// The credentials of a client, unverified.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credentials {
    /// A name and a password; the password can be a token.
    Basic {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// A token.
    Bearer(String),
}

/// Without secrets.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Credentials::Basic { user, .. } => {
                f.debug_struct("Basic").field("user", user).finish_non_exhaustive()
            }
            Credentials::Bearer(_) => f.write_str("Bearer"),
        }
    }
}

impl Credentials {
    /// Whether this is a token of ours.
    pub(super) fn is_token(&self) -> bool {
        match self {
            Credentials::Basic { password, .. } => is_token(password),
            Credentials::Bearer(token) => is_token(token),
        }
    }

    /// The credentials of a request; `None` if it has none.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, &'static str> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => Credentials::parse(value).map(Some),
            (Some(_), Some(_)) => Err("more than one Authorization header"),
        }
    }

    fn parse(value: &HeaderValue) -> Result<Self, &'static str> {
        let value = value.as_bytes();
        if value.len() > MAX_HEADER_BYTES {
            return Err("Authorization header is too long");
        }
        let space = value.iter().position(|byte| *byte == b' ').ok_or("malformed Authorization header")?;
        let (scheme, rest) = (&value[..space], value[space + 1..].trim_ascii());
        if scheme.eq_ignore_ascii_case(b"basic") {
            let (user, password) = basic::decode(rest).ok_or("malformed Basic credentials")?;
            return Ok(Credentials::Basic { user, password });
        }
        if scheme.eq_ignore_ascii_case(b"bearer") {
            let token = std::str::from_utf8(rest).ok().filter(|token| !token.is_empty());
            return Ok(Credentials::Bearer(token.ok_or("malformed bearer token")?.to_owned()));
        }
        Err("authentication scheme is neither Basic nor Bearer")
    }
}
