//! Shared by all transports: a client's call, its line in the log, the served repositories, the state of a
//! server.

pub(crate) mod accept;
pub(crate) mod access_log;
pub(crate) mod call;
pub(crate) mod counting;
pub(crate) mod pusher;
pub(crate) mod readable;
mod refusal_log;
pub(crate) mod root;
pub(crate) mod shared;
pub(crate) mod stateful;
pub(crate) mod worker_pool;
