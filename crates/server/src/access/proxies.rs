//! Proxies in front of the server, and what only they may report: the user and the address of a client.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use http::{HeaderMap, HeaderName};

use super::Principal;
use super::secret_file::LoadError;
use crate::limits::AddressRange;

/// The longest chain of proxies that is followed.
const MAX_HOPS: usize = 16;

/// The most groups that are read from headers.
const MAX_GROUPS: usize = 256;

/// The header with the client's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For: client, proxy`.
    #[default]
    XForwardedFor,
    /// `Forwarded: for=client, for=proxy` (RFC 7239).
    Forwarded,
    /// None: all clients of a proxy share its address.
    None,
}

/// The proxies whose headers are trusted.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies {
    ranges: Vec<AddressRange>,
    user_header: Option<HeaderName>,
    groups_header: Option<HeaderName>,
    forwarded: ForwardedHeader,
}

/// The user in the header of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeaderUser {
    Known(Principal),
    /// The header is present, but the peer is no trusted proxy.
    Ignored,
    /// The header is repeated, or not text.
    Malformed,
    NotGiven,
}

impl TrustedProxies {
    pub(super) fn new(
        ranges: Vec<AddressRange>,
        user_header: Option<&str>,
        groups_header: Option<&str>,
        forwarded: ForwardedHeader,
    ) -> Result<Self, LoadError> {
        let name = |key: &str, text: Option<&str>| {
            let parse = |text: &str| {
                text.parse().map_err(|_| {
                    LoadError::of(Path::new(key), format!("{text:?} is not a valid header name"))
                })
            };
            text.map(parse).transpose()
        };
        Ok(TrustedProxies {
            ranges,
            user_header: name("access.user-header", user_header)?,
            groups_header: name("access.groups-header", groups_header)?,
            forwarded,
        })
    }

    pub(super) fn trusts(&self, peer: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(peer))
    }

    /// Whether a proxy can name the user.
    pub(super) fn names_users(&self) -> bool {
        self.user_header.is_some() && !self.ranges.is_empty()
    }

    pub(super) fn user(&self, peer: IpAddr, headers: &HeaderMap) -> HeaderUser {
        let Some(header) = &self.user_header else { return HeaderUser::NotGiven };
        match user(headers, header, self.groups_header.as_ref()) {
            HeaderUser::NotGiven => HeaderUser::NotGiven,
            _ if !self.trusts(peer) => HeaderUser::Ignored,
            given => given,
        }
    }

    /// The last address of the chain that is not a trusted proxy. An address that cannot be parsed ends the
    /// chain.
    pub(crate) fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let name = match self.forwarded {
            ForwardedHeader::XForwardedFor => "x-forwarded-for",
            ForwardedHeader::Forwarded => "forwarded",
            ForwardedHeader::None => return peer,
        };
        if !self.trusts(peer) {
            return peer;
        }
        let values: Vec<&str> =
            headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("")).collect();
        let hops = values.iter().rev().flat_map(|value| value.rsplit(','));
        let mut client = peer;
        for hop in hops.take(MAX_HOPS) {
            let address = match self.forwarded {
                ForwardedHeader::Forwarded => forwarded_for(hop),
                _ => address(hop.trim()),
            };
            let Some(address) = address else { break };
            client = address;
            if !self.trusts(client) {
                break;
            }
        }
        client
    }
}

/// The user in one header, with the groups in another one; the sender is trusted.
pub(super) fn user(
    headers: &HeaderMap,
    user_header: &HeaderName,
    groups_header: Option<&HeaderName>,
) -> HeaderUser {
    let mut values = headers.get_all(user_header).iter();
    let (value, more) = (values.next(), values.next());
    let Some(value) = value.filter(|value| !value.is_empty()) else { return HeaderUser::NotGiven };
    let name = std::str::from_utf8(value.as_bytes()).ok().map(str::trim);
    match name.filter(|name| more.is_none() && !name.is_empty() && !name.chars().any(char::is_control)) {
        Some(name) => {
            let groups = groups_header.map_or_else(Vec::new, |header| groups(headers, header));
            HeaderUser::Known(Principal::named(name).in_groups(groups))
        }
        None => HeaderUser::Malformed,
    }
}

