//! Limits for connections and running requests, in all and for one client, and for the memory of request
//! bodies.
//!
//! A connection costs a task and a descriptor, a running request a thread and the files it opens: each has
//! its own limit, so that thousands of idle connections disturb no request.

use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Limits;
use super::budget::{Budget, BudgetLimits, CUT, Claim, Refused};
use crate::metrics::Reason;

/// The share of the process's descriptors that is for connections: three of four.
const CONNECTION_SHARE: (usize, usize) = (3, 4);

/// Descriptors that a running request may open in addition to its connection, on average: files are mapped
/// and closed at once, hooks have three pipes.
const DESCRIPTORS_A_REQUEST: usize = 4;

/// How long a connection must be silent before it may be cut for another: clients pause between requests.
const IDLE_CONNECTION: Duration = Duration::from_secs(5);

/// How long a request must wait for its client before it may be cut for another: a round trip, however far.
const IDLE_REQUEST: Duration = Duration::from_secs(1);

/// The same for a body, whose bytes were on their way already.
const IDLE_BODY: Duration = Duration::from_millis(250);

/// How long a login must wait for its client before it may be cut for another.
const IDLE_LOGIN: Duration = Duration::from_secs(5);

/// The share of logins that one client may have in progress: one of eight.
const LOGIN_SHARE: usize = 8;

/// How long a request waits for a permit. Most requests take milliseconds, so permits are released all the
/// time.
const PATIENCE: Duration = Duration::from_secs(2);

/// The share of running requests that is reserved for clients with none running: one of four.
const RESERVED_SHARE: usize = 4;

/// Which limit keeps a client out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitReached {
    /// The limit of the server.
    Full,
    /// The limit of one client.
    ClientHasEnough,
}

impl std::fmt::Display for LimitReached {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            LimitReached::Full => "server is busy; try again later",
            LimitReached::ClientHasEnough => "too many connections from your address; try again later",
        })
    }
}

impl LimitReached {
    /// The reason that is counted.
    pub(crate) fn reason(self) -> Reason {
        match self {
            LimitReached::Full => Reason::TooManyConnections,
            LimitReached::ClientHasEnough => Reason::PerAddress,
        }
    }
}

impl From<Refused> for LimitReached {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Full => LimitReached::Full,
            Refused::ClientHasEnough => LimitReached::ClientHasEnough,
        }
    }
}

/// The budgets of a server for connections, requests, logins and bodies.
#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    max_descriptors: usize,
    connections: Arc<Budget>,
    requests: Arc<Budget>,
    logins: Arc<Budget>,
    /// Memory for request bodies, in bytes.
    pub(crate) bodies: Arc<Budget>,
}

/// The right to a connection or to a running request, released when it is dropped.
pub(crate) type Permit = Claim;

impl ConnectionLimits {
    /// Budgets from `limits`, but no larger than `max_descriptors` allows.
    pub(crate) fn new(limits: &Limits, max_descriptors: usize) -> Arc<Self> {
        let [connections, requests, bodies, logins] = shares(limits, max_descriptors).map(Budget::new);
        Arc::new(ConnectionLimits { max_descriptors, connections, requests, logins, bodies })
    }

    /// Changes the limits. No permit is cut.
    pub(crate) fn set(&self, limits: &Limits) {
        let budgets = [&self.connections, &self.requests, &self.bodies, &self.logins];
        let shares = shares(limits, self.max_descriptors);
        budgets.into_iter().zip(shares).for_each(|(budget, limits)| budget.set(limits));
    }

    /// How many requests may run.
    pub(crate) fn max_requests(&self) -> usize {
        self.requests.max()
    }

    /// How many connections, requests, bytes of bodies and logins are claimed.
    pub(crate) fn taken(&self) -> [usize; 4] {
        [&self.connections, &self.requests, &self.bodies, &self.logins].map(|budget| budget.taken())
    }

    /// A permit for a connection of a client.
    pub(crate) fn connection(&self, address: IpAddr) -> Result<Permit, LimitReached> {
        Ok(self.connections.claim(1, address)?)
    }

