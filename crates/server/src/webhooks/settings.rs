//! The webhook file, in TOML.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use http::Uri;
use packrace_journal::Action;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use toml::Spanned;

use crate::access::LoadError;
use crate::access::secret_file::read_secret;
use crate::events::RepositoryFilter;
use crate::limits::AddressRange;

/// Most hooks of a server: each has a task, and holds an event and the state of a journal reader.
const MAX_HOOKS: usize = 64;

/// Longest name.
const MAX_NAME_BYTES: usize = 32;

/// Shortest secret: shorter ones can be guessed.
const MIN_SECRET_BYTES: usize = 16;

/// A whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhooksFile {
    #[serde(default, rename = "webhook")]
    webhooks: Vec<Spanned<WebhookEntry>>,
}

/// One `[[webhook]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WebhookEntry {
    name: String,
    url: String,
    secret_file: PathBuf,
    #[serde(default)]
    repositories: Vec<String>,
    events: Option<Vec<Action>>,
    #[serde(default)]
    allow_addresses: Vec<String>,
}

/// The hooks of a server, and the authorities that they trust.
#[derive(Debug, Clone)]
pub struct Webhooks {
    pub(super) hooks: Vec<Arc<Webhook>>,
    /// Trusts the authorities of the system.
    pub(super) tls: Arc<ClientConfig>,
    /// Why there are no authorities.
    no_authorities: Option<String>,
}

/// Where events are posted. Only the name is shown: URLs may contain secrets, too.
#[derive(PartialEq, Eq)]
pub struct Webhook {
    pub(super) name: String,
    pub(super) url: WebhookUrl,
    pub(super) secret_file: PathBuf,
    pub(super) secret: Vec<u8>,
    pub(super) filter: RepositoryFilter,
    /// `None` for all.
    pub(super) actions: Option<Vec<Action>>,
    /// Addresses that it may connect to although they are not public.
    pub(super) allowed: Vec<AddressRange>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A URL of `http://` or `https://`, without a user.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct WebhookUrl {
    pub(super) is_encrypted: bool,
    /// A name, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// The authority for requests: with the port if the URL has one.
    pub(super) authority: String,
    /// Path and query.
    pub(super) target: String,
}

impl FromStr for WebhookUrl {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let url: Uri = text.parse().map_err(drop)?;
        let (is_encrypted, default_port) = match url.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(()),
        };
        let authority = url.authority().ok_or(())?.as_str().to_owned();
        let host = url.host().filter(|host| !host.is_empty()).ok_or(())?;
        // The host would follow a user. `Uri` ignores an invalid port.
        let port = match authority.strip_prefix(host).ok_or(())? {
            "" => default_port,
            port => {
                let digits =
                    port.strip_prefix(':').filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
                digits.and_then(|digits| digits.parse().ok()).filter(|port| *port > 0).ok_or(())?
            }
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        // A name for which no certificate can be valid would fail at every event.
        if is_encrypted {
            ServerName::try_from(host.as_str()).map_err(drop)?;
        }
        let target = url.path_and_query().map_or("/", |target| target.as_str());
        // In a URL, a query may follow the host directly; in a request it may not.
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(WebhookUrl { is_encrypted, host, port, authority, target })
    }
}

impl Webhooks {
    /// Reads the file and the secrets that it names.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let (tls, no_authorities) = client_config().map_err(|why| LoadError::of(path, why))?;
        Webhooks { hooks: Vec::new(), tls, no_authorities }.reload(path)
    }

    /// Reads both again. The authorities are those of the start: in the sandbox, they may be out of reach.
    pub fn reload(&self, path: &Path) -> Result<Self, LoadError> {
        let hooks = read_hooks(path)?;
        match &self.no_authorities {
            Some(why) if hooks.iter().any(|hook| hook.url.is_encrypted) => {
                let why = format!("cannot read the system's CA certificates, needed for https://: {why}");
                Err(LoadError::of(path, why))
            }
            _ => Ok(Webhooks { hooks, ..self.clone() }),
        }
    }

    /// These hooks, without trusted authorities.
    #[cfg(test)]
    pub(super) fn of(hooks: Vec<Webhook>) -> Self {
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions().expect("there are some");
        let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let hooks = hooks.into_iter().map(Arc::new).collect();
        Webhooks { hooks, tls: Arc::new(config), no_authorities: None }
    }

    /// The files with secrets.
    pub fn secret_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.hooks.iter().map(|hook| &hook.secret_file)
    }
}

