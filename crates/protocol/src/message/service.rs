//! What a service offers, and the limits of one request.

use packrace_object::HashKind;

/// What a service offers and allows. Plain data.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// The value of `agent=`.
    pub agent: String,
    /// The value of `session-id=`, if it is sent.
    pub session_id: Option<String>,
    /// The hash of object names.
    pub hash: HashKind,
    /// Offer to report an unborn `HEAD`.
    pub advertise_unborn: bool,
    /// Report an unborn `HEAD` when asked.
    pub allow_unborn: bool,
    /// Offer `allow-tip-sha1-in-want`.
    pub allow_tip: bool,
    /// Offer `allow-reachable-sha1-in-want`.
    pub allow_reachable: bool,
    /// Offer `filter`, and accept filter lines.
    pub allow_filter: bool,
    /// The repository itself is shallow, so clients must be told its boundary.
    pub is_shallow: bool,
    /// Features of version 2 that must be configured.
    pub features: Features,
    /// Limits of one request.
    pub limits: RequestLimits,
}

impl ServiceConfig {
    /// The defaults of every service: no features that must be configured, an unborn `HEAD`, full history.
    pub fn new(agent: &str, hash: HashKind) -> Self {
        ServiceConfig {
            agent: agent.to_owned(),
            session_id: None,
            hash,
            advertise_unborn: true,
            allow_unborn: true,
            allow_tip: false,
            allow_reachable: false,
            allow_filter: false,
            is_shallow: false,
            features: Features::default(),
            limits: RequestLimits::default(),
        }
    }
}

/// Features of version 2 that are off by default. Requests that use a disabled feature are refused by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    /// `ref-in-want`: refs may be wanted by name.
    pub ref_in_want: bool,
    /// `sideband-all`: the client may request the whole answer in a side-band.
    pub sideband_all: bool,
    /// `packfile-uris`: parts of a pack may be stored elsewhere.
    pub packfile_uris: bool,
    /// The command `object-info`.
    pub object_info: bool,
    /// The command `bundle-uri`.
    pub bundle_uri: bool,
    /// The value of the capability `promisor-remote`.
    pub promisor_remote: Option<Vec<u8>>,
}

/// Limits of one request. Each entry takes about 40 bytes of memory while the request is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestLimits {
    /// Wants by id, wants by name, and objects of `object-info`, counted separately: slightly more than a
    /// server of a million refs can advertise.
    pub wants: usize,
    /// Haves over all rounds: a client sends them in rounds, and again in each stateless request.
    pub haves: usize,
    /// The client's shallow commits.
    pub shallow: usize,
    /// `deepen-not` and `server-option` lines.
    pub options: usize,
    /// Bytes of ref names: of `ref-prefix` lines, beyond which all of them are ignored, and of
    /// `deepen-not` and `want-ref` lines, beyond which the request is refused. 65,536 lines of the longest
    /// packet would be 4 GiB.
    pub name_bytes: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits {
            wants: 4_000_000,
            haves: 4_000_000,
            shallow: 1_000_000,
            options: 10_000,
            name_bytes: 16 << 20,
        }
    }
}
