//! Headers of the sections of a `fetch` answer in version 2 (gitprotocol-v2, "fetch").

use crate::wire::pkt_line::write_text;

/// The sections, in the order in which they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// The common haves.
    Acknowledgments,
    /// Changes of the shallow boundary.
    ShallowInfo,
    /// The objects that `want-ref` lines resolved to.
    WantedRefs,
    /// Locations of parts of the pack.
    PackfileUris,
    /// The pack, in side-band packets.
    Packfile,
}

impl Section {
    const ALL: [Section; 5] = [
        Section::Acknowledgments,
        Section::ShallowInfo,
        Section::WantedRefs,
        Section::PackfileUris,
        Section::Packfile,
    ];

    /// The header's line.
    pub fn name(self) -> &'static str {
        match self {
            Section::Acknowledgments => "acknowledgments",
            Section::ShallowInfo => "shallow-info",
            Section::WantedRefs => "wanted-refs",
            Section::PackfileUris => "packfile-uris",
            Section::Packfile => "packfile",
        }
    }

    /// Appends the header.
    pub fn write_header(self, out: &mut Vec<u8>) {
        write_text(self.name(), out);
    }

    /// Parses a header.
    pub fn parse(line: &[u8]) -> Option<Section> {
        Section::ALL.into_iter().find(|section| section.name().as_bytes() == line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_both_ways() {
        assert!(Section::ALL.is_sorted());
        for section in Section::ALL {
            let mut out = Vec::new();
            section.write_header(&mut out);
            assert_eq!(Section::parse(&out[4..out.len() - 1]), Some(section));
        }
        assert_eq!(Section::parse(b"acknowledgements"), None);
        assert_eq!(Section::parse(b""), None);
    }
}