    /// A permit for a connection whose client is not authenticated yet.
    pub(crate) fn login(&self, address: IpAddr) -> Result<Permit, LimitReached> {
        Ok(self.logins.claim(1, address)?)
    }

    /// A permit for a request of a client, which may wait for it.
    pub(crate) async fn request(&self, address: IpAddr) -> Result<Permit, LimitReached> {
        Ok(self.requests.claim_soon(1, address, PATIENCE).await?)
    }
}

/// Connections, requests, bytes of bodies, and logins.
fn shares(limits: &Limits, max_descriptors: usize) -> [BudgetLimits; 4] {
    let (share, of) = CONNECTION_SHARE;
    let for_connections = max_descriptors / of * share;
    let for_requests = (max_descriptors - for_connections) / DESCRIPTORS_A_REQUEST;
    let budget = |max, max_of_a_client, least_idle| BudgetLimits {
        max,
        max_of_a_client,
        reserved: 0,
        exempt: limits.exempt_addresses.clone(),
        least_idle,
    };
    let max_requests = limits.max_requests.min(for_requests);
    // One request of the largest size must fit, twice: as received, and inflated.
    let one_body = limits.max_request_bytes.saturating_mul(2);
    [
        budget(
            limits.max_connections.min(for_connections),
            limits.max_connections_per_address,
            IDLE_CONNECTION,
        ),
        BudgetLimits {
            reserved: max_requests / RESERVED_SHARE,
            ..budget(max_requests, limits.max_requests_per_address, IDLE_REQUEST)
        },
        budget(
            limits.body_memory_bytes.max(one_body),
            limits.body_memory_bytes_per_address.max(one_body),
            IDLE_BODY,
        ),
        budget(limits.max_logins, (limits.max_logins / LOGIN_SHARE).max(1), IDLE_LOGIN),
    ]
}

/// Reads from a client. The permit is idle while the reader waits for bytes; once it is cut, reads fail.
pub(crate) struct PermitReader<'a> {
    pub(crate) input: &'a mut (dyn Read + Send),
    pub(crate) permit: &'a Permit,
}

impl Read for PermitReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.permit.waits();
        let read = self.input.read(buffer);
        self.permit.works();
        match self.permit.is_cut() {
            true => Err(io::Error::new(io::ErrorKind::ConnectionAborted, CUT)),
            false => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_set_a_limit_too() {
        let check = |descriptors: usize, connections, requests| {
            let [first, second, ..] = shares(&Limits::default(), descriptors);
            assert_eq!((first.max, second.max), (connections, requests), "{descriptors}");
        };
        check(1024, 768, 64);
        check(20_000, 15_000, 1024);
        check(1 << 20, 16_384, 1024);
    }

    #[test]
    fn places_of_both_kinds_are_counted_by_themselves() {
        let limits = Limits {
            max_connections: 4,
            max_requests: 2,
            max_connections_per_address: 2,
            max_requests_per_address: 1,
            exempt_addresses: vec!["10.0.0.0/8".parse().unwrap()],
            ..Limits::default()
        };
        let limits = ConnectionLimits::new(&limits, 1 << 20);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let connection = |from: &str| limits.connection(from.parse().unwrap());
        let request = |from: &str| runtime.block_on(limits.request(from.parse().unwrap()));
        let held = [connection("192.0.2.1"), connection("192.0.2.1")];
        assert_eq!(connection("192.0.2.1").unwrap_err(), LimitReached::ClientHasEnough);
        let running = request("192.0.2.1").unwrap();
        assert_eq!(request("192.0.2.1").unwrap_err(), LimitReached::ClientHasEnough);
        let exempt = [connection("10.1.1.1"), connection("10.1.1.1")];
        assert_eq!(connection("10.1.1.1").unwrap_err(), LimitReached::Full);
        assert_eq!(limits.taken(), [4, 1, 0, 0]);
        drop((held, running, exempt));
        assert_eq!(limits.taken(), [0; 4]);
    }
}
