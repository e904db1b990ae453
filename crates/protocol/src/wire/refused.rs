//! The packets that tell a peer of a refusal.

use super::pkt_line;
use super::sideband::{self, Band};
use crate::refusal::Refusal;

impl Refusal {
    /// The `ERR` packet for the peer.
    pub fn wire(&self) -> Option<Vec<u8>> {
        let text = self.told_peer()?;
        let mut packet = Vec::new();
        let end = text.len().min(pkt_line::MAX_PAYLOAD - 4);
        pkt_line::write_data(&[b"ERR ", &text.as_bytes()[..end]].concat(), &mut packet);
        Some(packet)
    }

    /// As above, for a client that wants the whole answer in a side-band: a packet in band 3.
    pub(crate) fn wire_in_band(&self) -> Option<Vec<u8>> {
        let text = self.told_peer()?;
        let mut packet = Vec::new();
        let end = text.len().min(sideband::LARGE_FRAME_PAYLOAD);
        sideband::write_packets(
            Band::Error,
            &text.as_bytes()[..end],
            sideband::LARGE_FRAME_PAYLOAD,
            &mut packet,
        );
        Some(packet)
    }
}
