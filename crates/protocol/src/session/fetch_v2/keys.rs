//! The command of a request and its capabilities (gitprotocol-v2, "Command Request").

use packrace_object::HashKind;

use super::super::lines::check_object_format;
use super::super::{ObjectInfoRequest, Output, Outputs, RefsRequest, ServiceConfig};
use super::FetchV2State;
use super::fetch_arguments::Fetch;
use super::object_info::ObjectInfoArguments;
use super::refs_arguments::RefsArguments;
use crate::message::promisor_remote;
use crate::refusal::Refusal;
use crate::wire::capabilities::{is_named, value};
use crate::wire::pkt_line::{PktLine, text};

#[derive(Debug, Default)]
pub(super) struct Keys {
    command: Option<FetchV2Command>,
    pub(super) is_any: bool,
    has_object_format: bool,
    options: usize,
    /// The client accepts a promisor remote that was offered.
    pub(super) accepts_promisor: bool,
    has_session_id: bool,
    has_unknown_promisor: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FetchV2Command {
    LsRefs,
    Fetch,
    ObjectInfo,
    BundleUri,
}

impl FetchV2Command {
    /// The command of this name, if it is offered.
    fn parse(name: &[u8], config: &ServiceConfig) -> Option<Self> {
        match name {
            b"ls-refs" => Some(FetchV2Command::LsRefs),
            b"fetch" => Some(FetchV2Command::Fetch),
            b"object-info" => config.features.object_info.then_some(FetchV2Command::ObjectInfo),
            b"bundle-uri" => config.features.bundle_uri.then_some(FetchV2Command::BundleUri),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            FetchV2Command::LsRefs => "ls-refs",
            FetchV2Command::Fetch => "fetch",
            FetchV2Command::ObjectInfo => "object-info",
            FetchV2Command::BundleUri => "bundle-uri",
        }
    }
}

impl Keys {
    pub(super) fn new(accepts_promisor: bool) -> Self {
        Keys { accepts_promisor, ..Keys::default() }
    }

    pub(super) fn take(
        mut self,
        packet: PktLine<'_>,
        config: &ServiceConfig,
        outputs: &mut Outputs,
    ) -> Result<FetchV2State, Refusal> {
        match packet {
            PktLine::Data(payload) => {
                self.is_any = true;
                self.take_key(text(payload), config, outputs)?;
                Ok(FetchV2State::Keys(self))
            }
            PktLine::Flush if !self.is_any => Ok(FetchV2State::Ended),
            // A flush instead of the delimiter means no arguments.
            PktLine::Flush => match self.finish(config)? {
                FetchV2Command::LsRefs => {
                    outputs.push(Output::NeedRefs(RefsRequest::default()));
                    Ok(FetchV2State::SendingRefs)
                }
                FetchV2Command::Fetch => Ok(FetchV2State::FetchComplete(self.fetch())),
                FetchV2Command::ObjectInfo => {
                    outputs.push(Output::NeedObjectInfo(ObjectInfoRequest::default()));
                    Ok(FetchV2State::SendingObjectInfo)
                }
                FetchV2Command::BundleUri => {
                    outputs.push(Output::NeedBundles);
                    Ok(FetchV2State::FindingBundles)
                }
            },
            PktLine::Delim => match self.finish(config)? {
                FetchV2Command::LsRefs => Ok(FetchV2State::RefsArguments(RefsArguments::default())),
                FetchV2Command::Fetch => Ok(FetchV2State::FetchArguments(self.fetch())),
                FetchV2Command::ObjectInfo => {
                    Ok(FetchV2State::ObjectInfoArguments(ObjectInfoArguments::default()))
                }
                FetchV2Command::BundleUri => Ok(FetchV2State::BundleArguments),
            },
            PktLine::ResponseEnd => Err(Refusal::unexpected_line(b"0002")),
        }
    }

    fn take_key(&mut self, key: &[u8], config: &ServiceConfig, outputs: &mut Outputs) -> Result<(), Refusal> {
        if let Some(name) = value(key, "command") {
            let command =
                FetchV2Command::parse(name, config).ok_or_else(|| Refusal::invalid_command(name))?;
            if let Some(first) = self.command {
                return Err(Refusal::second_command(command.name(), first.name()));
            }
            self.command = Some(command);
            return Ok(());
        }
        if is_named(key, "object-format") {
            self.has_object_format = true;
            let name = value(key, "object-format").ok_or_else(Refusal::object_format_without_value)?;
            return check_object_format(name, config.hash);
        }
        if let Some(offer) =
            config.features.promisor_remote.as_ref().filter(|_| is_named(key, "promisor-remote"))
        {
            return self.take_promisors(value(key, "promisor-remote"), offer, outputs);
        }
        let is_option = is_named(key, "server-option");
        let is_session_id = config.session_id.is_some() && is_named(key, "session-id");
        if !is_named(key, "agent") && !is_option && !is_session_id {
            return Err(Refusal::unknown_capability(key));
        }
        // Only the first is reported, so that repeating it gains nothing.
        if is_session_id && !std::mem::replace(&mut self.has_session_id, true) {
            let id = value(key, "session-id").unwrap_or_default();
            outputs.push(Output::ClientSession(id.to_vec()));
        }
        self.options += usize::from(is_option);
        if self.options > config.limits.options {
            return Err(Refusal::too_many("server options", config.limits.options));
        }
        Ok(())
    }

    /// Names that were not offered are ignored: the offer can change between two requests.
    fn take_promisors(
        &mut self,
        names: Option<&[u8]>,
        offer: &[u8],
        outputs: &mut Outputs,
    ) -> Result<(), Refusal> {
        let accepted =
            promisor_remote::parse_accepted(names.ok_or_else(Refusal::promisor_remote_without_value)?);
        let offered = promisor_remote::parse_offer(offer).unwrap_or_default();
        let is_offered = |name: &Vec<u8>| offered.iter().any(|remote| remote.name == *name);
        self.accepts_promisor |= accepted.iter().any(is_offered);
        // Only the first is reported, so that repeating it gains nothing.
        if let Some(name) = accepted.into_iter().find(|name| !is_offered(name))
            && !std::mem::replace(&mut self.has_unknown_promisor, true)
        {
            outputs.push(Output::UnknownPromisor(name));
        }
        Ok(())
    }

    fn fetch(&self) -> Box<Fetch> {
        Box::new(Fetch { may_lack_promised: self.accepts_promisor, ..Fetch::default() })
    }

    fn finish(&self, config: &ServiceConfig) -> Result<FetchV2Command, Refusal> {
        let command = self.command.ok_or_else(Refusal::no_command)?;
        if !self.has_object_format && config.hash != HashKind::Sha1 {
            return Err(Refusal::mismatched_object_format(config.hash, HashKind::Sha1));
        }
        Ok(command)
    }
}
