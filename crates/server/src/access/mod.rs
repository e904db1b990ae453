//! Access: who makes a request, and what they may do.
//!
//! A listener describes a request as an [`Offer`]; an [`AccessPolicy`] identifies its [`Principal`] and
//! decides whether that may do what it [asks](Ask). It decides before a repository is opened, again with the
//! path that was opened, and for each ref of a push before any hook runs.
//!
//! | decision | HTTP | git:// | SSH |
//! |---|---|---|---|
//! | `Allow` | the answer | the answer | the answer |
//! | `Authenticate` | 401 with `WWW-Authenticate: Basic` | `ERR access denied or repository not exported` | as `Hide`: sshd knows the user |
//! | `Hide` | 404, as for a repository that does not exist | the same | `… does not appear to be a git repository` |
//! | `Forbid` | 403, with the reason | the same | the reason |

mod audit;
mod credentials;
mod file_policy;
mod forward_auth;
pub(crate) mod fuzzed;
mod gitolite;
mod proxies;
mod repository;
mod rules;
pub(crate) mod secret_file;
mod throttle;

use std::fmt::{Debug, Display, Formatter};
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;

use crate::metrics::Metrics;
pub use audit::AuditLog;
pub(crate) use audit::{AuditedChange, AuditedRef};
pub use credentials::{Credentials, check_tokens, hash_password, new_token};
pub use file_policy::{AccessFiles, Explanation, FilePolicy};
pub use forward_auth::ForwardAuthUrl;
pub use gitolite::{ConvertedRules, convert_gitolite_file};
pub use proxies::{ForwardedHeader, TrustedProxies};
pub(crate) use repository::Denied;
pub use repository::RepositoryAccess;
pub use rules::Operation;
pub(crate) use rules::Pattern;
pub use secret_file::LoadError;

/// Identifies principals and decides what they may do. Called from many threads; a call may take as long as
/// the verification of a password.
pub trait AccessPolicy: Debug + Send + Sync {
    /// Identifies the principal of a request.
    fn identify(&self, offer: &Offer<'_>) -> Result<Principal, NotIdentified>;

    /// Whether a principal may do something with the repository at `path`, relative to the served folder,
    /// without slashes at its ends.
    fn decide(&self, principal: &Principal, path: &[u8], ask: Ask<'_>) -> Decision;

    /// Whether a client with only this evidence must authenticate first. Answered at once, from memory: the
    /// request has no thread yet. If not, `identify` and `decide` are called.
    fn is_challenged(&self, _offer: &Offer<'_>, _path: &[u8], _ask: Ask<'_>) -> bool {
        false
    }

    /// Whether there are rules: then they decide who may push, and not `push.allowed` of the server.
    fn has_rules(&self) -> bool {
        true
    }
}

/// The policy of a server without access rules: every client may use what the server and its repositories
/// offer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Anyone;

impl AccessPolicy for Anyone {
    fn identify(&self, _offer: &Offer<'_>) -> Result<Principal, NotIdentified> {
        Ok(Principal::anonymous())
    }

    fn decide(&self, _principal: &Principal, _path: &[u8], _ask: Ask<'_>) -> Decision {
        Decision::Allow
    }

    fn has_rules(&self) -> bool {
        false
    }
}

/// A client's evidence of its identity.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// The other end of the connection.
    pub peer: IpAddr,
    /// The headers of an HTTP request; `None` over git://.
    pub headers: Option<&'a HeaderMap>,
    /// The common name of a verified client certificate.
    pub certificate: Option<&'a str>,
    /// Counts evidence that is ignored.
    pub metrics: &'a Metrics,
}

impl Offer<'_> {
    /// The credentials in the `Authorization` header; `None` if there are none. Fails if they are malformed.
    pub fn credentials(&self) -> Result<Option<Credentials>, NotIdentified> {
        let found = self.headers.map(Credentials::of).transpose();
        found.map(Option::flatten).map_err(|why| NotIdentified::Refused(why.to_owned()))
    }
}

/// The maker of a request: a user, or anyone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    name: Option<Arc<str>>,
    /// Groups that came with the request. The rules add their own.
    groups: Arc<[String]>,
    scope: CredentialScope,
}

impl Principal {
    /// A client without a name.
    pub fn anonymous() -> Self {
        Principal { name: None, groups: Arc::default(), scope: CredentialScope::default() }
    }

    /// The user of this name.
    pub fn named(name: &str) -> Self {
        Principal { name: Some(name.into()), ..Principal::anonymous() }
    }

    /// The same, with groups that came with the request.
    pub(crate) fn in_groups(self, groups: Vec<String>) -> Self {
        Principal { groups: groups.into(), ..self }
    }

    /// The same, limited to what a token allows.
    pub(crate) fn within(self, scope: CredentialScope) -> Self {
        Principal { scope, ..self }
    }

    /// The name; `None` for anonymous clients.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// The limits of credentials, whatever their user may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CredentialScope {
    /// Changes are not allowed.
    pub(crate) is_read_only: bool,
    /// Only these repositories; `None` for all.
    pub(crate) repositories: Option<Arc<[rules::Pattern]>>,
}

/// Why the principal of a request is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotIdentified {
    /// The credentials are wrong, unknown, expired or malformed; the text is for the log.
    Refused(String),
    /// This address has sent too many wrong credentials.
    TooManyFailures,
    /// Credentials cannot be verified now.
    Unavailable(String),
}

/// For the log.
impl Display for NotIdentified {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            NotIdentified::Refused(why) => write!(f, "not identified: {why}"),
            NotIdentified::TooManyFailures => f.write_str("too many wrong passwords"),
            NotIdentified::Unavailable(why) => write!(f, "cannot identify: {why}"),
        }
    }
}

/// What a principal asks to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask<'a> {
    /// To clone, fetch or list refs.
    Read,
    /// To push something. Each ref change is asked for separately.
    Push,
    /// To create the repository.
    Create,
    /// To delete or rename the repository.
    Delete,
    /// To see the pages and metrics of the server.
    Look,
    /// To change a ref.
    Ref(RefChange<'a>),
}

/// A change of a ref that a push asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefChange<'a> {
    /// The full name.
    pub name: &'a [u8],
    /// How it changes.
    pub kind: ChangeKind,
}

/// How a ref changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is created.
    Create,
    /// Its new value is a descendant of the old one.
    FastForward,
    /// Any other new value.
    Force,
    /// It is deleted.
    Delete,
}

impl ChangeKind {
    /// For messages.
    pub fn verb(self) -> &'static str {
        match self {
            ChangeKind::Create => "create",
            ChangeKind::FastForward => "update",
            ChangeKind::Force => "force",
            ChangeKind::Delete => "delete",
        }
    }
}

/// The decision of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The request continues.
    Allow,
    /// Credentials are necessary, or other ones.
    Authenticate,
    /// The same as if there was no such repository.
    Hide,
    /// No, for this reason, which the client gets.
    Forbid(String),
}
