//! Variables for HTTP servers, proxies and passwords.

use std::ffi::OsString;
use std::path::PathBuf;

/// Variables of git and curl that HTTP clients use.
#[derive(Debug, Clone, Default)]
pub struct HttpVariables {
    /// Whether `GIT_SSL_NO_VERIFY` is set.
    pub no_verify: bool,
    /// `GIT_SSL_CAINFO`.
    pub ca_file: Option<PathBuf>,
    /// `GIT_SSL_CAPATH`.
    pub ca_folder: Option<PathBuf>,
    /// `GIT_SSL_CERT`.
    pub certificate: Option<PathBuf>,
    /// `GIT_SSL_KEY`.
    pub key: Option<PathBuf>,
    /// `GIT_HTTP_USER_AGENT`.
    pub user_agent: Option<String>,
    /// `http_proxy`. Not in capitals: a CGI caller could set `HTTP_PROXY` with a request header.
    pub http_proxy: Option<String>,
    /// `https_proxy`.
    pub https_proxy: Option<String>,
    /// `all_proxy`.
    pub all_proxy: Option<String>,
    /// `no_proxy`.
    pub no_proxy: Option<String>,
    /// `GIT_ASKPASS`.
    pub askpass: Option<PathBuf>,
    /// `SSH_ASKPASS`.
    pub ssh_askpass: Option<PathBuf>,
    /// `GIT_TERMINAL_PROMPT`.
    pub terminal_prompt: Option<String>,
}

impl HttpVariables {
    pub(super) fn from_lookup(get: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let path = |name: &str| get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let text = |name: &str| get(name).map(|value| value.to_string_lossy().into_owned());
        let either = |small: &str, large: &str| text(small).or_else(|| text(large));
        HttpVariables {
            no_verify: get("GIT_SSL_NO_VERIFY").is_some(),
            ca_file: path("GIT_SSL_CAINFO"),
            ca_folder: path("GIT_SSL_CAPATH"),
            certificate: path("GIT_SSL_CERT"),
            key: path("GIT_SSL_KEY"),
            user_agent: text("GIT_HTTP_USER_AGENT"),
            http_proxy: text("http_proxy"),
            https_proxy: either("https_proxy", "HTTPS_PROXY"),
            all_proxy: either("all_proxy", "ALL_PROXY"),
            no_proxy: either("no_proxy", "NO_PROXY"),
            askpass: path("GIT_ASKPASS"),
            ssh_askpass: path("SSH_ASKPASS"),
            terminal_prompt: text("GIT_TERMINAL_PROMPT"),
        }
    }
}
