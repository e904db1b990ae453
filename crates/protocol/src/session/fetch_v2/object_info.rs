//! Arguments of `object-info` (gitprotocol-v2, "object-info").

use super::super::{ObjectInfoRequest, Output, Outputs, ServiceConfig, push_capped};
use super::FetchV2State;
use crate::message::parse_id;
use crate::refusal::Refusal;
use crate::wire::pkt_line::{PktLine, text};

/// Arguments so far.
#[derive(Debug, Default)]
pub(super) struct ObjectInfoArguments(ObjectInfoRequest);

impl ObjectInfoArguments {
    pub(super) fn take(
        mut self,
        packet: PktLine<'_>,
        config: &ServiceConfig,
        outputs: &mut Outputs,
    ) -> Result<FetchV2State, Refusal> {
        let payload = match packet {
            PktLine::Data(payload) => payload,
            PktLine::Flush => {
                outputs.push(Output::NeedObjectInfo(self.0));
                return Ok(FetchV2State::SendingObjectInfo);
            }
            _ => return Err(Refusal::command_expected_flush("object-info")),
        };
        let line = text(payload);
        if line == b"size" {
            self.0.size = true;
        } else if let Some(id) = line.strip_prefix(b"oid ") {
            let id = parse_id(id, config.hash).ok_or_else(|| Refusal::object_info_expected_oid(id))?;
            push_capped(&mut self.0.ids, id, "objects", config.limits.wants)?;
        } else {
            return Err(Refusal::object_info_unexpected_line(line));
        }
        Ok(FetchV2State::ObjectInfoArguments(self))
    }
}
