//! Handles russh's callbacks for one connection.

use std::io;
use std::sync::Arc;

use russh::keys::{Algorithm, Certificate};
use russh::server::{Auth, ChannelOpenHandle, Handler, Msg, PublicKeyOffer, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, ChannelOpenFailure, Pty};

use super::input::SessionInput;
use super::link::Link;
use super::output::SessionOutput;
use super::{SessionRequest, SshSession};
use crate::keys::{SshUser, UserCertificate, UserKey};

/// The only variable that clients may set (git-protocol(5)).
const PROTOCOL: &str = "GIT_PROTOCOL";

/// Longest value: a version, with room for future extensions.
const MAX_PROTOCOL_BYTES: usize = 1 << 10;

/// RSA with SHA-1 is refused.
const RSA_SHA1: Algorithm = Algorithm::Rsa { hash: None };

/// Longest accepted payload. Clients must not send more than they were told.
const MAX_TAKEN_BYTES: usize = super::MAX_PAYLOAD_BYTES as usize;

/// A connection's handler for russh.
pub(super) struct ClientHandler {
    link: Arc<Link>,
    /// The last key and its user: each key is looked up twice.
    found: Option<(UserKey, Option<SshUser>)>,
    user: Option<SshUser>,
    protocol: Option<String>,
}

impl ClientHandler {
    pub(super) fn new(link: Arc<Link>) -> Self {
        ClientHandler { link, found: None, user: None, protocol: None }
    }

    /// The owner of a key.
    async fn user_of(&mut self, key: &russh::keys::PublicKey) -> Option<SshUser> {
        let key = UserKey::of(key).ok()?;
        if let Some((last, user)) = &self.found
            && *last == key
        {
            return user.clone();
        }
        let user = self.link.host.user_of_key(&key).await;
        self.found = Some((key, user.clone()));
        user
    }

    fn refuse(&self) -> Auth {
        self.link.has_refused();
        Auth::reject()
    }

    /// Begins a session, unless this channel has one.
    fn begin(
        &mut self,
        id: ChannelId,
        request: SessionRequest,
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        let (Some(user), Some(input)) = (self.user.clone(), self.link.begin(id)) else {
            return session.channel_failure(id);
        };
        session.channel_success(id)?;
        let output = SessionOutput::new(self.link.clone(), input.clone(), session.handle(), id);
        let input = SessionInput::new(input, self.link.limits.idle);
        let protocol = self.protocol.take();
        self.link.host.begin(SshSession { user, request, protocol, input, output });
        Ok(())
    }
}

impl Handler for ClientHandler {
    type Error = russh::Error;

    /// Called for offered keys and certificates, before any signature is checked. The two cannot be told
    /// apart here: if certificates are accepted, every client may sign.
    async fn auth_publickey_offered(
        &mut self,
        _login: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Self::Error> {
        if *offer.algorithm == RSA_SHA1 {
            return Ok(self.refuse());
        }
        let is_known = self.user_of(offer.public_key).await.is_some();
        Ok(if is_known || self.link.host.takes_certificates() { Auth::Accept } else { self.refuse() })
    }

    async fn auth_publickey(
        &mut self,
        _login: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        self.user = self.user_of(key.public_key).await;
        Ok(if self.user.is_some() { Auth::Accept } else { self.refuse() })
    }

    async fn auth_openssh_certificate(
        &mut self,
        login: &str,
        certificate: &Certificate,
    ) -> Result<Auth, Self::Error> {
        let user = self.link.host.user_of_certificate(&UserCertificate::of(certificate), login);
        self.user = user.ok();
        Ok(if self.user.is_some() { Auth::Accept } else { self.refuse() })
    }

    async fn auth_succeeded(&mut self, _: &mut Session) -> Result<(), Self::Error> {
        match self.user.clone() {
            Some(user) => self.link.has_logged_in(user),
            // No other method is accepted.
            None => return Err(russh::Error::Inconsistent),
        }
        Ok(())
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        match self.link.open(channel.id()) {
            true => {
                self.protocol = None;
                reply.accept().await;
            }
            // Clients that share connections then open a new one.
            false => reply.reject(ChannelOpenFailure::ResourceShortage).await,
        }
        Ok(())
    }

    /// Ends the connection if the client closes a channel with a full window: the pending data can never be
    /// sent, and russh sends no data of other channels before it.
    async fn channel_close(&mut self, id: ChannelId, session: &mut Session) -> Result<(), Self::Error> {
        self.link.is_closed(id);
        match session.has_pending_data(id) {
            true => Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()),
            false => Ok(()),
        }
    }

    async fn channel_eof(&mut self, id: ChannelId, _: &mut Session) -> Result<(), Self::Error> {
        self.link.input(id).into_iter().for_each(|input| input.end());
        Ok(())
    }

    async fn data(&mut self, id: ChannelId, data: &[u8], _: &mut Session) -> Result<(), Self::Error> {
        if data.len() > MAX_TAKEN_BYTES {
            return Err(russh::Error::Inconsistent);
        }
        if let Some(input) = self.link.input(id) {
            input.push(data).await;
        }
        Ok(())
    }

    async fn env_request(
        &mut self,
        id: ChannelId,
        name: &str,
        value: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        if name != PROTOCOL || value.len() > MAX_PROTOCOL_BYTES {
            return session.channel_failure(id);
        }
        self.protocol = Some(value.to_owned());
        session.channel_success(id)
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.begin(id, SessionRequest::Command(command.to_owned()), session)
    }

    async fn shell_request(&mut self, id: ChannelId, session: &mut Session) -> Result<(), Self::Error> {
        self.begin(id, SessionRequest::Shell, session)
    }

    async fn subsystem_request(
        &mut self,
        id: ChannelId,
        _: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_failure(id)
    }

    async fn pty_request(
        &mut self,
        id: ChannelId,
        _: &str,
        _: u32,
        _: u32,
        _: u32,
        _: u32,
        _: &[(Pty, u32)],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_failure(id)
    }

    async fn x11_request(
        &mut self,
        id: ChannelId,
        _: bool,
        _: &str,
        _: &str,
        _: u32,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_failure(id)
    }
}
