//! SSH sessions, and the forced command of a system's sshd, which serves them alone or through a running
//! server.

mod command;
mod hand_over;
mod listener;
mod message;
mod session;

pub use command::{NotRun, ShellCommand};
pub use hand_over::hand_over;
pub use listener::ShellListener;
pub(crate) use listener::accept;
pub(crate) use session::{SessionStreams, serve as serve_session};
pub use session::{ShellRequest, maintain_alone, serve_alone};
