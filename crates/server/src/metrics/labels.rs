//! The labels of metrics, and all values of each.

use std::fmt::Write as _;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// A label whose values are all known.
pub trait Closed: Copy + 'static {
    /// All values.
    const ALL: &'static [Self];

    /// Its name in metrics, in the log and on pages.
    fn name(self) -> &'static str;
}

/// Makes an enum of a label from its values and their names.
macro_rules! label {
    ($(#[$doc:meta])* $label:ident { $($(#[$value_doc:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $label {
            $($(#[$value_doc])* $value,)*
        }

        impl Closed for $label {
            const ALL: &'static [Self] = &[$($label::$value,)*];

            fn name(self) -> &'static str {
                match self {
                    $($label::$value => $name,)*
                }
            }
        }

        impl EncodeLabelValue for $label {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
                encoder.write_str(self.name())
            }
        }
    };
}

label! {
    /// What a transfer turns out to be.
    Kind {
        /// The advertisement, before any request; in versions 0 and 1 with all refs.
        Advertisement = "advertisement",
        /// A listing of refs in version 2.
        LsRefs = "ls-refs",
        /// Common objects were negotiated, and no pack was sent yet.
        Negotiation = "negotiation",
        /// A pack for a client with haves.
        Fetch = "fetch",
        /// A pack for a client without haves.
        Clone = "clone",
        /// A push.
        Push = "push",
        /// A bundle, or the list of them.
        Bundle = "bundle",
    }
}

label! {
    /// The transport of a client.
    DoorName {
        /// HTTP of any version, with and without TLS.
        Http = "http",
        /// git://.
        Git = "git",
        /// SSH, by `listen.ssh` and by `packrace shell`.
        Ssh = "ssh",
        /// Standard input and output: CGI, inetd, a forced command of SSH.
        Stdio = "stdio",
    }
}

label! {
    /// Why a request or a connection was refused.
    Reason {
        /// There is no such repository, or the client may not see it.
        NotFound = "not-found",
        /// The service is not offered.
        Forbidden = "forbidden",
        /// Credentials are missing or wrong.
        Unauthenticated = "unauthenticated",
        /// The limit of connections is reached.
        TooManyConnections = "too-many-connections",
        /// The limit of this address is reached.
        PerAddress = "per-address",
        /// The queue of clones is full.
        QueueFull = "queue-full",
        /// The request is larger than it may be, or than there is memory for.
        TooLarge = "too-large",
        /// Request bodies, of all clients or of this one, fill their memory.
        BodyMemory = "body-memory",
        /// A push exceeds its budget: memory, objects, bytes or time.
        PushBudget = "push-budget",
        /// The repository would exceed its quota.
        Quota = "quota",
        /// The client was idle while others needed its permit or memory.
        Idle = "idle",
        /// The client took too long to send its request, or to read the answer.
        Slow = "slow",
        /// The request is malformed, or broke off.
        Broken = "broken",
        /// The server is stopping.
        Stopping = "stopping",
        /// The bucket does not answer, or there is no room for its data.
        Unavailable = "unavailable",
    }
}

label! {
    /// How a handshake of TLS ended.
    HandshakeOutcome {
        /// It was completed.
        Completed = "completed",
        /// The two sides could not agree, or one rejected the other.
        Failed = "failed",
        /// The client was not done in time, or sent nothing at all.
        TimedOut = "timed-out",
        /// The first bytes were no handshake, as with HTTP without TLS.
        NotTls = "not-tls",
    }
}

label! {
    /// How the authentication of an SSH client ended.
    LoginOutcome {
        /// The client is authenticated.
        Completed = "completed",
        /// None of its keys and certificates is accepted.
        Refused = "refused",
        /// It broke off, or there was no common algorithm.
        Failed = "failed",
        /// It was not done in time, or others needed its place.
        TimedOut = "timed-out",
    }
}

label! {
    /// A phase of a pack.
    Stage {
        /// Deciding which objects it holds, and where they come from.
        Plan = "plan",
        /// Making the bytes, including waits for the client as far as they are not held.
        Generate = "generate",
        /// From the first batch that is sent to the last.
        Send = "send",
    }
}

label! {
    /// What a call is doing.
    Step {
        /// Reading the request, and answering what takes no time.
        Asking = "asking",
        /// In the queue.
        Queued = "queued",
        /// Deciding what a pack holds.
        Planning = "planning",
        /// Sending a pack.
        Sending = "sending",
        /// Receiving a push.
        Receiving = "receiving",
    }
}

label! {
    /// A task of maintenance, by git's names.
    MaintenanceTask {
        /// See [`packrace_maintenance::Task::StaleFiles`].
        StaleFiles = "stale-files",
        /// See [`packrace_maintenance::Task::PackRefs`].
        PackRefs = "pack-refs",
        /// See [`packrace_maintenance::Task::ReflogExpire`].
        ReflogExpire = "reflog-expire",
        /// See [`packrace_maintenance::Task::LooseObjects`].
        LooseObjects = "loose-objects",
        /// See [`packrace_maintenance::Task::GeometricRepack`].
        GeometricRepack = "geometric-repack",
        /// See [`packrace_maintenance::Task::Gc`].
        Gc = "gc",
        /// See [`packrace_maintenance::Task::CommitGraph`].
        CommitGraph = "commit-graph",
        /// Bundles are made or removed. Not a task of `packrace maintenance`.
        Bundles = "bundles",
    }
}

impl MaintenanceTask {
    /// The label of a task.
    pub(crate) fn of(task: packrace_maintenance::Task) -> Self {
        use packrace_maintenance::Task;
        match task {
            Task::StaleFiles => MaintenanceTask::StaleFiles,
            Task::PackRefs => MaintenanceTask::PackRefs,
            Task::ReflogExpire => MaintenanceTask::ReflogExpire,
            Task::LooseObjects => MaintenanceTask::LooseObjects,
            Task::GeometricRepack => MaintenanceTask::GeometricRepack,
            Task::Gc => MaintenanceTask::Gc,
            Task::CommitGraph => MaintenanceTask::CommitGraph,
        }
    }
}

label! {
    /// How a task of maintenance ended.
    JobOutcome {
        /// It was done.
        Done = "done",
        /// It failed; it is tried again after a while, and then after twice as long.
        Failed = "failed",
        /// Another process was at work there.
        Postponed = "postponed",
        /// The server was told to stop.
        Cancelled = "cancelled",
    }
}

label! {
    /// The outcome of an attempt to deliver an event to a webhook.
    AttemptOutcome {
        /// The receiver has it.
        Delivered = "delivered",
        /// The receiver answers another status than 2xx.
        Rejected = "rejected",
        /// The receiver redirects; redirects are not followed.
        Redirected = "redirected",
        /// The address of the receiver may not be connected to.
        Refused = "address-refused",
        /// There is no connection, or no answer, in time.
        TimedOut = "timed-out",
        /// There is no connection, or no answer.
        Failed = "failed",
    }
}

label! {
    /// Why a webhook does not get an event.
    LossReason {
        /// The receiver did not accept it for too long.
        GivenUp = "given-up",
        /// The journal no longer has it, or cannot read it.
        Gone = "gone",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByTask {
    pub(super) task: MaintenanceTask,
    pub(super) outcome: JobOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByKind {
    pub(super) kind: Kind,
    pub(super) door: DoorName,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByDoor {
    pub(super) door: DoorName,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByReason {
    pub(super) reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByStage {
    pub(super) stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByLoginOutcome {
    pub(super) outcome: LoginOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByHandshakeOutcome {
    pub(super) outcome: HandshakeOutcome,
}
