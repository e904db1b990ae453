//! The addresses that a hook may connect to: public ones, and those that its table allows.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use crate::limits::AddressRange;

/// Addresses that are not public (IANA's registries of special-purpose addresses; RFC 6890 and its
/// successors).
const SPECIAL: [&str; 20] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    // Teredo, ORCHID and other protocol assignments; documentation; and 6to4, which embeds an IPv4 address.
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "5f00::/16",
];

/// All public IPv6 addresses are in this range (RFC 4291, section 2.4): not loopback, unspecified, unique
/// local, link-local and multicast ones.
const GLOBAL_UNICAST: &str = "2000::/3";

/// An IPv4 address behind a translator (RFC 6052, section 2.1).
const TRANSLATED: &str = "64:ff9b::/96";

static SPECIAL_RANGES: LazyLock<Vec<AddressRange>> = LazyLock::new(|| parsed(&SPECIAL));
static IPV6_RANGES: LazyLock<Vec<AddressRange>> = LazyLock::new(|| parsed(&[GLOBAL_UNICAST, TRANSLATED]));

fn parsed(ranges: &[&str]) -> Vec<AddressRange> {
    ranges.iter().filter_map(|range| range.parse().ok()).collect()
}

/// Whether a hook may connect to an address.
pub(super) fn may_connect(address: IpAddr, allowed: &[AddressRange]) -> bool {
    // An IPv4-mapped IPv6 address counts as the IPv4 address.
    let address = address.to_canonical();
    allowed.iter().any(|range| range.contains(address)) || is_public(address)
}

fn is_public(address: IpAddr) -> bool {
    if SPECIAL_RANGES.iter().any(|range| range.contains(address)) {
        return false;
    }
    let IpAddr::V6(v6) = address else { return true };
    match IPV6_RANGES.as_slice() {
        [_, translated] if translated.contains(address) => is_public(embedded(v6)),
        [global, _] => global.contains(address),
        _ => false,
    }
}

/// The IPv4 address in the last four bytes.
fn embedded(address: Ipv6Addr) -> IpAddr {
    let [.., a, b, c, d] = address.octets();
    IpAddr::from([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, allowed: &[&str], expect: bool) {
        let allowed = parsed(allowed);
        assert_eq!(may_connect(address.parse().unwrap(), &allowed), expect, "{address} {allowed:?}");
    }

    #[test]
    fn every_range_is_one() {
        assert_eq!((SPECIAL_RANGES.len(), IPV6_RANGES.len()), (SPECIAL.len(), 2));
    }

    #[test]
    fn public_addresses() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.128.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "223.255.255.255",
        ] {
            check(address, &[], true);
            check(&format!("::ffff:{address}"), &[], true);
            check(&format!("64:ff9b::{address}"), &[], true);
        }
        check("2606:4700:4700::1111", &[], true);
        check("2a00::1", &[], true);
    }

    #[test]
    fn addresses_that_are_not_for_everybody() {
        let special = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.0.1",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
        ];
        for address in special {
            check(address, &[], false);
            check(&format!("::ffff:{address}"), &[], false);
            check(&format!("64:ff9b::{address}"), &[], false);
            // The deprecated IPv4-compatible form.
            check(&format!("::{address}"), &[], false);
        }
        for address in [
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::",
            "3fff::1",
            "64:ff9b:1::1",
            "100::1",
            "4000::1",
        ] {
            check(address, &[], false);
        }
    }

    #[test]
    fn what_a_table_allows() {
        check("10.1.2.3", &["10.1.0.0/16"], true);
        check("::ffff:10.1.2.3", &["10.1.0.0/16"], true);
        check("10.2.0.1", &["10.1.0.0/16"], false);
        check("169.254.169.254", &["10.0.0.0/8"], false);
        check("::1", &["::1"], true);
        check("127.0.0.1", &["::1"], false);
    }
}
