//! What a service offers, and how much of it a client may ask for.

use packrace_object::HashKind;

use super::bundle_uri::Bundles;

/// What a service offers and allows. Plain data.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// What `agent=` says.
    pub agent: String,
    /// What `session-id=` says, if it is to be said.
    pub session_id: Option<String>,
    /// The hash of object names.
    pub hash: HashKind,
    /// Offer to tell an unborn `HEAD`.
    pub advertise_unborn: bool,
    /// Tell an unborn `HEAD` when asked.
    pub allow_unborn: bool,
    /// Offer `allow-tip-sha1-in-want`.
    pub allow_tip: bool,
    /// Offer `allow-reachable-sha1-in-want`.
    pub allow_reachable: bool,
    /// Offer `filter`, and take filter lines.
    pub allow_filter: bool,
    /// The repository's own history is cut: clients must be told where.
    pub is_shallow: bool,
    /// What is offered in version 2 only where configuration says so.
    pub features: Features,
    /// Caps on what one request may hold.
    pub limits: RequestLimits,
}

impl ServiceConfig {
    /// What every service offers: nothing that a configuration has to allow, an unborn `HEAD`, no cut history.
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

/// Features of version 2 that are off unless configuration turns them on. What is off is refused by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    /// `ref-in-want`: refs may be wanted by name.
    pub ref_in_want: bool,
    /// `sideband-all`: all of an answer may be asked for in a side-band.
    pub sideband_all: bool,
    /// `packfile-uris`: parts of a pack may lie elsewhere.
    pub packfile_uris: bool,
    /// The command `object-info`.
    pub object_info: bool,
    /// The command `bundle-uri`, and what it answers.
    pub bundles: Option<Bundles>,
    /// The value of the capability `promisor-remote`.
    pub promisor_remote: Option<Vec<u8>>,
}

/// Caps on what one request may hold. Each entry costs about 40 bytes of memory while the request is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Wants by id and by name each, and objects of `object-info`: as many as a server of a million refs can advertise, and some.
    pub wants: usize,
    /// Haves: a client sends them in rounds, and again in each stateless request. Counted over all rounds.
    pub haves: usize,
    /// Shallow commits of the client.
    pub shallow: usize,
    /// `deepen-not` and `server-option` lines.
    pub options: usize,
    /// Bytes of ref names: of `ref-prefix` lines, beyond which all of them are ignored, and of `deepen-not` and
    /// `want-ref` lines, beyond which the request is refused. 65,536 lines of the longest packet would be 4 GiB.
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
