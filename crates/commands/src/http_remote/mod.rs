//! HTTP servers: settings from git's configuration and the environment, and sources of passwords.

mod credentials;
mod netrc;
mod url_match;

use std::path::PathBuf;

use packrace_client::{
    CredentialSource, HttpMessages, HttpOptions, HttpPart, Timeouts, Url, without_password,
};
use packrace_store::{Config, parse_boolean};

use self::credentials::GitCredentials;
use self::url_match::matching;
use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::call::printable::harmless;
use crate::trace2::http::HttpTrace;

/// Unsupported settings that must not be ignored silently.
const NOT_THERE: [&str; 6] = [
    "pinnedpubkey",
    "curloptresolve",
    "sslversion",
    "sslcipherlist",
    "cookiefile",
    "sslcertpasswordprotected",
];

/// Leaves the server of a URL to git if a setting must count that packrace does not have.
pub(crate) fn leave_unsupported(config: &Config, url: &Url) -> Result<(), Fatal> {
    let keys = matching(config, "http", url).into_iter().map(|(key, _)| key);
    match keys.into_iter().find(|key| NOT_THERE.contains(&key.as_str())) {
        Some(key) => {
            let message = format!("http.{key} is not supported; nothing is fetched without it");
            Err(Fatal::new(message).unless_git())
        }
        None => Ok(()),
    }
}

/// Options for the server of a URL (git-config, `http.*`). The named remote may have its own proxy.
pub(crate) fn options(
    call: &Call,
    config: &Config,
    url: &Url,
    remote: &str,
    timeouts: Timeouts,
) -> Result<HttpOptions, Fatal> {
    let variables = &call.environment.http;
    let mut options = HttpOptions::new(&call.environment.agent(), timeouts);
    let mut proxy = None;
    for (key, value) in matching(config, "http", url) {
        let text = || value.as_deref().map(|value| String::from_utf8_lossy(value).into_owned());
        let path = || value.as_deref().filter(|value| !value.is_empty()).map(|value| config.expand(value));
        match key.as_str() {
            "sslverify" => options.tls.verify = boolean("http.sslVerify", value.as_deref())?,
            "sslcainfo" => options.tls.ca_file = path(),
            "sslcapath" => options.tls.ca_folder = path(),
            "sslcert" => options.tls.certificate = path(),
            "sslkey" => options.tls.key = path(),
            "useragent" => options.agent = text().unwrap_or_default(),
            "proxy" => proxy = Some(text().unwrap_or_default()),
            "extraheader" => match text().filter(|text| !text.is_empty()) {
                Some(header) => options.headers.push(header),
                None => options.headers.clear(),
            },
            "followredirects" => {
                let initial = text().is_some_and(|text| text.eq_ignore_ascii_case("initial"));
                options.follows_redirects = initial || boolean("http.followRedirects", value.as_deref())?;
            }
            "proactiveauth" => options.is_proactive = proactive(text())?,
            _ => {}
        }
    }
    let of_variable = |variable: &Option<PathBuf>, setting: &mut Option<PathBuf>| {
        if variable.is_some() {
            setting.clone_from(variable);
        }
    };
    options.tls.verify &= !variables.no_verify;
    of_variable(&variables.ca_file, &mut options.tls.ca_file);
    of_variable(&variables.ca_folder, &mut options.tls.ca_folder);
    of_variable(&variables.certificate, &mut options.tls.certificate);
    of_variable(&variables.key, &mut options.tls.key);
    if let Some(agent) = &variables.user_agent {
        options.agent.clone_from(agent);
    }
    let of_remote = config.string(&format!("remote.{remote}.proxy"));
    let proxy = of_remote.map(|proxy| String::from_utf8_lossy(&proxy).into_owned()).or(proxy);
    let general = variables.all_proxy.clone().unwrap_or_default();
    let of_scheme = |variable: &Option<String>| {
        proxy.clone().or_else(|| variable.clone()).unwrap_or_else(|| general.clone())
    };
    options.proxy.http = of_scheme(&variables.http_proxy);
    options.proxy.https = of_scheme(&variables.https_proxy);
    options.proxy.exempt_hosts = variables.no_proxy.clone().unwrap_or_default();
    Ok(options)
}

/// The source of passwords.
pub(crate) fn credentials<'a>(call: &'a Call, config: &'a Config) -> impl CredentialSource + 'a {
    GitCredentials::new(config, &call.environment)
}

/// Checks whether URLs may contain passwords (git-config, `transfer.credentialsInUrl`).
pub(crate) fn check_credentials_in_url(call: &Call, config: &Config, url: &str) -> Result<(), Fatal> {
    let Some(shown) = without_password(url) else { return Ok(()) };
    let words = format!("URL '{shown}' uses plaintext credentials");
    match config.string("transfer.credentialsInUrl").as_deref() {
        Some(b"warn") => error_line!(call, "warning: {}", harmless(&words)),
        Some(b"die") => return Err(Fatal::new(words)),
        None | Some(b"allow") => {}
        Some(other) => {
            let value = String::from_utf8_lossy(other);
            return Err(Fatal::new(format!("unrecognized value transfer.credentialsInUrl: '{value}'")));
        }
    }
    Ok(())
}

fn boolean(name: &str, value: Option<&[u8]>) -> Result<bool, Fatal> {
    let Some(value) = value else { return Ok(true) };
    parse_boolean(value).ok_or_else(|| {
        let (value, name) = (String::from_utf8_lossy(value), name.to_ascii_lowercase());
        Fatal::new(format!("bad boolean config value '{value}' for '{name}'"))
    })
}

fn proactive(text: Option<String>) -> Result<bool, Fatal> {
    match text.as_deref() {
        Some("none") | None => Ok(false),
        Some("basic" | "auto") => Ok(true),
        Some(other) => Err(Fatal::new(format!("invalid http.proactiveAuth '{other}'"))),
    }
}

/// Writes messages of HTTP requests to the error output.
pub(crate) struct Messages<'a> {
    pub(crate) call: &'a Call,
    pub(crate) is_verbose: bool,
    pub(crate) is_quiet: bool,
    pub(crate) trace: Option<HttpTrace>,
}

impl HttpMessages for Messages<'_> {
    fn verbose(&mut self, text: &str) {
        if self.is_verbose {
            let _ = self.call.streams.errors.say(harmless(text).as_bytes());
        }
    }

    fn warning(&mut self, text: &str) {
        if !self.is_quiet {
            error_line!(self.call, "warning: {}", harmless(text));
        }
    }

    fn remote(&mut self, line: &str) {
        error_line!(self.call, "remote: {}", harmless(line));
    }

    fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    fn exchanged(&mut self, part: HttpPart<'_>) {
        self.trace.iter_mut().for_each(|trace| trace.part(part));
    }
}
