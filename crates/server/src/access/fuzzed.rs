//! Parses access files and headers, for fuzz targets.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use http::{HeaderMap, HeaderValue, header};
use packrace_ssh::{UserKey, UserKeys};

use super::credentials::{Credentials, PasswordFile, TokenFile};
use super::proxies::{ForwardedHeader, TrustedProxies};
use super::rules::AccessRules;
use super::{Ask, Principal};
use crate::limits::AddressRange;

/// Parses a text as each of the files, as SSH keys, and as a `gitolite.conf`, and asks the rules about a
/// path.
pub(crate) fn files(text: &str, path: &[u8]) {
    let name = Path::new("fuzzed");
    let _ = (PasswordFile::parse(name, text), TokenFile::parse(name, text));
    let _ =
        super::gitolite::convert_gitolite("conf", &mut |name| Ok(vec![(name.to_owned(), text.to_owned())]));
    let mut keys = UserKeys::default();
    let _ = (keys.add_signers(text), keys.add_of_user("alice", text), keys.add_authorities(text));
    let _ = keys.revoke(text);
    let _ = UserKey::parse_blob(text);
    if let Ok(rules) = AccessRules::parse(name, text) {
        let principal = Principal::named("alice");
        let _ = [Ask::Read, Ask::Push, Ask::Create, Ask::Look].map(|ask| rules.decide(&principal, path, ask));
    }
}

/// Parses a header as credentials, as a user and as addresses.
pub(crate) fn headers(value: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(value) else { return };
    let mut headers = HeaderMap::new();
    let _ = Credentials::of(&HeaderMap::from_iter([(header::AUTHORIZATION, value.clone())]));
    for name in ["x-forwarded-for", "forwarded", "remote-user", "remote-groups"] {
        headers.insert(name, value.clone());
    }
    let peer = IpAddr::from(Ipv4Addr::LOCALHOST);
    for forwarded in [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded] {
        let names = (Some("remote-user"), Some("remote-groups"));
        let proxies = TrustedProxies::new(AddressRange::loopback(), names.0, names.1, forwarded);
        let _ = proxies.map(|proxies| (proxies.client_address(peer, &headers), proxies.user(peer, &headers)));
    }
}
