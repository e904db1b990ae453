use std::fmt;

use percent_encoding::percent_decode_str;

use super::{BasicCredentials, Error};

/// The protocol of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http://`
    Http,
    /// `https://`
    Https,
    /// `git://`
    Git,
}

/// The URL of a repository.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// The protocol.
    pub scheme: Scheme,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Host and port as written: sent to the server.
    pub authority: String,
    /// The user in an HTTP URL; this crate's errors omit it.
    pub user: Option<String>,
    /// The password in an HTTP URL.
    pub(super) password: Option<String>,
    /// The rest, from the slash on.
    pub path: String,
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({})", self.base())
    }
}

impl Scheme {
    /// The scheme as in URLs.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Git => "git",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
            Scheme::Git => 9418,
        }
    }
}

impl Url {
    /// The request target for a path below the repository.
    pub(super) fn target(&self, below: &str) -> String {
        format!("{}{below}", self.path.trim_end_matches('/'))
    }

    /// Parses a URL. Other schemes are refused, and so are users in git:// URLs.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| Err(Error::Url(format!("unable to access '{}': {why}", without_user(text))));
        let scheme = match text.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => Scheme::Http,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => Scheme::Https,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("git") => Scheme::Git,
            Some((scheme, _)) => {
                return bad(&format!("'{scheme}' is not supported; use http, https or git"));
            }
            None => return bad("not an http://, https:// or git:// URL"),
        };
        let rest = text.split_once("://").map_or("", |(_, rest)| rest);
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // Control characters would change the request, and spaces one of HTTP.
        let is_plain = !text.contains(|byte: char| byte.is_ascii_control()) && !authority.contains(' ');
        if !is_plain || scheme != Scheme::Git && path.contains([' ', '#']) {
            return bad("URL using bad/illegal format or missing URL");
        }
        let (user_info, authority) = match authority.rsplit_once('@') {
            Some(_) if scheme == Scheme::Git => return bad("users in git:// URLs are not supported"),
            Some((user_info, authority)) => (Some(user_info), authority),
            None => (None, authority),
        };
        let (user, password) = match user_info.map(|info| info.split_once(':').unwrap_or((info, ""))) {
            Some((user, password)) => {
                let has_password = user_info.is_some_and(|info| info.contains(':'));
                (Some(unescaped(user)), has_password.then(|| unescaped(password)))
            }
            None => (None, None),
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, port)) => (host, port.strip_prefix(':').or(port.is_empty().then_some(""))),
                None => (rest, None),
            },
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, Some("")),
            },
        };
        let port = match port {
            Some("") => Some(scheme.default_port()),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
            _ => None,
        };
        let (Some(port), false) = (port, host.is_empty()) else {
            return bad("URL using bad/illegal format or missing URL");
        };
        let path = if path.is_empty() { "/" } else { path };
        Ok(Url {
            scheme,
            host: host.to_owned(),
            port,
            authority: authority.to_owned(),
            path: path.to_owned(),
            user,
            password,
        })
    }

    /// The credentials in the URL, if it has user and password.
    pub fn credentials(&self) -> Option<BasicCredentials> {
        let (user, password) = (self.user.clone()?, self.password.clone()?);
        Some(BasicCredentials { user, password })
    }

    /// Whether two URLs have the same server.
    pub(super) fn is_same_server(&self, other: &Url) -> bool {
        (self.scheme, self.port) == (other.scheme, other.port) && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// The path for a git:// server: unescaped, and `~user` without a leading slash.
    pub(super) fn decoded_path(&self) -> Result<Vec<u8>, Error> {
        let path = if self.path.starts_with("/~") { &self.path[1..] } else { &self.path };
        let decoded: Vec<u8> = percent_decode_str(path).collect();
        if decoded.iter().any(|byte| matches!(byte, 0 | b'\n')) {
            return Err(Error::Url("newline is forbidden in git:// hosts and repo paths".to_owned()));
        }
        Ok(decoded)
    }

    /// The URL without users, and without slashes at its end.
    pub fn base(&self) -> String {
        format!("{}://{}{}", self.scheme.as_str(), self.authority, self.path.trim_end_matches('/'))
    }
}

