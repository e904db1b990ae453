//! Addresses of clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Bits of an IPv6 address that identify a client; it can choose the rest freely.
const IPV6_CLIENT_BITS: u32 = 64;

/// The client of an address: an IPv4 address in any notation, or a network of IPv6.
pub(crate) fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !(u128::MAX >> IPV6_CLIENT_BITS)).into()
        }
        address => address,
    }
}

/// Addresses with the same beginning: `192.0.2.0/24`, `2001:db8::/32`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    bits: u32,
}

impl AddressRange {
    /// Addresses whose first `bits` bits are those of `first`; `None` if it has fewer bits.
    pub fn new(first: IpAddr, bits: u32) -> Option<Self> {
        let most = if first.is_ipv4() { 32 } else { 128 };
        (bits <= most).then_some(AddressRange { first, bits })
    }

    /// The loopback addresses of both families.
    pub fn loopback() -> Vec<Self> {
        let v4 = AddressRange { first: Ipv4Addr::LOCALHOST.into(), bits: 8 };
        vec![v4, AddressRange { first: Ipv6Addr::LOCALHOST.into(), bits: 128 }]
    }

    /// Whether an address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differs = match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                u128::from(first.to_bits() ^ address.to_bits()) << (128 - 32)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => first.to_bits() ^ address.to_bits(),
            _ => return false,
        };
        differs.leading_zeros() >= self.bits
    }
}

impl FromStr for AddressRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is neither an address nor a range such as 192.0.2.0/24");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().map_err(|_| bad())?)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| bad())?;
        AddressRange::new(first, bits.unwrap_or(if first.is_ipv4() { 32 } else { 128 })).ok_or_else(bad)
    }
}

impl std::fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.first, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ranges() {
        let check = |range: &str, address: &str, expect: bool| {
            let range: AddressRange = range.parse().unwrap();
            assert_eq!(range.contains(address.parse().unwrap()), expect, "{range} {address}");
            assert_eq!(range.to_string().parse(), Ok(range));
        };
        check("127.0.0.0/8", "127.1.2.3", true);
        check("127.0.0.0/8", "::ffff:127.1.2.3", true);
        check("127.0.0.0/8", "128.0.0.1", false);
        check("127.0.0.0/8", "::1", false);
        check("192.0.2.7", "192.0.2.7", true);
        check("192.0.2.7", "192.0.2.6", false);
        check("0.0.0.0/0", "192.0.2.6", true);
        check("::/0", "192.0.2.6", false);
        check("::1", "::1", true);
        check("2001:db8::/32", "2001:db8:1::5", true);
        check("2001:db8::/32", "2001:db9::", false);
        for bad in ["", "x", "1.2.3.4/33", "::/129", "1.2.3.4/", "1.2.3.4/-1", "1.2.3.4/8/8", "/8"] {
            assert!(bad.parse::<AddressRange>().is_err(), "{bad}");
        }
    }

    #[test]
    fn one_client_is_one_address_or_network() {
        let check = |text: &str, expect: &str| assert_eq!(client(address(text)), address(expect), "{text}");
        check("192.0.2.7", "192.0.2.7");
        check("::ffff:192.0.2.7", "192.0.2.7");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
    }
}
