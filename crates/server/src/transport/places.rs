//! Places: how many connections and how many running requests there may be, in all and for one client.
//!
//! A connection costs a task and a descriptor, a running request a thread and what it opens: each has a limit of its
//! own, so that thousands who ask for nothing disturb nobody who does.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::settings::Limits;
use crate::metrics::Reason;

/// Of the descriptors that the process may have, this share is for connections: three of four.
const CONNECTION_SHARE: (usize, usize) = (3, 4);

/// Descriptors that a running request may open beside its connection, on average: files are mapped and closed at once,
/// hooks have three pipes.
const DESCRIPTORS_A_REQUEST: usize = 4;

/// Bits of an IPv6 address that tell one client from another; below, a client has as many as it likes.
const IPV6_CLIENT_BITS: u32 = 64;

/// What a place is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    Connection,
    Request,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All are taken.
    Full,
    /// This client has as many as one may have.
    ClientHasEnough,
}

impl std::fmt::Display for NoPlace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            NoPlace::Full => "the server is busy, try again later",
            NoPlace::ClientHasEnough => "too many connections from your address, try again later",
        })
    }
}

impl NoPlace {
    /// What it is counted as.
    pub(crate) fn reason(self) -> Reason {
        match self {
            NoPlace::Full => Reason::TooManyConnections,
            NoPlace::ClientHasEnough => Reason::PerAddress,
        }
    }
}

/// All places of a server.
#[derive(Debug)]
pub(crate) struct Places {
    max_descriptors: usize,
    bounds: Mutex<Bounds>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Bounds {
    max: Counts,
    max_of_a_client: Counts,
    exempt: Vec<AddressRange>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    connections: usize,
    requests: usize,
}

impl Counts {
    fn of(&mut self, what: For) -> &mut usize {
        match what {
            For::Connection => &mut self.connections,
            For::Request => &mut self.requests,
        }
    }
}

#[derive(Debug, Default)]
struct Taken {
    all: Counts,
    /// Only clients that have something: as long as there are places at most.
    by_client: HashMap<IpAddr, Counts>,
}

impl Places {
    /// As many as `limits` says, and no more than `max_descriptors` go round for.
    pub(crate) fn new(limits: &Limits, max_descriptors: usize) -> Arc<Self> {
        let places = Places { max_descriptors, bounds: Mutex::default(), taken: Mutex::default() };
        places.set(limits);
        Arc::new(places)
    }

    /// Other limits count from now on; nobody loses a place.
    pub(crate) fn set(&self, limits: &Limits) {
        let (share, of) = CONNECTION_SHARE;
        let for_connections = self.max_descriptors / of * share;
        let for_requests = (self.max_descriptors - for_connections) / DESCRIPTORS_A_REQUEST;
        *self.bounds() = Bounds {
            max: Counts {
                connections: limits.max_connections.min(for_connections),
                requests: limits.max_requests.min(for_requests),
            },
            max_of_a_client: Counts {
                connections: limits.max_connections_per_address,
                requests: limits.max_requests_per_address,
            },
            exempt: limits.exempt_addresses.clone(),
        };
    }

    fn bounds(&self) -> MutexGuard<'_, Bounds> {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests may run.
    pub(crate) fn max_requests(&self) -> usize {
        self.bounds().max.requests
    }

    /// Takes a place for a client, or says why there is none.
    pub(crate) fn take(self: &Arc<Self>, what: For, address: IpAddr) -> Result<Place, NoPlace> {
        let client = client(address);
        let (mut max, mut max_of_a_client, is_exempt) = {
            let bounds = self.bounds();
            let is_exempt = bounds.exempt.iter().any(|range| range.contains(address));
            (bounds.max, bounds.max_of_a_client, is_exempt)
        };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if *taken.all.of(what) >= *max.of(what) {
            return Err(NoPlace::Full);
        }
        let of_client = taken.by_client.entry(client).or_default().of(what);
        // Who has enough has something: no entry stays that was made just now.
        if !is_exempt && *of_client > 0 && *of_client >= *max_of_a_client.of(what) {
            return Err(NoPlace::ClientHasEnough);
        }
        *of_client += 1;
        *taken.all.of(what) += 1;
        Ok(Place { places: self.clone(), what, client })
    }
}

/// A place; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    what: For,
    client: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken.all.of(self.what) -= 1;
        if let Some(of_client) = taken.by_client.get_mut(&self.client) {
            *of_client.of(self.what) -= 1;
            if *of_client == Counts::default() {
                taken.by_client.remove(&self.client);
            }
        }
    }
}

/// Who is meant by an address: an IPv4 address however it is written, or a network of IPv6.
fn client(address: IpAddr) -> IpAddr {
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
    /// Addresses whose first `bits` bits are those of `first`; `None` if it has not as many.
    pub fn new(first: IpAddr, bits: u32) -> Option<Self> {
        let most = if first.is_ipv4() { 32 } else { 128 };
        (bits <= most).then_some(AddressRange { first, bits })
    }

    /// This machine, in both families.
    pub fn loopback() -> Vec<Self> {
        let v4 = AddressRange { first: Ipv4Addr::LOCALHOST.into(), bits: 8 };
        vec![v4, AddressRange { first: Ipv6Addr::LOCALHOST.into(), bits: 128 }]
    }

    /// Whether an address is one of these.
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
        let bad = || format!("'{text}' is no address, and no range of them as 192.0.2.0/24");
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

    #[test]
    fn places_are_given_back() {
        let limits = Limits {
            max_connections: 4,
            max_requests: 2,
            max_connections_per_address: 2,
            max_requests_per_address: 1,
            exempt_addresses: vec!["10.0.0.0/8".parse().unwrap()],
            ..Limits::default()
        };
        let places = Places::new(&limits, 1 << 20);
        let take = |what, from| places.take(what, address(from));
        let first = take(For::Connection, "192.0.2.1").unwrap();
        let second = take(For::Connection, "192.0.2.1").unwrap();
        assert_eq!(take(For::Connection, "192.0.2.1").unwrap_err(), NoPlace::ClientHasEnough);
        let request = take(For::Request, "192.0.2.1").unwrap();
        assert_eq!(take(For::Request, "192.0.2.1").unwrap_err(), NoPlace::ClientHasEnough);
        let exempt: Vec<Place> = (0..2).map(|_| take(For::Connection, "10.1.1.1").unwrap()).collect();
        assert_eq!(take(For::Connection, "10.1.1.1").unwrap_err(), NoPlace::Full);
        drop(first);
        assert_eq!(take(For::Connection, "192.0.2.2").map(drop), Ok(()));
        drop((second, request, exempt));
        let taken = places.taken.lock().unwrap();
        assert_eq!(taken.all, Counts::default());
        assert!(taken.by_client.is_empty());
    }

    #[test]
    fn descriptors_set_a_limit_too() {
        let check = |descriptors: usize, connections, requests| {
            let places = Places::new(&Limits::default(), descriptors);
            assert_eq!(places.bounds().max, Counts { connections, requests }, "{descriptors}");
        };
        check(1024, 768, 64);
        check(20_000, 15_000, 1024);
        check(1 << 20, 16_384, 1024);
    }
}
