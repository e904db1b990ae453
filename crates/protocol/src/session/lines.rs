//! Lines shared by version 0 and version 2.

use packrace_object::{HashKind, ObjectId};

use super::{Deepen, RequestLimits, ShallowAnswer, push_capped};
use crate::message::{parse_id, shallow_info};
use crate::refusal::Refusal;

/// Unlimited depth, as requested by `git fetch --unshallow`. Larger numbers are invalid, as in git.
const MAX_DEPTH: u32 = 0x7fff_ffff;

/// The depth arguments of a request.
#[derive(Debug, Default)]
pub(super) struct Depth {
    pub(super) client_shallow: Vec<ObjectId>,
    depth: Option<u32>,
    is_relative: bool,
    since: Option<i64>,
    not: Vec<Vec<u8>>,
    /// The length of all of `not`.
    not_bytes: usize,
}

impl Depth {
    /// Takes a line if it concerns depth.
    pub(super) fn take(
        &mut self,
        line: &[u8],
        hash: HashKind,
        limits: &RequestLimits,
    ) -> Result<bool, Refusal> {
        if let Some(id) = line.strip_prefix(b"shallow ") {
            let id = parse_id(id, hash).ok_or_else(|| Refusal::invalid_shallow(line))?;
            push_capped(&mut self.client_shallow, id, "shallow lines", limits.shallow)?;
        } else if let Some(depth) = line.strip_prefix(b"deepen ") {
            let depth = parse_number(depth).and_then(|depth| u32::try_from(depth).ok());
            let depth = depth.filter(|depth| (1..=MAX_DEPTH).contains(depth));
            self.depth = Some(depth.ok_or_else(|| Refusal::invalid_deepen(line))?);
        } else if let Some(seconds) = line.strip_prefix(b"deepen-since ") {
            self.since = Some(parse_number(seconds).ok_or_else(|| Refusal::invalid_deepen_since(line))?);
        } else if let Some(name) = line.strip_prefix(b"deepen-not ") {
            self.not_bytes += name.len();
            if self.not_bytes > limits.name_bytes {
                return Err(Refusal::too_many("bytes of deepen-not lines", limits.name_bytes));
            }
            push_capped(&mut self.not, name.to_vec(), "deepen-not lines", limits.options)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// `deepen-relative` is a capability in version 0 and a line in version 2.
    pub(super) fn set_relative(&mut self) {
        self.is_relative = true;
    }

    /// The requested depth, if any.
    pub(super) fn deepen(&mut self) -> Result<Option<Deepen>, Refusal> {
        let by_selection = self.since.is_some() || !self.not.is_empty();
        match self.depth {
            Some(_) if by_selection => Err(Refusal::deepen_both_ways()),
            Some(depth) if self.is_relative => Ok(Some(Deepen::Relative(depth))),
            Some(depth) => Ok(Some(Deepen::Depth(depth))),
            None if by_selection => {
                Ok(Some(Deepen::Since { seconds: self.since, not: std::mem::take(&mut self.not) }))
            }
            None => Ok(None),
        }
    }
}

fn parse_number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

pub(super) fn write_shallow_lines(answer: &ShallowAnswer, out: &mut Vec<u8>) {
    answer.shallow.iter().for_each(|id| shallow_info::write_shallow(out, id));
    answer.unshallow.iter().for_each(|id| shallow_info::write_unshallow(out, id));
}

/// Checks that the client uses the same hash.
pub(super) fn check_object_format(name: &[u8], server: HashKind) -> Result<(), Refusal> {
    let client = match name {
        b"sha1" => HashKind::Sha1,
        b"sha256" => HashKind::Sha256,
        other => return Err(Refusal::unknown_object_format(other)),
    };
    if client != server {
        return Err(Refusal::mismatched_object_format(server, client));
    }
    Ok(())
}
