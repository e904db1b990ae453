//! Which HTTP requests are accepted, by the site and the host name that a browser reports.
//!
//! A page of any site can make a browser send requests here, and the owner of a host name can point it to the
//! address of this server (DNS rebinding), so that a browser takes this server for that site. The headers of
//! browsers are enough to refuse both; git and other programs do not send them.

use std::net::{IpAddr, SocketAddr};

use http::uri::Authority;
use http::{HeaderValue, Request, StatusCode, Version, header};

use crate::service::access_log::quoted;
use crate::settings::Hosts;

/// Checks the requested host name, and the site that a browser reports. `local` is the server's end of the
/// connection. Returns the status of a refusal, and the reason for the log.
pub(crate) fn check<B>(
    request: &Request<B>,
    hosts: &Hosts,
    local: Option<SocketAddr>,
) -> Result<(), (StatusCode, String)> {
    let headers = request.headers();
    let bad = |why: &str| (StatusCode::BAD_REQUEST, why.to_owned());
    let mut named = headers.get_all(header::HOST).iter();
    let (first, second) = (named.next(), named.next());
    if second.is_some() {
        return Err(bad("more than one Host header"));
    }
    let host = first.map(authority).transpose().map_err(|()| bad("malformed Host header"))?;
    // HTTP/2 has it as :authority; a proxy's request in the target. It takes precedence over Host (RFC 9112,
    // 3.2.2).
    let asked = request.uri().authority().cloned();
    if host.is_none() && (asked.is_none() && request.version() >= Version::HTTP_11) {
        return Err(bad("no Host header"));
    }
    let is_loopback = local.is_some_and(|local| local.ip().to_canonical().is_loopback());
    for authority in asked.iter().chain(&host) {
        if !is_taken(authority.host(), hosts, is_loopback) {
            let why = format!("Host {} is not one of listen.hosts", quoted(authority.as_str().as_bytes()));
            return Err((StatusCode::FORBIDDEN, why));
        }
    }
    let cross_site = |name: &str, value: &HeaderValue| {
        (StatusCode::FORBIDDEN, format!("cross-site request: {name}: {}", quoted(value.as_bytes())))
    };
    for value in headers.get_all("sec-fetch-site") {
        if !matches!(value.as_bytes(), b"same-origin" | b"none") {
            return Err(cross_site("Sec-Fetch-Site", value));
        }
    }
    let own = asked.or(host);
    for value in headers.get_all(header::ORIGIN) {
        let origin = value.to_str().ok().and_then(|value| value.split_once("://"));
        let is_own = origin.is_some_and(|(scheme, origin)| {
            own.as_ref().is_some_and(|own| is_same(own.as_str(), origin, scheme))
        });
        if !is_own {
            return Err(cross_site("Origin", value));
        }
    }
    Ok(())
}

fn authority(value: &HeaderValue) -> Result<Authority, ()> {
    let authority = Authority::try_from(value.as_bytes()).map_err(drop)?;
    if authority.as_str().contains('@') { Err(()) } else { Ok(authority) }
}

/// Whether two authorities are equal; the port of the scheme may be left out.
fn is_same(own: &str, other: &str, scheme: &str) -> bool {
    let default = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return false,
    };
    let short = |text: &str| text.strip_suffix(default).unwrap_or(text).to_ascii_lowercase();
    short(own) == short(other)
}

fn is_taken(host: &str, hosts: &Hosts, is_loopback: bool) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let names_loopback = || match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    };
    match hosts {
        Hosts::Any => true,
        Hosts::Auto => !is_loopback || names_loopback(),
        Hosts::Named(names) => {
            names.iter().any(|name| name.eq_ignore_ascii_case(&host)) || is_loopback && names_loopback()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_request(lines: &[(&str, &str)], hosts: &Hosts, local: &str, expect: u16) {
        let request =
            lines.iter().fold(Request::get("/a"), |request, (name, value)| request.header(*name, *value));
        let got = check(&request.body(()).unwrap(), hosts, Some(local.parse().unwrap()));
        let status = got.as_ref().err().map_or(200, |(status, _)| status.as_u16());
        assert_eq!(status, expect, "{lines:?} {hosts:?} {local}: {got:?}");
    }

    #[test]
    fn names_and_addresses() {
        let named = Hosts::Named(vec!["Git.example.com".into(), "10.0.0.5".into()]);
        for (host, over_loopback, over_network, by_name) in [
            ("localhost", 200, 200, 403),
            ("LOCALHOST:8417", 200, 200, 403),
            ("localhost.", 200, 200, 403),
            ("a.localhost:1", 200, 200, 403),
            ("127.0.0.1:8417", 200, 200, 403),
            ("127.1.2.3", 200, 200, 403),
            ("[::1]:8417", 200, 200, 403),
            ("[::ffff:127.0.0.1]", 200, 200, 403),
            ("evil.example", 403, 200, 403),
            ("localhost.evil.example", 403, 200, 403),
            ("127.0.0.1.evil.example:80", 403, 200, 403),
            ("10.0.0.5:8417", 403, 200, 200),
            ("git.example.com", 403, 200, 200),
            ("git.example.com.", 403, 200, 200),
            ("x@localhost", 400, 400, 400),
            ("", 400, 400, 400),
            ("a b", 400, 400, 400),
        ] {
            check_request(&[("host", host)], &Hosts::Auto, "127.0.0.1:80", over_loopback);
            check_request(&[("host", host)], &Hosts::Auto, "[::1]:80", over_loopback);
            check_request(&[("host", host)], &Hosts::Auto, "10.0.0.5:80", over_network);
            check_request(&[("host", host)], &named, "10.0.0.5:80", by_name);
            check_request(&[("host", host)], &Hosts::Any, "127.0.0.1:80", over_network);
        }
        check_request(&[("host", "localhost")], &named, "127.0.0.1:80", 200);
        check_request(&[], &Hosts::Any, "127.0.0.1:80", 400);
        check_request(&[("host", "localhost"), ("host", "localhost")], &Hosts::Any, "127.0.0.1:80", 400);
    }

    #[test]
    fn sites() {
        let host = ("host", "localhost:8417");
        for (name, value, expect) in [
            ("sec-fetch-site", "cross-site", 403),
            ("sec-fetch-site", "same-site", 403),
            ("sec-fetch-site", "", 403),
            ("sec-fetch-site", "same-origin", 200),
            ("sec-fetch-site", "none", 200),
            ("origin", "null", 403),
            ("origin", "http://evil.example", 403),
            ("origin", "http://localhost", 403),
            ("origin", "http://localhost:8417", 200),
            ("origin", "https://LOCALHOST:8417", 200),
            ("origin", "file://localhost:8417", 403),
        ] {
            check_request(&[host, (name, value)], &Hosts::Auto, "127.0.0.1:80", expect);
        }
        let both = [("origin", "https://a.example:443"), ("host", "a.example")];
        check_request(&both, &Hosts::Any, "127.0.0.1:80", 200);
        let twice = [host, ("origin", "http://localhost:8417"), ("origin", "http://evil.example")];
        check_request(&twice, &Hosts::Auto, "127.0.0.1:80", 403);
    }
}
