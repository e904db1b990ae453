//! The policy that files describe: rules, users with passwords, tokens, and proxies that identify clients.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::HeaderMap;
use jiff::Timestamp;

use super::credentials::{Credentials, PasswordFile, TokenFile, VerifiedSecrets, is_token};
use super::forward_auth::{ForwardAuth, ForwardAuthUrl};
use super::proxies::{ForwardedHeader, HeaderUser, TrustedProxies};
use super::rules::{AccessRules, Operation, Verdict};
use super::secret_file::LoadError;
use super::throttle::{FailureLimit, VerifyLimit};
use super::{AccessPolicy, Ask, Decision, NotIdentified, Offer, Principal, RefChange};
use crate::limits::AddressRange;

/// The files and settings of a policy. Plain data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessFiles {
    /// Who may do what (TOML). Without it there is no policy.
    pub rules: Option<PathBuf>,
    /// Users and hashes of their passwords (`htpasswd -B`).
    pub users: Option<PathBuf>,
    /// Hashes of tokens (TOML).
    pub tokens: Option<PathBuf>,
    /// Proxies whose headers are trusted.
    pub trusted_proxies: Vec<AddressRange>,
    /// Their header with the name of the user; empty for none.
    pub user_header: String,
    /// Their header with the user's groups; empty for none.
    pub groups_header: String,
    /// Their header with the client's address.
    pub forwarded_header: ForwardedHeader,
    /// The server that verifies credentials.
    pub forward_auth: Option<ForwardAuthUrl>,
    /// Whether the common name of a client certificate is the name of a user.
    pub client_certificates: bool,
    /// Where pushes are recorded.
    pub audit_log: Option<PathBuf>,
}

/// The policy that files describe.
#[derive(Debug)]
pub struct FilePolicy {
    rules: AccessRules,
    passwords: Option<PasswordFile>,
    tokens: Option<TokenFile>,
    proxies: TrustedProxies,
    forward: Option<ForwardAuth>,
    takes_certificates: bool,
    verified: VerifiedSecrets<()>,
    verifying: VerifyLimit,
    failures: FailureLimit,
}

/// Why something is allowed or not, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Whether it is allowed.
    pub is_allowed: bool,
    /// The file and line that decides.
    pub text: String,
}

impl AccessFiles {
    /// The trusted proxies, with or without rules.
    pub fn proxies(&self) -> Result<TrustedProxies, LoadError> {
        let needs = |key: &str, other: &str| Err(LoadError::of(Path::new(key), format!("needs {other}")));
        let is_for_proxies = self.forward_auth.is_none();
        if is_for_proxies && !self.user_header.is_empty() && self.trusted_proxies.is_empty() {
            return needs("access.user-header", "access.trusted-proxies: otherwise any client could set it");
        }
        if is_for_proxies && !self.groups_header.is_empty() && self.user_header.is_empty() {
            return needs("access.groups-header", "access.user-header");
        }
        let given = |text: &'_ String| (!text.is_empty()).then(|| text.clone());
        let (user_header, groups_header) = (given(&self.user_header), given(&self.groups_header));
        let ranges = self.trusted_proxies.clone();
        TrustedProxies::new(ranges, user_header.as_deref(), groups_header.as_deref(), self.forwarded_header)
    }

    fn forward_auth(&self) -> Result<Option<ForwardAuth>, LoadError> {
        let key = Path::new("access.forward-auth");
        match (&self.forward_auth, &self.users) {
            (None, _) => Ok(None),
            (_, Some(_)) => {
                Err(LoadError::of(key, "cannot be combined with access.users: remove one of them"))
            }
            (Some(url), None) => ForwardAuth::new(url, &self.user_header, &self.groups_header)
                .map(Some)
                .map_err(|error| LoadError::of(key, error)),
        }
    }
}

/// How long a verified password is remembered.
const PASSWORDS_REMEMBERED_FOR: Duration = Duration::from_secs(60);

