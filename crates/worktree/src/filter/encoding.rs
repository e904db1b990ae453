//! `working-tree-encoding` (gitattributes): text is UTF-8 in objects and in another encoding in the work
//! tree.
//!
//! The Unicode encodings and ISO 8859-1 are implemented here, to match the C library's `iconv`, which git
//! uses; others come from `encoding_rs`, with the WHATWG's tables.

use crate::paths::AttributeState;

/// The encoding of a path's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Encoding {
    /// The attribute's value.
    pub(super) name: String,
    form: ByteForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteForm {
    /// UTF-16 (2 bytes per unit) or UTF-32 (4).
    Wide {
        unit_bytes: usize,
        order: ByteOrder,
    },
    Latin1,
    Other(&'static encoding_rs::Encoding),
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteOrder {
    /// According to a required byte order mark.
    Marked,
    Big,
    Little,
    /// Little endian, with a mark.
    LittleMarked,
}

/// The problem of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EncodingRefusal {
    /// A hint to print first.
    pub(super) hint: Option<String>,
    /// The error.
    pub(super) error: String,
}

impl Encoding {
    /// The encoding in the attribute; `None` if it is UTF-8, an error if the value is missing.
    pub(super) fn of(state: &AttributeState) -> Result<Option<Self>, String> {
        let name = match state {
            AttributeState::Unspecified | AttributeState::Unset => return Ok(None),
            AttributeState::Set => return Err("true/false are no valid working-tree-encodings".to_owned()),
            AttributeState::Value(name) => name,
        };
        Ok(Self::named(name))
    }

    /// The encoding with this name; `None` for UTF-8.
    fn named(name: &[u8]) -> Option<Self> {
        let name = String::from_utf8_lossy(name).into_owned();
        let upper = name.to_ascii_uppercase();
        let short = upper.strip_prefix("UTF").map(|rest| rest.strip_prefix('-').unwrap_or(rest));
        let wide = |unit_bytes, order| ByteForm::Wide { unit_bytes, order };
        let form = match (upper.as_str(), short) {
            ("", _) | (_, Some("8")) => return None,
            (_, Some("16")) => wide(2, ByteOrder::Marked),
            (_, Some("16BE")) => wide(2, ByteOrder::Big),
            (_, Some("16LE")) => wide(2, ByteOrder::Little),
            (_, Some("16LE-BOM")) => wide(2, ByteOrder::LittleMarked),
            (_, Some("32")) => wide(4, ByteOrder::Marked),
            (_, Some("32BE")) => wide(4, ByteOrder::Big),
            (_, Some("32LE")) => wide(4, ByteOrder::Little),
            ("ISO-8859-1" | "ISO8859-1" | "ISO_8859-1" | "LATIN1" | "LATIN-1" | "L1", _) => ByteForm::Latin1,
            _ => gix_filter::worktree::encoding::for_label(name.as_str())
                .map_or(ByteForm::Unknown, ByteForm::Other),
        };
        Some(Encoding { name, form })
    }

    /// Converts a file of the work tree to UTF-8.
    pub(super) fn to_git(&self, content: &[u8], path: &str) -> Result<Vec<u8>, EncodingRefusal> {
        self.check_mark(content, path)?;
        self.decode(content).map(String::into_bytes).ok_or_else(|| EncodingRefusal {
            hint: None,
            error: format!("failed to encode '{path}' from {} to UTF-8", self.name),
        })
    }

    /// Converts UTF-8 to the work tree's encoding; `None` if that is impossible.
    pub(super) fn to_worktree(&self, content: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(content).ok()?;
        match self.form {
            ByteForm::Unknown => None,
            ByteForm::Latin1 => text.chars().map(|char| u8::try_from(u32::from(char)).ok()).collect(),
            ByteForm::Other(encoding) => {
                let (bytes, _, has_failed) = encoding.encode(text);
                (!has_failed).then(|| bytes.into_owned())
            }
            ByteForm::Wide { unit_bytes, order } => {
                let has_mark = matches!(order, ByteOrder::Marked | ByteOrder::LittleMarked);
                let mark = has_mark.then_some('\u{feff}');
                let mut bytes = Vec::with_capacity((text.len() + 1) * unit_bytes);
                let is_big = order == ByteOrder::Big;
                for char in mark.into_iter().chain(text.chars()) {
                    if unit_bytes == 4 {
                        let unit = u32::from(char);
                        bytes.extend(if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() });
                    } else {
                        for unit in char.encode_utf16(&mut [0; 2]) {
                            bytes.extend(if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() });
                        }
                    }
                }
                Some(bytes)
            }
        }
    }

    fn decode(&self, content: &[u8]) -> Option<String> {
        match self.form {
            ByteForm::Unknown => None,
            ByteForm::Latin1 => Some(content.iter().map(|byte| char::from(*byte)).collect()),
            ByteForm::Other(encoding) => {
                encoding.decode_without_bom_handling_and_without_replacement(content).map(String::from)
            }
            ByteForm::Wide { unit_bytes, order } => {
                let (is_big, content) = match order {
                    ByteOrder::Big => (true, content),
                    ByteOrder::Little => (false, content),
                    ByteOrder::Marked | ByteOrder::LittleMarked => after_mark(content, unit_bytes),
                };
                if !content.len().is_multiple_of(unit_bytes) {
                    return None;
                }
                let units = content.chunks_exact(unit_bytes).map(|unit| {
                    let number = |all: u32, byte: &u8| all << 8 | u32::from(*byte);
                    match is_big {
                        true => unit.iter().fold(0, number),
                        false => unit.iter().rev().fold(0, number),
                    }
                });
                if unit_bytes == 4 {
                    return units.map(char::from_u32).collect();
                }
                let units = units.map(|unit| (unit & 0xffff) as u16);
                char::decode_utf16(units).collect::<Result<String, _>>().ok()
            }
        }
    }

    /// Checks that a byte order mark is present or absent, as the encoding requires.
    fn check_mark(&self, content: &[u8], path: &str) -> Result<(), EncodingRefusal> {
        let ByteForm::Wide { unit_bytes, order } = self.form else { return Ok(()) };
        let has_mark = marks(unit_bytes).iter().any(|mark| content.starts_with(mark));
        let name = &self.name;
        let upper = name.to_ascii_uppercase();
        let short = upper.strip_prefix("UTF").map_or("", |rest| rest.strip_prefix('-').unwrap_or(rest));
        match order {
            ByteOrder::Big | ByteOrder::Little if has_mark => Err(EncodingRefusal {
                hint: Some(format!(
                    "hint: The file '{path}' contains a byte order mark (BOM). Please use UTF-{} as working-tree-encoding.",
                    &short[..2]
                )),
                error: format!("BOM is prohibited in '{path}' if encoded as {name}"),
            }),
            ByteOrder::Marked if !has_mark => Err(EncodingRefusal {
                hint: Some(format!(
                    "hint: The file '{path}' is missing a byte order mark (BOM). Please use UTF-{short}BE or UTF-{short}LE \
                     (depending on the byte order) as working-tree-encoding."
                )),
                error: format!("BOM is required in '{path}' if encoded as {name}"),
            }),
            _ => Ok(()),
        }
    }
}

