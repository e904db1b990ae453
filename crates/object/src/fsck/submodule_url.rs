//! Whether a submodule's URL is safe for the programs that fetch from it: it must not be taken for an option,
//! and must not add lines to the protocol of a credential helper or a server.

use std::borrow::Cow;

/// Schemes that curl fetches.
const CURL_SCHEMES: [&[u8]; 4] = [b"http", b"https", b"ftp", b"ftps"];

/// Whether git accepts the URL from a fetched `.gitmodules`.
pub(super) fn is_safe(url: &[u8]) -> bool {
    if url.first() == Some(&b'-') {
        return false;
    }
    if is_relative(url) {
        return !has_newline(url) && !leads_to_scheme(url);
    }
    if url.starts_with(b"git://") {
        return !has_newline(url);
    }
    match curl_url(url) {
        Some(url) => is_well_formed(url),
        None => true,
    }
}

fn is_relative(url: &[u8]) -> bool {
    let rest = url.strip_prefix(b".").map(|rest| rest.strip_prefix(b".").unwrap_or(rest));
    rest.is_some_and(|rest| matches!(rest.first(), Some(b'/' | b'\\')))
}

/// Whether enough `../` remove all of the parent's URL but its scheme, so that the rest of the URL continues
/// there (`http:` and `:…`).
fn leads_to_scheme(mut url: &[u8]) -> bool {
    let mut has_climbed = false;
    loop {
        url = match url {
            [b'.', b'.', b'/' | b'\\', rest @ ..] => {
                has_climbed = true;
                rest
            }
            [b'.', b'/' | b'\\', rest @ ..] => rest,
            _ => return has_climbed && matches!(url.first(), Some(b':' | b'/')),
        };
    }
}

/// The URL that curl gets: all of `http://…`, or the part after `http::`.
fn curl_url(url: &[u8]) -> Option<&[u8]> {
    CURL_SCHEMES.iter().find_map(|scheme| {
        let rest = url.strip_prefix(*scheme)?;
        match rest.strip_prefix(b"::") {
            Some(inner) => Some(inner),
            None => rest.starts_with(b"://").then_some(url),
        }
    })
}

/// Whether there is a newline after decoding escapes. As in git, anything before a colon is a scheme, which
/// has no escapes, in any part of a URL.
fn has_newline(part: &[u8]) -> bool {
    let colon = memchr::memchr(b':', part).unwrap_or(0);
    part[..colon].contains(&b'\n') || decoded(&part[colon..]).contains(&b'\n')
}

/// Decodes escapes (`%0a`), except invalid ones.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'%') {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let escaped = (*byte == b'%').then(|| escaped_byte(after)).flatten();
        rest = if escaped.is_some() { &after[2..] } else { after };
        out.push(escaped.unwrap_or(*byte));
    }
    Cow::Owned(out)
}

fn escaped_byte(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    Some((digit(0)? << 4 | digit(1)?) as u8)
}

/// Whether every `%` begins an escape, and there is no newline.
fn is_text(text: &[u8]) -> bool {
    has_whole_escapes(text) && !decoded(text).contains(&b'\n')
}

fn has_whole_escapes(text: &[u8]) -> bool {
    memchr::memchr_iter(b'%', text).all(|at| escaped_byte(&text[at + 1..]).is_some())
}

/// Whether the URL is `<scheme>://[<user>[:<password>]@]<host>[:<port>][<path>][?<query>][#<fragment>]` with
/// the characters allowed in each part (RFC 3986), no newline, and a path that stays below its root.
fn is_well_formed(url: &[u8]) -> bool {
    let is_scheme_byte = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let scheme_end = url.iter().position(|byte| !is_scheme_byte(byte)).unwrap_or(url.len());
    let (scheme, rest) = url.split_at(scheme_end);
    let Some(rest) = rest.strip_prefix(b"://") else { return false };
    if !scheme.first().is_some_and(u8::is_ascii_alphabetic) {
        return false;
    }
    let authority_end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let (user, host) = match memchr::memchr(b'@', authority) {
        Some(at) => (&authority[..at], &authority[at + 1..]),
        None => (&b""[..], authority),
    };
    is_text(user) && is_host(host, scheme) && is_path(path)
}

fn is_host(host: &[u8], scheme: &[u8]) -> bool {
    // A colon in brackets is part of an IPv6 address.
    let colon = host.iter().rposition(|byte| matches!(byte, b':' | b']')).filter(|at| host[*at] == b':');
    let (name, port) = match colon {
        Some(colon) => (&host[..colon], &host[colon + 1..]),
        None => (host, &b""[..]),
    };
    let is_host_byte =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'[' | b']' | b':');
    let is_missing = match scheme.eq_ignore_ascii_case(b"file") {
        true => host.first() == Some(&b':') && !port.is_empty(),
        false => matches!(host.first(), None | Some(b':')),
    };
    !is_missing && name.iter().all(is_host_byte) && is_port(port)
}

fn is_port(port: &[u8]) -> bool {
    let zeros = port.iter().take_while(|byte| **byte == b'0').count();
    let digits = &port[zeros..];
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u16>().ok());
    port.is_empty() || digits.iter().all(u8::is_ascii_digit) && number.is_some()
}

/// Whether this is a path, a query and a fragment; newlines in segments that `..` removes don't count.
fn is_path(path: &[u8]) -> bool {
    let end = path.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(path.len());
    let (path, query) = path.split_at(end);
    if !has_whole_escapes(path) || !is_text(query) {
        return false;
    }
    // For each remaining segment, whether it is free of newlines.
    let mut are_good = Vec::new();
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        match &*decoded(segment) {
            b"." => {}
            b".." => match are_good.pop() {
                Some(_) => {}
                None => return false,
            },
            text => are_good.push(!text.contains(&b'\n')),
        }
    }
    are_good.into_iter().all(|is_good| is_good)
}
