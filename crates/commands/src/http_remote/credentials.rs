//! User names and passwords (gitcredentials): from the URL, `~/.netrc`, helpers, askpass, or the terminal.

use std::path::PathBuf;

use gix_credentials::Program;
use gix_credentials::helper::{Action, Cascade, NextAction};
use gix_credentials::protocol::{Context, ContextOptions};
use gix_prompt::{Mode, Options};
use packrace_client::{BasicCredentials, CredentialSource, Error, Url};
use packrace_store::{Config, parse_boolean};

use super::netrc;
use super::url_match::matching;
use crate::call::environment::Environment;

/// Larger files are not read as `.netrc`.
const MAX_NETRC_BYTES: u64 = 1 << 20;

/// The last source that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tried {
    Nothing,
    Netrc,
    All,
}

/// Finds credentials as git does. Credentials from helpers are approved or rejected with them.
pub(super) struct GitCredentials<'a> {
    config: &'a Config,
    netrc: Option<PathBuf>,
    askpass: Option<PathBuf>,
    is_terminal_allowed: bool,
    /// The last server: what was tried for one server does not count for another.
    server: String,
    tried: Tried,
    /// The helpers of the last credentials, and the data to send them.
    last: Option<(NextAction, Cascade)>,
}

impl<'a> GitCredentials<'a> {
    pub(super) fn new(config: &'a Config, environment: &Environment) -> Self {
        let variables = &environment.http;
        let askpass = variables.askpass.clone().or_else(|| config.path("core.askPass"));
        let is_false = |text: &str| parse_boolean(text.as_bytes()) == Some(false);
        GitCredentials {
            netrc: environment.home().map(|home| home.join(".netrc")),
            askpass: askpass.or_else(|| variables.ssh_askpass.clone()),
            is_terminal_allowed: !variables.terminal_prompt.as_deref().is_some_and(is_false),
            config,
            server: String::new(),
            tried: Tried::Nothing,
            last: None,
        }
    }

    fn of_netrc(&self, url: &Url) -> Option<BasicCredentials> {
        let path = self.netrc.as_ref()?;
        if std::fs::metadata(path).ok()?.len() > MAX_NETRC_BYTES {
            return None;
        }
        netrc::find(&std::fs::read_to_string(path).ok()?, &url.host, url.user.as_deref())
    }

    /// The request to helpers for a server, and the configured helpers.
    fn helpers(&self, url: &Url) -> Result<(Context, Cascade), Error> {
        let mut cascade = Cascade::default();
        let mut user = url.user.clone();
        let mut options = ContextOptions::default();
        for (key, value) in matching(self.config, "credential", url) {
            let is_true = value.as_deref().is_none_or(|value| parse_boolean(value) == Some(true));
            let text = value.map(|value| String::from_utf8_lossy(&value).into_owned());
            match (key.as_str(), text) {
                ("helper", None) => {
                    return Err(Error::Url("missing value for 'credential.helper'".to_owned()));
                }
                ("helper", Some(text)) if text.is_empty() => cascade.programs.clear(),
                ("helper", Some(text)) => {
                    let program = Program::from_custom_definition(text.into_bytes())
                        .map_err(|error| Error::Url(format!("bad credential.helper: {error}")))?;
                    cascade.programs.push(program);
                }
                ("usehttppath", _) => cascade.use_http_path = is_true,
                ("protectprotocol", _) => options.protect_protocol = is_true,
                ("username", Some(name)) if url.user.is_none() => user = Some(name),
                _ => {}
            }
        }
        cascade.context_options = options;
        let context = Context {
            options,
            protocol: Some(url.scheme.as_str().to_owned()),
            host: Some(url.authority.clone()),
            path: cascade.use_http_path.then(|| url.path.trim_matches('/').into()),
            username: user,
            ..Context::default()
        };
        Ok((context, cascade))
    }

    /// The credentials in the URL: helpers are told about them too.
    fn of_url(&mut self, url: &Url) -> Result<Option<BasicCredentials>, Error> {
        let Some(found) = url.credentials() else { return Ok(None) };
        let (mut context, cascade) = self.helpers(url)?;
        context.username = Some(found.user.clone());
        context.password = Some(found.password.clone());
        self.last = Some((context.into(), cascade));
        self.tried = Tried::All;
        Ok(Some(found))
    }

    fn of_helpers(&mut self, url: &Url, challenges: &[String]) -> Result<Option<BasicCredentials>, Error> {
        let (mut context, mut cascade) = self.helpers(url)?;
        context.www_authenticate = challenges.iter().map(|text| text.as_str().into()).collect();
        let can_ask = self.askpass.is_some() || self.is_terminal_allowed;
        let mode = if can_ask { Mode::Visible } else { Mode::Disable };
        let options = Options { askpass: self.askpass.clone(), mode };
        let what = if context.username.is_some() { "Password" } else { "Username" };
        let question = context.to_prompt(what);
        let outcome = cascade.invoke(Action::Get(context), options).map_err(|error| {
            let words = if error.is_cancelled() {
                "credential helper told us to quit".to_owned()
            } else if can_ask {
                unanswered(&error.to_string())
            } else {
                format!("could not read {}: terminal prompts disabled", quoted(&question))
            };
            Error::Url(words)
        })?;
        let Some(outcome) = outcome else { return Ok(None) };
        self.last = Some((outcome.next, cascade));
        let (user, password) = (outcome.identity.username, outcome.identity.password);
        Ok(Some(BasicCredentials { user, password }))
    }

    /// Reports the result of the last credentials to all helpers. Their errors are ignored.
    fn tell(&mut self, action: impl FnOnce(NextAction) -> Action) {
        if let Some((next, mut cascade)) = self.last.take() {
            let _ = cascade.invoke(action(next), Options { askpass: None, mode: Mode::Disable });
        }
    }
}

impl CredentialSource for GitCredentials<'_> {
    fn fill(&mut self, url: &Url, challenges: &[String]) -> Result<Option<BasicCredentials>, Error> {
        let server = format!("{}://{}", url.scheme.as_str(), url.authority);
        if self.server != server {
            self.server = server;
            self.tried = Tried::Nothing;
            self.last = None;
        }
        if self.tried == Tried::Nothing {
            if let Some(found) = self.of_url(url)? {
                return Ok(Some(found));
            }
            self.tried = Tried::Netrc;
            if let Some(found) = self.of_netrc(url) {
                return Ok(Some(found));
            }
        }
        match std::mem::replace(&mut self.tried, Tried::All) {
            Tried::All => Ok(None),
            _ => self.of_helpers(url, challenges),
        }
    }

    fn approve(&mut self) {
        self.tell(NextAction::store);
    }

    fn reject(&mut self) {
        self.tell(NextAction::erase);
    }
}

/// `Username for https://host: ` with git's quotes.
fn quoted(question: &str) -> String {
    match question.trim_end_matches(": ").split_once(" for ") {
        Some((what, url)) => format!("{what} for '{url}'"),
        None => question.to_owned(),
    }
}

/// Git's message for a prompt without an answer.
fn unanswered(text: &str) -> String {
    match text.strip_prefix("Couldn't obtain ") {
        Some(question) => {
            let question = question.split(": ").next().unwrap_or(question);
            format!("could not read {}: No such device or address", quoted(question))
        }
        None => text.to_owned(),
    }
}
