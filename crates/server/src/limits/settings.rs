//! What clients may take of a server.

use std::time::Duration;

use packrace_os::throughput::MinThroughput;

use super::address::AddressRange;

/// What clients may take: connections, requests, bytes and time. Plain data.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections that are open at the same time, at all doors; also no more than three quarters of the descriptors that
    /// the process may have. One that asks for nothing costs a task of some kilobytes and a descriptor. Beyond: HTTP 503 with
    /// `Retry-After`, `ERR` over git://.
    pub max_connections: usize,
    /// Requests that run at the same time, at all doors; also no more than a sixteenth of the descriptors that the
    /// process may have. Each has a thread, for which no other waits: 2 MiB of addresses, and the pages of them that it
    /// touches. Beyond: HTTP 503 with `Retry-After`, `ERR` over git://.
    pub max_requests: usize,
    /// Connections of SSH whose clients have not shown yet who they are; an eighth of them for one client. Beyond: the one
    /// goes that has waited the longest, or the new one.
    pub max_logins: usize,
    /// Connections that one client has open at the same time: one IPv4 address, or one /64 of IPv6. Beyond: HTTP 429 with
    /// `Retry-After`, `ERR` over git://.
    pub max_connections_per_address: usize,
    /// Requests of one client that run at the same time. Beyond: as for connections.
    pub max_requests_per_address: usize,
    /// Clients whose connections and requests are not limited by address, as those that come through a proxy:
    /// loopback by default.
    pub exempt_addresses: Vec<AddressRange>,
    /// Longest upload request over HTTP in bytes, inflated or not; `http.maxRequestBuffer`.
    pub max_request_bytes: usize,
    /// Memory for the bodies of all requests that are read or answered at a moment; room for one of the largest size,
    /// twice (as it came, and inflated), there is always. It is claimed as bytes come. Beyond: the body goes that has held the
    /// most for the longest time without coming on; where there is none, HTTP 503.
    pub body_memory_bytes: usize,
    /// What the bodies of one client may take of it. Beyond: the same among the bodies of this client; where there is
    /// none, HTTP 429.
    pub body_memory_bytes_per_address: usize,
    /// How long a client may take to say what it wants: the first packet of git://, the head of an HTTP request. So long,
    /// and at most twice as long, an HTTP connection is also kept between requests.
    pub request_time: Duration,
    /// How long a client may take for the body of an HTTP request, but that of a push.
    pub body_time: Duration,
    /// How long a client of git:// may be silent while the server waits for it. In as much waiting it must send `stall_bytes`, or
    /// all that it has to say.
    pub idle_time: Duration,
    /// In this time, a client must take `stall_bytes` of what waits for it, or all that waits; and of a push over HTTP send as
    /// many, or the rest. Else it is cut.
    pub stall_time: Duration,
    /// See `stall_time`.
    pub stall_bytes: usize,
    /// How long the server listens on after it was told to stop, so that balancers of load notice that it is not ready;
    /// clones that come in this time are refused (HTTP 503 with `Retry-After`, `ERR` over git://), other requests served.
    pub grace_time: Duration,
    /// How long running requests may go on after that.
    pub drain_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_connections: 16_384,
            max_requests: 1024,
            max_logins: 1024,
            max_connections_per_address: 4096,
            max_requests_per_address: 512,
            exempt_addresses: AddressRange::loopback(),
            max_request_bytes: 10 << 20,
            body_memory_bytes: 256 << 20,
            body_memory_bytes_per_address: 64 << 20,
            request_time: Duration::from_secs(30),
            body_time: Duration::from_secs(120),
            idle_time: Duration::from_secs(600),
            stall_time: Duration::from_secs(300),
            stall_bytes: 4096,
            grace_time: Duration::ZERO,
            drain_time: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// The least throughput of a client that reads an answer or sends a push.
    pub(crate) fn stall_throughput(&self) -> MinThroughput {
        MinThroughput { time: self.stall_time, bytes: self.stall_bytes }
    }

    /// The least throughput of a client of git:// while the server waits for it.
    pub(crate) fn idle_throughput(&self) -> MinThroughput {
        MinThroughput { time: self.idle_time, bytes: self.stall_bytes }
    }
}
