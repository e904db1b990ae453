//! URL-specific settings (git-config, `http.<url>.*`): the best match counts.

use std::collections::HashMap;

use packrace_client::{Scheme, Url};
use packrace_store::Config;

/// How well a pattern matches: length of the literal host, then of the path, then whether it names the user.
type Fit = (usize, usize, bool);

/// Lower-case keys and values of a section that apply to a URL, in reading order. A value that matches worse
/// than an earlier one of the same key is left out.
pub(super) fn matching(config: &Config, section: &str, url: &Url) -> Vec<(String, Option<Vec<u8>>)> {
    let mut best: HashMap<String, Fit> = HashMap::new();
    let mut found = Vec::new();
    for (name, value) in config.section(section) {
        let rest = &name[section.len() + 1..];
        let (pattern, key) = match rest.iter().rposition(|byte| *byte == b'.') {
            Some(dot) => (Some(&rest[..dot]), &rest[dot + 1..]),
            None => (None, rest),
        };
        let fit = match pattern.map(str::from_utf8) {
            None => Some((0, 0, false)),
            Some(Ok(pattern)) => fit(pattern, url),
            Some(Err(_)) => None,
        };
        let Some(fit) = fit else { continue };
        let key = String::from_utf8_lossy(key).to_ascii_lowercase();
        let before = best.entry(key.clone()).or_insert(fit);
        if *before <= fit {
            *before = fit;
            found.push((key, value.map(<[u8]>::to_vec)));
        }
    }
    found
}

/// How well a pattern matches a URL, or `None`. A pattern without a scheme matches all schemes.
fn fit(pattern: &str, url: &Url) -> Option<Fit> {
    let (scheme, rest) = match pattern.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, pattern),
    };
    if scheme.is_some_and(|scheme| !scheme.eq_ignore_ascii_case(url.scheme.as_str())) {
        return None;
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, host_and_port) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user.split(':').next().unwrap_or_default()), host),
        None => (None, authority),
    };
    if user.is_some() && user != url.user.as_deref() {
        return None;
    }
    let host = host_fit(host_and_port, url)?;
    let path = path.trim_end_matches('/');
    let below = url.path.strip_prefix(path)?;
    if !below.is_empty() && !below.starts_with('/') {
        return None;
    }
    Some((host, path.len(), user.is_some()))
}

/// The length of a host pattern without its wildcards, if it matches the URL's host.
fn host_fit(host_and_port: &str, url: &Url) -> Option<usize> {
    let (host, port) = match host_and_port.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').unwrap_or_default()),
        None => host_and_port.split_once(':').unwrap_or((host_and_port, "")),
    };
    let default = if url.scheme == Scheme::Https { 443 } else { 80 };
    let port = if port.is_empty() { default } else { port.parse().ok()? };
    if port != url.port {
        return None;
    }
    let (mut labels, mut of_url) = (host.split('.'), url.host.split('.'));
    let mut length = 0;
    loop {
        match (labels.next(), of_url.next()) {
            (None, None) => return Some(length + 1),
            (Some("*"), Some(_)) => {}
            (Some(label), Some(part)) if label.eq_ignore_ascii_case(part) => length += label.len() + 1,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, url: &str, expect: Option<Fit>) {
        assert_eq!(fit(pattern, &Url::parse(url).unwrap()), expect, "{pattern} for {url}");
    }

    #[test]
    fn patterns() {
        let url = "https://alice@git.example.com/a/b.git";
        check("https://git.example.com", url, Some((17, 0, false)));
        check("https://git.example.com/", url, Some((17, 0, false)));
        check("https://GIT.example.com:443/a", url, Some((17, 2, false)));
        check("https://git.example.com/a/b.git/", url, Some((17, 8, false)));
        check("https://*.example.com/a", url, Some((13, 2, false)));
        check("https://alice@git.example.com", url, Some((17, 0, true)));
        check("git.example.com", url, Some((17, 0, false)));
        for pattern in [
            "http://git.example.com",
            "https://git.example.com:8443",
            "https://example.com",
            "https://*.com",
            "https://bob@git.example.com",
            "https://git.example.com/a/b",
            "https://git.example.com/a/b.git/c",
            "https://git.example.com:x",
            "",
        ] {
            check(pattern, url, None);
        }
        check("http://[::1]:8080/a", "http://[::1]:8080/a/b", Some((5, 2, false)));
    }
}
