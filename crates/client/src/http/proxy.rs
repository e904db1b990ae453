//! Proxies: selection and credentials.

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;

use crate::Url;

/// The proxies of `http.proxy` and curl's variables. Plain data; may contain passwords.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyOptions {
    /// For `http://`; empty for none.
    pub http: String,
    /// For `https://`; empty for none.
    pub https: String,
    /// Hosts that need no proxy, separated by commas (`no_proxy`).
    pub exempt_hosts: String,
}

impl std::fmt::Debug for ProxyOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProxyOptions").field("exempt_hosts", &self.exempt_hosts).finish_non_exhaustive()
    }
}

/// A proxy for a request.
#[derive(Debug, Clone)]
pub(super) struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    /// The value of `Proxy-Authorization`.
    pub(super) authorization: Option<HeaderValue>,
}

impl Proxy {
    /// The proxy for a URL, if there is one. Only HTTP proxies are supported.
    pub(super) fn for_url(options: &ProxyOptions, url: &Url) -> Result<Option<Self>, String> {
        // The library supports `*` for host names only.
        if options.exempt_hosts.trim() == "*" {
            return Ok(None);
        }
        let matcher = Matcher::builder()
            .http(options.http.clone())
            .https(options.https.clone())
            .no(options.exempt_hosts.clone())
            .build();
        let target: Uri = url.base().parse().map_err(|_| "URL using bad/illegal format or missing URL")?;
        let Some(found) = matcher.intercept(&target) else { return Ok(None) };
        let uri = found.uri();
        match (uri.scheme_str(), uri.host()) {
            (Some("http"), Some(host)) => Ok(Some(Proxy {
                host: host.trim_matches(['[', ']']).to_owned(),
                // curl's default.
                port: uri.port_u16().unwrap_or(1080),
                authorization: found.basic_auth().cloned(),
            })),
            (scheme, _) => {
                let scheme = scheme.unwrap_or_default();
                Err(format!("Unsupported proxy scheme '{scheme}': only http proxies are supported"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &ProxyOptions, url: &str, expect: Result<Option<(&str, u16)>, &str>) {
        let url = Url::parse(url).unwrap();
        let found = Proxy::for_url(options, &url);
        match (&found, expect) {
            (Ok(found), Ok(expect)) => {
                assert_eq!(found.as_ref().map(|proxy| (proxy.host.as_str(), proxy.port)), expect);
            }
            (Err(error), Err(words)) => assert!(error.contains(words), "{error}"),
            (found, expect) => panic!("{found:?} is not {expect:?}"),
        }
    }

    #[test]
    fn proxies_are_chosen_by_scheme_and_host() {
        let mut options = ProxyOptions {
            http: "http://user:secret@a:3128".to_owned(),
            https: "b".to_owned(),
            exempt_hosts: "inside.example,127.0.0.1".to_owned(),
        };
        check(&options, "http://x/y", Ok(Some(("a", 3128))));
        check(&options, "https://x/y", Ok(Some(("b", 1080))));
        check(&options, "https://inside.example/y", Ok(None));
        check(&options, "https://git.inside.example/y", Ok(None));
        check(&options, "http://127.0.0.1:80/y", Ok(None));
        let proxy = Proxy::for_url(&options, &Url::parse("http://x/y").unwrap()).unwrap().unwrap();
        assert_eq!(proxy.authorization.unwrap(), "Basic dXNlcjpzZWNyZXQ=");
        assert!(!format!("{options:?}").contains("secret"));
        options.exempt_hosts = "*".to_owned();
        check(&options, "http://1.2.3.4/y", Ok(None));
        options.exempt_hosts = String::new();
        options.https = "socks5://b".to_owned();
        check(&options, "https://x/y", Err("Unsupported proxy scheme 'socks5'"));
        check(&ProxyOptions::default(), "https://x/y", Ok(None));
    }
}