fn read_hooks(path: &Path) -> Result<Vec<Arc<Webhook>>, LoadError> {
    // Write access to the file lets its holder make the server post anywhere; URLs are often secrets.
    let text = read_secret(path)?;
    let parsed: WebhooksFile = toml::from_str(&text).map_err(|error| {
        LoadError::at_byte(path, &text, error.span().unwrap_or_default().start, error.message())
    })?;
    if parsed.webhooks.len() > MAX_HOOKS {
        return Err(LoadError::of(path, format!("more than {MAX_HOOKS} webhooks")));
    }
    let mut names = HashSet::new();
    let mut hooks = Vec::new();
    for entry in parsed.webhooks {
        let start = entry.span().start;
        let hook = entry.into_inner().into_hook();
        let hook = hook.map_err(|why| LoadError::at_byte(path, &text, start, why))?;
        if !names.insert(hook.name.clone()) {
            let why = format!("duplicate webhook name {}", hook.name);
            return Err(LoadError::at_byte(path, &text, start, why));
        }
        hooks.push(Arc::new(hook));
    }
    Ok(hooks)
}

impl WebhookEntry {
    fn into_hook(self) -> Result<Webhook, String> {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if self.name.is_empty() || self.name.len() > MAX_NAME_BYTES || !self.name.bytes().all(is_name) {
            return Err(format!("a name must have 1 to {MAX_NAME_BYTES} characters of a-z, 0-9 and -"));
        }
        let name = self.name;
        let failed = |what: &str, why: &dyn fmt::Display| format!("{name}: {what}: {why}");
        // The error has no details: they would show the URL.
        let url = self.url.parse();
        let url = url.map_err(|()| failed("url", &"not an http:// or https:// URL without a user"))?;
        if !self.secret_file.is_absolute() {
            return Err(failed("secret-file", &"not an absolute path"));
        }
        let secret = read_secret(&self.secret_file).map_err(|error| failed("secret-file", &error))?;
        let secret = secret.trim_end_matches(['\r', '\n']).as_bytes().to_vec();
        if secret.len() < MIN_SECRET_BYTES {
            let why = format!("secret is shorter than {MIN_SECRET_BYTES} bytes");
            return Err(failed("secret-file", &why));
        }
        let filter = RepositoryFilter::new(&self.repositories).map_err(|why| failed("repositories", &why))?;
        let ranges = self.allow_addresses.iter().map(|range| range.parse());
        let allowed = ranges.collect::<Result<_, String>>().map_err(|why| failed("allow-addresses", &why))?;
        if self.events.as_ref().is_some_and(Vec::is_empty) {
            return Err(failed("events", &"the list is empty"));
        }
        let (secret_file, actions) = (self.secret_file, self.events);
        Ok(Webhook { name, url, secret_file, secret, filter, actions, allowed })
    }
}