impl FilePolicy {
    /// Reads all files. `None` if there are no rules and nothing that needs them.
    pub fn load(files: &AccessFiles) -> Result<Option<Self>, LoadError> {
        let header = |name: &'static str, value: &str| (!value.is_empty()).then_some(name);
        let Some(rules) = &files.rules else {
            let without = [
                files.users.is_some().then_some("access.users"),
                files.tokens.is_some().then_some("access.tokens"),
                files.forward_auth.is_some().then_some("access.forward-auth"),
                header("access.user-header", &files.user_header),
                files.client_certificates.then_some("access.client-certificates"),
            ];
            return match without.into_iter().flatten().next() {
                None => Ok(None),
                Some(key) => Err(LoadError::of(Path::new(key), "needs access.rules")),
            };
        };
        let forward = files.forward_auth()?;
        let failed = |error| LoadError::of(Path::new("random numbers"), error);
        Ok(Some(FilePolicy {
            rules: AccessRules::load(rules)?,
            passwords: files.users.as_deref().map(PasswordFile::load).transpose()?,
            tokens: files.tokens.as_deref().map(TokenFile::load).transpose()?,
            proxies: files.proxies()?,
            forward,
            takes_certificates: files.client_certificates,
            verified: VerifiedSecrets::new(PASSWORDS_REMEMBERED_FOR).map_err(failed)?,
            // Each verification occupies a processor.
            verifying: VerifyLimit::new(packrace_os::process::available_threads() / 2),
            failures: FailureLimit::default(),
        }))
    }

    /// Whether a user (`None`: an anonymous client) may do something, and why.
    pub fn explain(
        &self,
        user: Option<&str>,
        path: &str,
        operation: Operation,
        name: Option<&str>,
    ) -> Explanation {
        let principal = user.map_or_else(Principal::anonymous, Principal::named);
        let verdict = self.rules.first(&principal, path.as_bytes(), operation, name.map(str::as_bytes));
        let word = if verdict.is_allowed { "allowed" } else { "denied" };
        let rules = self.rules.path().display();
        let text = match verdict.line {
            Some(line) => format!("{word} by the rule at {rules}:{line}"),
            None => format!("{word}: no rule of {rules} matches"),
        };
        Explanation { is_allowed: verdict.is_allowed, text }
    }

    fn verify(&self, user: &str, password: &str, address: IpAddr) -> Result<Principal, NotIdentified> {
        let now = Instant::now();
        let passwords =
            self.passwords.as_ref().ok_or_else(|| refused("passwords are not accepted (access.users)"))?;
        if self.verified.find(user, password, now).is_some() {
            return Ok(Principal::named(user));
        }
        if self.failures.is_reached(address, now) {
            return Err(NotIdentified::TooManyFailures);
        }
        match self.verifying.run(|| passwords.verify(user, password)) {
            Some(true) => {
                self.verified.remember(user, password, (), now);
                Ok(Principal::named(user))
            }
            Some(false) => {
                self.failures.add(address, now);
                Err(refused(&format!("unknown user {user:?} or wrong password")))
            }
            None => Err(NotIdentified::Unavailable("too many passwords are being verified".to_owned())),
        }
    }

    /// Queries another server, unless this address has sent too many wrong credentials.
    fn ask(
        &self,
        other: &ForwardAuth,
        headers: &HeaderMap,
        address: IpAddr,
    ) -> Result<Principal, NotIdentified> {
        if let Some(principal) = other.remembered(headers, address) {
            return Ok(principal);
        }
        let now = Instant::now();
        if self.failures.is_reached(address, now) {
            return Err(NotIdentified::TooManyFailures);
        }
        let asked = other.ask(headers, address);
        if matches!(asked, Err(NotIdentified::Refused(_))) {
            self.failures.add(address, now);
        }
        asked
    }

    fn token(&self, secret: &str) -> Result<Principal, NotIdentified> {
        let tokens =
            self.tokens.as_ref().ok_or_else(|| refused("tokens are not accepted (access.tokens)"))?;
        tokens.find(secret, Timestamp::now()).map_err(NotIdentified::Refused)
    }

