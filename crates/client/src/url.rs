use super::Error;

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http://`
    Http,
    /// `git://`
    Git,
}

/// Where a repository is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Host and port as they are written: what the server is told.
    pub authority: String,
    /// What follows, from the slash on.
    pub path: String,
}

impl Url {
    /// What a request for something below the repository names.
    pub(super) fn target(&self, below: &str) -> String {
        format!("{}{below}", self.path.trim_end_matches('/'))
    }

    /// Reads a URL. Only these schemes are known; there are no users in them.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| Err(Error::Url(format!("unable to access '{}': {why}", without_user(text))));
        let scheme = match text.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => Scheme::Http,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("git") => Scheme::Git,
            Some((scheme, _)) => return bad(&format!("'{scheme}' is not supported, http and git are")),
            None => return bad("it is no URL of http:// or git://"),
        };
        let rest = text.split_once("://").map_or("", |(_, rest)| rest);
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // What ends a line or a word would change the request that is made of it.
        if text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') || path.contains('#') {
            return bad("URL using bad/illegal format or missing URL");
        }
        if authority.contains('@') {
            return bad("users in URLs are not supported");
        }
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
        let default = if scheme == Scheme::Http { 80 } else { 9418 };
        let port = match port {
            Some("") => Some(default),
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
        })
    }

    /// The path as a git:// server is told it: without its escapes, and `~user` without a slash before it.
    pub(super) fn decoded_path(&self) -> Result<Vec<u8>, Error> {
        let path = if self.path.starts_with("/~") { &self.path[1..] } else { &self.path };
        let mut decoded = Vec::with_capacity(path.len());
        let mut rest = path.as_bytes();
        while let Some((byte, after)) = rest.split_first() {
            let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            let escaped = digits.filter(|_| *byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
            decoded.push(escaped.unwrap_or(*byte));
            rest = if escaped.is_some() { &after[2..] } else { after };
        }
        if decoded.iter().any(|byte| matches!(byte, 0 | b'\n')) {
            return Err(Error::Url("newline is forbidden in git:// hosts and repo paths".to_owned()));
        }
        Ok(decoded)
    }

    /// The URL of an HTTP server, without what stands behind the repository's name.
    pub(super) fn base(&self) -> String {
        format!("http://{}{}", self.authority, self.path.trim_end_matches('/'))
    }
}

/// A URL as it may be shown: user names and passwords must not reach terminals and logs.
fn without_user(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    match url[start..end].rfind('@') {
        Some(at) => format!("{}<redacted>{}", &url[..start], &url[start + at..]),
        None => url.to_owned(),
    }
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
        check("git://a:/b", Some((Scheme::Git, "a", 9418, "/b")));
        check("http://a", Some((Scheme::Http, "a", 80, "/")));
        let bad =
            ["", "a", "/a/b", "a:b", "ssh://a/b", "https://a/b", "file:///a", "http:///b", "http://a:x/b"];
        bad.into_iter().for_each(|text| check(text, None));
        for text in ["http://a:99999/b", "http://a:+1/b", "http://u@a/b", "http://u:p@a/b", "http://[::1/b"] {
            check(text, None);
        }
        for text in ["http://a/b\r\nX: y", "http://a/b c", "http://a\0/b", "git://a/b\nc", "http://a/b#c"] {
            check(text, None);
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for url in [
            "http://u:secret@a/b",
            "ssh://secret@a/b",
            "http://u:se@cret@a/b",
            "http://u:secret@a",
            "u:secret@a",
        ] {
            let message = Url::parse(url).unwrap_err().to_string();
            assert!(!message.contains("cret") && message.contains("<redacted>@a"), "{url}: {message}");
        }
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