/// Trusts the system's authorities. Also returns why there are none.
fn client_config() -> Result<(Arc<ClientConfig>, Option<String>), String> {
    let mut roots = RootCertStore::empty();
    let loaded = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(loaded.certs);
    let why = || loaded.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
    let no_authorities = (added == 0).then(why);
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((Arc::new(config), no_authorities))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const SECRET: &str = "It's a Secret to Everybody";

    /// Loads a file with this text, in which `SECRET` is a valid secret file.
    fn loaded(text: &str, mode: u32) -> Result<Webhooks, String> {
        let dir = packrace_testkit::scratch_dir();
        let write = |name: &str, text: &str, mode: u32| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let secret = write("secret", &format!("{SECRET}\n"), 0o600).display().to_string();
        write("short", "short\n", 0o600);
        write("open", SECRET, 0o644);
        let path = write(
            "hooks.toml",
            &text.replace("SECRET", &secret).replace("DIR", &dir.path().display().to_string()),
            mode,
        );
        let loaded = Webhooks::load(&path).map_err(|error| error.to_string());
        loaded.map_err(|why| why.replace(&format!("{}/", dir.path().display()), ""))
    }

    const HEAD: &str = "[[webhook]]\nname = \"ci\"\nsecret-file = \"SECRET\"\n";

    #[test]
    fn a_file_of_hooks() {
        let text = format!(
            "{HEAD}url = \"http://ci.example/hook?token=t0ken\"\n[[webhook]]\nname = \"chat-2\"\nurl = \"http://[::1]:8080\"\n\
             secret-file = \"SECRET\"\nrepositories = [\"team/**\"]\nevents = [\"push\", \"delete\"]\n\
             allow-addresses = [\"::1\", \"10.0.0.0/8\"]\n"
        );
        let loaded = loaded(&text, 0o600).unwrap();
        let [ci, chat] = loaded.hooks.as_slice() else { panic!("{loaded:?}") };
        assert_eq!((ci.secret.as_slice(), &ci.actions, ci.allowed.len()), (SECRET.as_bytes(), &None, 0));
        assert_eq!((ci.url.authority.as_str(), ci.url.port), ("ci.example", 80));
        assert_eq!(ci.url.target, "/hook?token=t0ken");
        assert_eq!((chat.url.host.as_str(), chat.url.port, chat.url.target.as_str()), ("::1", 8080, "/"));
        assert_eq!(chat.actions, Some(vec![Action::Push, Action::Delete]));
        assert_eq!(chat.allowed.len(), 2);
        // Secrets are in no log.
        let shown = format!("{loaded:?}");
        assert!(
            !shown.contains("Everybody") && !shown.contains("t0ken") && shown.contains("\"ci\""),
            "{shown}"
        );
        let secrets: Vec<_> = loaded.secret_files().map(|path| path.file_name().unwrap()).collect();
        assert_eq!(secrets, ["secret"; 2]);
        assert_eq!(super::tests::loaded("", 0o600).unwrap().hooks.len(), 0);
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let check = |text: &str, mode: u32, expect: &str| {
            let why = loaded(text, mode).unwrap_err();
            assert!(why.starts_with(expect), "{text}: {why}");
        };
        let url = "url = \"http://a.example/\"\n";
        let good = format!("{HEAD}{url}");
        check(&good, 0o644, "hooks.toml: permissions 0644 are too open");
        check("[[webhok]]\n", 0o600, "hooks.toml:1:3: unknown field `webhok`");
        check(HEAD, 0o600, "hooks.toml:1:1: missing field `url`");
        check(&format!("{good}redirects = true\n"), 0o600, "hooks.toml:5:1: unknown field `redirects`");
        check(&format!("{good}events = [\"pull\"]\n"), 0o600, "hooks.toml:5:11: unknown variant `pull`");
        check(&format!("{good}events = []\n"), 0o600, "hooks.toml:1:1: ci: events: the list is empty");
        check(
            &format!("{good}repositories = [\"/a\"]\n"),
            0o600,
            "hooks.toml:1:1: ci: repositories: '/a' starts with a slash",
        );
        check(
            &format!("{good}allow-addresses = [\"10.0.0.0/33\"]\n"),
            0o600,
            "hooks.toml:1:1: ci: allow-addresses: '10.0.0.0/33'",
        );
        check(&format!("{good}{good}"), 0o600, "hooks.toml:5:1: duplicate webhook name ci");
        check(
            &good.replace("ci", "../ci"),
            0o600,
            "hooks.toml:1:1: a name must have 1 to 32 characters of a-z, 0-9 and -",
        );
        check(
            &good.replace("SECRET", "secret"),
            0o600,
            "hooks.toml:1:1: ci: secret-file: not an absolute path",
        );
        check(
            &good.replace("SECRET", "DIR/none"),
            0o600,
            "hooks.toml:1:1: ci: secret-file: none: No such file",
        );
        check(
            &good.replace("SECRET", "DIR/open"),
            0o600,
            "hooks.toml:1:1: ci: secret-file: open: permissions 0644",
        );
        check(
            &good.replace("SECRET", "DIR/short"),
            0o600,
            "hooks.toml:1:1: ci: secret-file: secret is shorter",
        );
        let bad = loaded(&good.replace("http://a", "ftp://t0ken"), 0o600).unwrap_err();
        assert_eq!(bad, "hooks.toml:1:1: ci: url: not an http:// or https:// URL without a user");
        let many: String = (0..=MAX_HOOKS).map(|number| good.replace("ci", &format!("h{number}"))).collect();
        check(&many, 0o600, "hooks.toml: more than 64 webhooks");
    }

    #[test]
    fn nobody_is_trusted_without_authorities() {
        let none = Webhooks { no_authorities: Some("gone".to_owned()), ..Webhooks::of(Vec::new()) };
        let dir = packrace_testkit::scratch_dir();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        let secret = write("secret", SECRET).display().to_string();
        let reload = |url: &str| {
            let head = HEAD.replace("SECRET", &secret);
            none.reload(&write("hooks.toml", &format!("{head}url = \"{url}\"\n")))
        };
        assert_eq!(reload("http://a.example/").unwrap().hooks.len(), 1);
        let why = reload("https://a.example/").unwrap_err().to_string();
        assert!(
            why.ends_with("hooks.toml: cannot read the system's CA certificates, needed for https://: gone"),
            "{why}"
        );
    }

    #[test]
    fn urls() {
        for bad in [
            "",
            "a/b",
            "ftp://a/",
            "http://",
            "http://u:p@a/",
            "http://u@a/",
            "http://a b/",
            "http:///a",
            "http://a:0/",
            "http://a:/",
            "http://a:65536/",
            "http://a:+80/",
            "https://a..b/",
        ] {
            assert!(bad.parse::<WebhookUrl>().is_err(), "{bad}");
        }
        let url = |text: &str| text.parse::<WebhookUrl>().ok().unwrap();
        assert_eq!((url("https://a").port, url("https://a").is_encrypted), (443, true));
        for (text, target) in [("http://a", "/"), ("http://a?b=c", "/?b=c"), ("http://a/b?c#d", "/b?c")] {
            assert_eq!(url(text).target, target);
        }
        assert_eq!((url("http://a:81/x").authority.as_str(), url("http://a:81/x").port), ("a:81", 81));
    }
}