fn unescaped(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// A URL as it may be shown: user names and passwords must not reach terminals and logs. Those of HTTP end in a
/// slash, as in git.
fn without_user(url: &str) -> String {
    let is = |scheme: &str| url.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    let is_http = is("http://") || is("https://");
    let (scheme, rest) = match split_user_info(url) {
        Some((scheme, _, rest)) if is_http => (scheme, rest),
        Some((scheme, _, rest)) => return format!("{scheme}<redacted>@{rest}"),
        None => ("", url),
    };
    let slash = if is_http && !rest.ends_with('/') { "/" } else { "" };
    format!("{scheme}{rest}{slash}")
}

/// A URL for messages to a user who knows the name; `None` if it has no password.
pub fn without_password(url: &str) -> Option<String> {
    let (scheme, user_info, rest) = split_user_info(url)?;
    let (user, _) = user_info.split_once(':')?;
    Some(format!("{scheme}{user}:<redacted>@{rest}"))
}

/// The parts before, of and after the user information, without the @.
fn split_user_info(url: &str) -> Option<(&str, &str, &str)> {
    let start = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(start);
    let at = rest[..rest.find('/').unwrap_or(rest.len())].rfind('@')?;
    Some((scheme, &rest[..at], &rest[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<(Scheme, &str, u16, &str)>) {
        let url = Url::parse(text).ok();
        let got = url.as_ref().map(|url| (url.scheme, url.host.as_str(), url.port, url.path.as_str()));
        assert_eq!(got, expect, "{text}");
    }

    #[test]
    fn urls() {
        check("http://a/b.git", Some((Scheme::Http, "a", 80, "/b.git")));
        check("HTTP://a:8080/b/c", Some((Scheme::Http, "a", 8080, "/b/c")));
        check("git://a/b", Some((Scheme::Git, "a", 9418, "/b")));
        check("git://[::1]:1/b", Some((Scheme::Git, "::1", 1, "/b")));
        check("git://[::1]/b", Some((Scheme::Git, "::1", 9418, "/b")));
        check("git://a/b c#d", Some((Scheme::Git, "a", 9418, "/b c#d")));
        check("git://a:/b", Some((Scheme::Git, "a", 9418, "/b")));
        check("http://a", Some((Scheme::Http, "a", 80, "/")));
        check("https://a/b", Some((Scheme::Https, "a", 443, "/b")));
        check("http://u:p@a/b", Some((Scheme::Http, "a", 80, "/b")));
        let bad =
            ["", "a", "/a/b", "a:b", "ssh://a/b", "file:///a", "http:///b", "http://a:x/b", "https://u@/b"];
        bad.into_iter().for_each(|text| check(text, None));
        for text in ["http://a:99999/b", "http://a:+1/b", "git://u@a/b", "git://u:p@a/b", "http://[::1/b"] {
            check(text, None);
        }
        for text in [
            "http://a/b\r\nX: y",
            "http://a/b c",
            "http://a\0/b",
            "git://a/b\nc",
            "http://a/b#c",
            "git://a b/c",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn users() {
        let url = Url::parse("https://a%40b:p%3aq@c:1/d").unwrap();
        let expect = BasicCredentials { user: "a@b".to_owned(), password: "p:q".to_owned() };
        assert_eq!((url.credentials(), url.authority.as_str()), (Some(expect), "c:1"));
        assert_eq!(
            (url.base().as_str(), format!("{url:?}").as_str()),
            ("https://c:1/d", "Url(https://c:1/d)")
        );
        let url = Url::parse("https://a@c/d").unwrap();
        assert_eq!((url.user.as_deref(), url.credentials()), (Some("a"), None));
    }

    #[test]
    fn passwords_are_not_shown() {
        for url in [
            "git://u:secret@a/b",
            "ssh://secret@a/b",
            "http://u:se@cret@a:x/b",
            "http://u:secret@a/#",
            "u:secret@a",
        ] {
            let message = Url::parse(url).unwrap_err().to_string();
            let shown = if url.starts_with("http:") { "'http://a" } else { "<redacted>@a" };
            assert!(!message.contains("cret") && message.contains(shown), "{url}: {message}");
        }
        let message = Url::parse("http://u:p@a:x/b").unwrap_err().to_string();
        assert!(message.starts_with("unable to access 'http://a:x/b/': "), "{message}");
    }

    #[test]
    fn paths_of_git() {
        let path = |text: &str| Url::parse(text).unwrap().decoded_path().ok();
        assert_eq!(path("git://a/b%20c%2").as_deref(), Some(&b"/b c%2"[..]));
        assert_eq!(path("git://a/~u/b").as_deref(), Some(&b"~u/b"[..]));
        assert_eq!(path("git://a/b%0ac"), None);
        assert_eq!(path("git://a/b%00c"), None);
    }
}
