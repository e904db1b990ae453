//! State shared by handler, session and watch of one connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use russh::ChannelId;

use super::input::InputQueue;
use super::wire::WireState;
use super::{ConnectionLimits, SshHost};
use crate::keys::SshUser;

/// The shared state of a connection.
pub(super) struct Link {
    pub(super) host: Arc<dyn SshHost>,
    pub(super) limits: ConnectionLimits,
    pub(super) wire: Arc<WireState>,
    state: Mutex<LinkState>,
}

struct LinkState {
    user: Option<SshUser>,
    /// The number of refused keys and certificates.
    refused: usize,
    channel: Option<OpenChannel>,
    /// Start of the current idle time, and the bytes sent by then.
    idle_since: Instant,
    idle_sent_bytes: u64,
}

/// The only open channel of a client.
struct OpenChannel {
    id: ChannelId,
    input: Arc<InputQueue>,
    has_begun: bool,
    /// The client closed the channel, or the connection is gone.
    is_gone: bool,
}

/// What the watch does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum IdleCheck {
    /// Check again after this time.
    Again(Duration),
    /// The client was silent for too long.
    TooLong,
}

impl Link {
    pub(super) fn new(host: Arc<dyn SshHost>, limits: ConnectionLimits, wire: Arc<WireState>) -> Arc<Self> {
        let state = LinkState {
            user: None,
            refused: 0,
            channel: None,
            idle_since: Instant::now(),
            idle_sent_bytes: 0,
        };
        Arc::new(Link { host, limits, wire, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn user(&self) -> Option<SshUser> {
        self.lock().user.clone()
    }

    pub(super) fn has_logged_in(&self, user: SshUser) {
        self.wire.lift_limit();
        self.host.has_logged_in(&user);
        let mut state = self.lock();
        state.idle_since = Instant::now();
        state.user = Some(user);
    }

    pub(super) fn has_refused(&self) {
        self.lock().refused += 1;
    }

    pub(super) fn refused(&self) -> usize {
        self.lock().refused
    }

    /// Opens the channel; false if one is open.
    pub(super) fn open(&self, id: ChannelId) -> bool {
        let mut state = self.lock();
        if state.channel.is_some() {
            return false;
        }
        let input = Arc::default();
        state.channel = Some(OpenChannel { id, input, has_begun: false, is_gone: false });
        true
    }

    /// The input for a new session; `None` if the channel does not exist or already has a session.
    pub(super) fn begin(&self, id: ChannelId) -> Option<Arc<InputQueue>> {
        let mut state = self.lock();
        let channel = state.channel.as_mut().filter(|channel| channel.id == id && !channel.has_begun)?;
        channel.has_begun = true;
        Some(channel.input.clone())
    }

    pub(super) fn input(&self, id: ChannelId) -> Option<Arc<InputQueue>> {
        let state = self.lock();
        state.channel.as_ref().filter(|channel| channel.id == id).map(|channel| channel.input.clone())
    }

    /// The client closed its channel.
    pub(super) fn is_closed(&self, id: ChannelId) {
        let mut state = self.lock();
        let Some(channel) = state.channel.as_mut().filter(|channel| channel.id == id) else { return };
        channel.is_gone = true;
        channel.input.end();
        if !channel.has_begun {
            state.channel = None;
        }
    }

    /// The connection is gone.
    pub(super) fn has_gone(&self) {
        let id = self.lock().channel.as_ref().map(|channel| channel.id);
        id.into_iter().for_each(|id| self.is_closed(id));
    }

    /// Whether the client no longer receives a session's output.
    pub(super) fn is_gone(&self, id: ChannelId) -> bool {
        self.lock().channel.as_ref().is_none_or(|channel| channel.id != id || channel.is_gone)
    }

    /// Whether this channel is not open, or no longer.
    pub(super) fn is_free_of(&self, id: ChannelId) -> bool {
        self.lock().channel.as_ref().is_none_or(|channel| channel.id != id)
    }

    /// Ends the session on a channel; another one may begin.
    pub(super) fn has_ended_session(&self, id: ChannelId) {
        // Before the channel is free: the next session begins on another thread, and must be reported after
        // this one's end.
        self.host.has_ended_session();
        let mut state = self.lock();
        state.channel = state.channel.take().filter(|channel| channel.id != id);
        state.idle_since = Instant::now();
        state.idle_sent_bytes = self.wire.sent_bytes();
    }

    /// Whether a client without a session was silent for too long. A client that still receives a response is
    /// not silent; one that only gets replies to its pings is.
    pub(super) fn check_idle(&self, now: Instant) -> IdleCheck {
        let time = self.limits.idle_time;
        let mut state = self.lock();
        if state.channel.as_ref().is_some_and(|channel| channel.has_begun) {
            return IdleCheck::Again(time);
        }
        let sent = self.wire.sent_bytes();
        let taken_bytes = sent.saturating_sub(state.idle_sent_bytes);
        if state.user.is_some() && taken_bytes >= self.limits.stall.bytes.max(1) as u64 {
            state.idle_sent_bytes = sent;
            state.idle_since = now;
        }
        match (state.idle_since + time).checked_duration_since(now) {
            Some(left) if !left.is_zero() => IdleCheck::Again(left),
            _ => IdleCheck::TooLong,
        }
    }
}