/// Text in another encoding; `None` stands for UTF-8. As in git, text that cannot be converted stays as it is.
pub fn reencoded(text: &[u8], from: Option<&[u8]>, to: Option<&[u8]>) -> Vec<u8> {
    let named = |name: Option<&[u8]>| name.and_then(Encoding::named);
    let (from, to) = (named(from), named(to));
    if from == to {
        return text.to_vec();
    }
    let decoded = match from {
        None => Some(text.to_vec()),
        Some(from) => from.decode(text).map(String::into_bytes),
    };
    let encoded = match to {
        None => decoded,
        Some(to) => decoded.and_then(|text| to.to_worktree(&text)),
    };
    encoded.unwrap_or_else(|| text.to_vec())
}

/// The byte order marks, big and little endian.
fn marks(unit_bytes: usize) -> [&'static [u8]; 2] {
    match unit_bytes {
        4 => [&[0, 0, 0xfe, 0xff], &[0xff, 0xfe, 0, 0]],
        _ => [&[0xfe, 0xff], &[0xff, 0xfe]],
    }
}

/// Whether the mark is big-endian, and the bytes after it.
fn after_mark(content: &[u8], unit_bytes: usize) -> (bool, &[u8]) {
    let [big, little] = marks(unit_bytes);
    match content.strip_prefix(big) {
        Some(rest) => (true, rest),
        None => (false, content.strip_prefix(little).unwrap_or(content)),
    }
}