    /// Whether a client can identify itself at all.
    fn can_identify(&self) -> bool {
        self.passwords.is_some()
            || self.tokens.is_some()
            || self.forward.is_some()
            || self.proxies.names_users()
            || self.takes_certificates
    }

    fn denied(&self, principal: &Principal, path: &[u8], ask: Ask<'_>) -> Decision {
        let may_read = ask != Ask::Read && self.rules.decide(principal, path, Ask::Read).is_allowed;
        match principal.name() {
            None if self.can_identify() => Decision::Authenticate,
            _ if !may_read => Decision::Hide,
            name => Decision::Forbid(match ask {
                Ask::Ref(RefChange { name: changed, kind }) => format!(
                    "{} may not {} {}",
                    name.unwrap_or("anyone"),
                    kind.verb(),
                    String::from_utf8_lossy(changed)
                ),
                Ask::Delete => {
                    format!("{} may not delete or rename this repository", name.unwrap_or("anyone"))
                }
                _ => format!("{} may not push here", name.unwrap_or("anyone")),
            }),
        }
    }
}

fn refused(why: &str) -> NotIdentified {
    NotIdentified::Refused(why.to_owned())
}

impl AccessPolicy for FilePolicy {
    fn identify(&self, offer: &Offer<'_>) -> Result<Principal, NotIdentified> {
        let Some(headers) = offer.headers else { return Ok(Principal::anonymous()) };
        match self.proxies.user(offer.peer, headers) {
            HeaderUser::Known(principal) => return Ok(principal),
            HeaderUser::Malformed => return Err(refused("proxy sent a malformed user header")),
            HeaderUser::Ignored => drop(offer.metrics.ignored_user_headers.inc()),
            HeaderUser::NotGiven => {}
        }
        let address = self.proxies.client_address(offer.peer, headers);
        let credentials = Credentials::of(headers);
        if let Some(other) = &self.forward
            && ForwardAuth::is_shown(headers)
            && !matches!(&credentials, Ok(Some(credentials)) if credentials.is_token())
        {
            return self.ask(other, headers, address);
        }
        match credentials.map_err(refused)? {
            None => {
                let name = offer.certificate.filter(|_| self.takes_certificates);
                Ok(name.map_or_else(Principal::anonymous, Principal::named))
            }
            Some(Credentials::Bearer(token)) => self.token(&token),
            Some(Credentials::Basic { password, .. }) if is_token(&password) => self.token(&password),
            Some(Credentials::Basic { user, password }) => self.verify(&user, &password, address),
        }
    }

    fn is_challenged(&self, offer: &Offer<'_>, path: &[u8], ask: Ask<'_>) -> bool {
        let Some(headers) = offer.headers else { return false };
        let has_certificate = self.takes_certificates && offer.certificate.is_some();
        !has_certificate
            && matches!(self.proxies.user(offer.peer, headers), HeaderUser::NotGiven)
            && !ForwardAuth::is_shown(headers)
            && self.decide(&Principal::anonymous(), path, ask) == Decision::Authenticate
    }

    fn decide(&self, principal: &Principal, path: &[u8], ask: Ask<'_>) -> Decision {
        let scope = &principal.scope;
        if scope.repositories.as_ref().is_some_and(|all| !all.iter().any(|one| one.matches_repository(path)))
        {
            return Decision::Hide;
        }
        if scope.is_read_only && ask != Ask::Read {
            return match self.rules.decide(principal, path, Ask::Read).is_allowed {
                true => Decision::Forbid("this token may only read".to_owned()),
                false => Decision::Hide,
            };
        }
        match self.rules.decide(principal, path, ask) {
            Verdict { is_allowed: true, .. } => Decision::Allow,
            Verdict { is_allowed: false, .. } => self.denied(principal, path, ask),
        }
    }
}
