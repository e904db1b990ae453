//! Counts of calls and bytes by role, for the whole process.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the bytes of a call belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The connection to a Git client: stdio or a socket.
    Client,
    /// Pack files.
    Pack,
    /// Files that index packs: idx, rev, midx, bitmap, commit-graph.
    Index,
    /// Loose refs, packed-refs, reftables, reflogs.
    Refs,
    /// Loose objects.
    Objects,
    /// The pipes of a program that makes packs.
    Hook,
    /// The index of a work tree, and the files in it.
    WorkTree,
    /// Configuration and everything else about a repository.
    Config,
    /// Unlinked files with data that may be sent again.
    Cache,
}

/// The kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A read, positioned or not.
    Read,
    /// A write, gathered or plain.
    Write,
    /// A file mapped into memory; its bytes are the length of the map.
    Map,
    /// A directory listing, stat or other query of names.
    Look,
    /// A wait for readiness.
    Wait,
    /// A file or directory made durable.
    Sync,
    /// A file, directory or link created, or a file opened for appending.
    Create,
    /// A name changed.
    Rename,
    /// A name removed.
    Remove,
    /// The mode or times of a file changed.
    Attribute,
}

const ROLES: [(Role, &str); 9] = [
    (Role::Client, "client"),
    (Role::Pack, "pack"),
    (Role::Index, "index"),
    (Role::Refs, "refs"),
    (Role::Objects, "objects"),
    (Role::Hook, "hook"),
    (Role::WorkTree, "worktree"),
    (Role::Config, "config"),
    (Role::Cache, "cache"),
];
const OPS: [(Op, &str); 10] = [
    (Op::Read, "read"),
    (Op::Write, "write"),
    (Op::Map, "map"),
    (Op::Look, "look"),
    (Op::Wait, "wait"),
    (Op::Sync, "sync"),
    (Op::Create, "create"),
    (Op::Rename, "rename"),
    (Op::Remove, "remove"),
    (Op::Attribute, "attribute"),
];

struct Cell {
    calls: AtomicU64,
    bytes: AtomicU64,
}

static CELLS: [[Cell; OPS.len()]; ROLES.len()] =
    [const { [const { Cell { calls: AtomicU64::new(0), bytes: AtomicU64::new(0) } }; OPS.len()] };
        ROLES.len()];

/// Adds one call that moved `bytes`.
pub fn add(role: Role, op: Op, bytes: usize) {
    let cell = &CELLS[role as usize][op as usize];
    cell.calls.fetch_add(1, Relaxed);
    cell.bytes.fetch_add(bytes as u64, Relaxed);
}

/// Calls and bytes so far.
pub fn so_far(role: Role, op: Op) -> (u64, u64) {
    let cell = &CELLS[role as usize][op as usize];
    (cell.calls.load(Relaxed), cell.bytes.load(Relaxed))
}

/// The number of calls by role and operation, without zeros.
pub fn all_calls() -> Vec<(&'static str, &'static str, u64)> {
    let all = ROLES.iter().flat_map(|role| OPS.iter().map(move |op| (role, op)));
    let counted = all.map(|((role, role_name), (op, op_name))| (*role_name, *op_name, so_far(*role, *op).0));
    counted.filter(|(_, _, calls)| *calls > 0).collect()
}

/// All counts that are not zero, as a JSON object: `{"client":{"write":{"calls":3,"bytes":70}}}`.
pub fn report() -> String {
    let mut json = String::from("{");
    for (role, role_name) in ROLES {
        let mut inner = String::new();
        for (op, op_name) in OPS {
            let (calls, bytes) = so_far(role, op);
            if calls > 0 {
                let comma = if inner.is_empty() { "" } else { "," };
                // Writing to a String cannot fail.
                let _ = write!(inner, "{comma}\"{op_name}\":{{\"calls\":{calls},\"bytes\":{bytes}}}");
            }
        }
        if !inner.is_empty() {
            let comma = if json.len() == 1 { "" } else { "," };
            let _ = write!(json, "{comma}\"{role_name}\":{{{inner}}}");
        }
    }
    json.push('}');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_appear_in_the_report() {
        add(Role::Refs, Op::Look, 5);
        let (calls, bytes) = so_far(Role::Refs, Op::Look);
        assert!(calls >= 1 && bytes >= 5);
        assert!(report().contains("\"refs\":{"), "{}", report());
    }
}
