//! Arguments of `ls-refs` (gitprotocol-v2, "ls-refs").

use super::super::{MAX_PREFIXES, Output, Outputs, RefsRequest, ServiceConfig};
use super::FetchV2State;
use crate::refusal::Refusal;
use crate::wire::pkt_line::{PktLine, text};

/// Arguments of `ls-refs` so far.
#[derive(Debug, Default)]
pub(super) struct RefsArguments {
    request: RefsRequest,
    /// The number of `ref-prefix` lines, up to [`MAX_PREFIXES`].
    prefixes: usize,
    prefix_bytes: usize,
}

impl RefsArguments {
    pub(super) fn take(
        mut self,
        packet: PktLine<'_>,
        config: &ServiceConfig,
        outputs: &mut Outputs,
    ) -> Result<FetchV2State, Refusal> {
        let payload = match packet {
            PktLine::Data(payload) => payload,
            PktLine::Flush => {
                outputs.push(Output::NeedRefs(self.request));
                return Ok(FetchV2State::SendingRefs);
            }
            _ => return Err(Refusal::expected_flush("ls-refs arguments")),
        };
        match text(payload) {
            b"symrefs" => self.request.symrefs = true,
            b"peel" => self.request.peel = true,
            b"unborn" => self.request.unborn = config.allow_unborn,
            line => match line.strip_prefix(b"ref-prefix ") {
                Some(prefix) => self.take_prefix(prefix, config.limits.name_bytes),
                None => return Err(Refusal::unexpected_line(line)),
            },
        }
        Ok(FetchV2State::RefsArguments(self))
    }

    /// Stores a prefix. If there are too many, all of them are ignored.
    fn take_prefix(&mut self, prefix: &[u8], max_bytes: usize) {
        self.prefix_bytes = self.prefix_bytes.saturating_add(prefix.len());
        self.prefixes += 1;
        if self.prefixes >= MAX_PREFIXES || self.prefix_bytes > max_bytes {
            self.request.prefixes = Vec::new();
            // No later line may reduce the count below the limit again.
            self.prefixes = MAX_PREFIXES;
            return;
        }
        self.request.prefixes.push(prefix.to_vec());
    }
}