/// The comma-separated names of groups in headers of this name.
fn groups(headers: &HeaderMap, header: &HeaderName) -> Vec<String> {
    let values = headers.get_all(header).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(str::trim).filter(|name| !name.is_empty());
    names.take(MAX_GROUPS).map(str::to_owned).collect()
}

/// The address of one element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let value = element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then_some(value.trim())
    })?;
    address(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value))
}

/// An address, with or without port and brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    bare.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair =
            |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), value.parse().unwrap());
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    fn proxies(forwarded: ForwardedHeader) -> TrustedProxies {
        let ranges = vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        TrustedProxies::new(ranges, Some("Remote-User"), Some("Remote-Groups"), forwarded).unwrap()
    }

    #[test]
    fn addresses_behind_proxies() {
        let check = |forwarded, peer: &str, pairs: &[(&'static str, &str)], expect: &str| {
            let client = proxies(forwarded).client_address(peer.parse().unwrap(), &headers(pairs));
            assert_eq!(client.to_string(), expect, "{peer} {pairs:?}");
        };
        use ForwardedHeader::{Forwarded, None, XForwardedFor};
        let name = "x-forwarded-for";
        check(XForwardedFor, "10.1.1.1", &[(name, "192.0.2.7")], "192.0.2.7");
        check(XForwardedFor, "10.1.1.1", &[(name, "1.1.1.1, 192.0.2.7, 10.2.2.2")], "192.0.2.7");
        check(XForwardedFor, "10.1.1.1", &[(name, "1.1.1.1"), (name, "192.0.2.7")], "192.0.2.7");
        check(XForwardedFor, "10.1.1.1", &[(name, "1.1.1.1, junk, 10.2.2.2")], "10.2.2.2");
        check(XForwardedFor, "10.1.1.1", &[(name, "[2001:dead::1]:44")], "2001:dead::1");
        check(XForwardedFor, "10.1.1.1", &[], "10.1.1.1");
        check(XForwardedFor, "192.0.2.9", &[(name, "1.1.1.1")], "192.0.2.9");
        check(XForwardedFor, "10.1.1.1", &[("forwarded", "for=1.1.1.1")], "10.1.1.1");
        check(None, "10.1.1.1", &[(name, "1.1.1.1")], "10.1.1.1");
        let rfc = "for=192.0.2.43, For=\"[2001:db8:cafe::17]:4711\";proto=http;by=203.0.113.60";
        check(Forwarded, "10.1.1.1", &[("forwarded", rfc)], "192.0.2.43");
        check(Forwarded, "10.1.1.1", &[("forwarded", "for=_hidden")], "10.1.1.1");
        check(Forwarded, "10.1.1.1", &[("forwarded", "proto=http")], "10.1.1.1");
    }

    #[test]
    fn users_come_from_trusted_proxies_only() {
        let check = |peer: &str, pairs: &[(&'static str, &str)], expect: HeaderUser| {
            let user = proxies(ForwardedHeader::None).user(peer.parse().unwrap(), &headers(pairs));
            assert_eq!(user, expect, "{peer} {pairs:?}");
        };
        let alice = || Principal::named("alice");
        check("10.1.1.1", &[("remote-user", "alice")], HeaderUser::Known(alice()));
        let groups = [("remote-user", "alice"), ("remote-groups", "a, b,,"), ("remote-groups", "c")];
        let in_groups = alice().in_groups(vec!["a".into(), "b".into(), "c".into()]);
        check("10.1.1.1", &groups, HeaderUser::Known(in_groups));
        check("192.0.2.1", &[("remote-user", "alice")], HeaderUser::Ignored);
        check("10.1.1.1", &[("remote-user", "")], HeaderUser::NotGiven);
        check("192.0.2.1", &[], HeaderUser::NotGiven);
        check("10.1.1.1", &[("remote-user", "alice"), ("remote-user", "bob")], HeaderUser::Malformed);
    }
}
