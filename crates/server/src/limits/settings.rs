//! How much of a server clients may use.

use std::time::Duration;

use packrace_os::throughput::MinThroughput;

use super::address::AddressRange;

/// Limits for clients: connections, requests, bytes and time. Plain data.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Simultaneous connections of all transports; also no more than three quarters of the descriptors that
    /// the process may have. An idle one costs a task of some kilobytes and a descriptor. Beyond: HTTP 503
    /// with `Retry-After`, `ERR` over git://.
    pub max_connections: usize,
    /// Simultaneous requests of all transports; also no more than a sixteenth of the descriptors that the
    /// process may have. Each has its own thread: 2 MiB of addresses, and the pages of them that it touches.
    /// Beyond: HTTP 503 with `Retry-After`, `ERR` over git://.
    pub max_requests: usize,
    /// SSH connections whose clients are not authenticated yet; an eighth of them for one client. Beyond: the
    /// one that has waited the longest is cut, or the new one is refused.
    pub max_logins: usize,
    /// Simultaneous connections of one client: one IPv4 address, or one /64 of IPv6. Beyond: HTTP 429 with
    /// `Retry-After`, `ERR` over git://.
    pub max_connections_per_address: usize,
    /// Simultaneous requests of one client. Beyond: as for connections.
    pub max_requests_per_address: usize,
    /// Clients whose connections, requests and memory are not limited by address, for example proxies: loopback
    /// by default.
    pub exempt_addresses: Vec<AddressRange>,
    /// The longest upload-pack request over HTTP in bytes, inflated or not; `http.maxRequestBuffer`.
    pub max_request_bytes: usize,
    /// Memory for the bodies of all requests that are being read or answered; one of the largest size always
    /// has room, twice (as received, and inflated). It is claimed as bytes arrive. Beyond: the body is cut
    /// that has held the most for the longest time without progress; if there is none, HTTP 503.
    pub body_memory_bytes: usize,
    /// How much of it the bodies of one client may use. Beyond: the same among the bodies of this client; if
    /// there is none, HTTP 429.
    pub body_memory_bytes_per_address: usize,
    /// How long a client may take for its request: the first packet of git://, the head of an HTTP request.
    /// An HTTP connection is also kept this long between requests, and at most twice as long.
    pub request_time: Duration,
    /// How long a client may take for the body of an HTTP request, except that of a push.
    pub body_time: Duration,
    /// How long a client of git:// may be silent while the server waits for it. In this much waiting it must
    /// send `stall_bytes`, or all that it has to send.
    pub idle_time: Duration,
    /// In this time, a client must take `stall_bytes` of the bytes that wait for it, or all of them; in a
    /// push over HTTP it must send as many, or the rest. Otherwise it is disconnected.
    pub stall_time: Duration,
    /// See `stall_time`.
    pub stall_bytes: usize,
    /// How long the server keeps listening after it was told to stop, so that load balancers notice that it
    /// is not ready; clones that come in this time are refused (HTTP 503 with `Retry-After`, `ERR` over
    /// git://), other requests are served.
    pub grace_time: Duration,
    /// How long running requests may continue after that.
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
