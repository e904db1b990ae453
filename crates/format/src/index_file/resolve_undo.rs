//! Resolved conflicts, kept so that they can be restored.

use packrace_object::{HashKind, ObjectId, StoredId};

use super::until;

/// The sides of a conflict: mode and object of stages 1 to 3, if they existed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolveUndo {
    /// The path.
    pub path: Vec<u8>,
    /// The mode's bits, as read, and the object.
    pub stages: [Option<(u32, ObjectId)>; 3],
}

impl ResolveUndo {
    /// Reads the extension `REUC`; `None` if it is damaged.
    pub(super) fn decode(mut rest: &[u8], hash: HashKind) -> Option<Vec<Self>> {
        let mut found = Vec::new();
        while !rest.is_empty() {
            let path = until(&mut rest, 0)?.to_vec();
            let mut modes = [0; 3];
            for mode in &mut modes {
                *mode = u32::from_str_radix(str::from_utf8(until(&mut rest, 0)?).ok()?, 8).ok()?;
            }
            let mut stages = [None; 3];
            for (stage, mode) in stages.iter_mut().zip(modes).filter(|(_, mode)| *mode != 0) {
                *stage = Some((mode, StoredId::raw(rest, 0, hash)?.to_id()));
                rest = &rest[hash.len_in_bytes()..];
            }
            found.push(ResolveUndo { path, stages });
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Some(found)
    }

    /// Appends this conflict to the extension.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.path);
        out.push(0);
        for stage in &self.stages {
            out.extend_from_slice(format!("{:o}\0", stage.map_or(0, |(mode, _)| mode)).as_bytes());
        }
        for (_, id) in self.stages.iter().flatten() {
            out.extend_from_slice(id.as_slice());
        }
    }
}
