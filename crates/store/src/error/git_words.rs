//! Errors of which git says more than one line.

use std::path::PathBuf;

use packrace_format::loose_object::GARBAGE_AT_END;
use packrace_object::ObjectId;

use super::{Error, Reason};

impl Error {
    /// The same fault of an entry, of this object: `base` is the delta base that has it, by the offset of the entry.
    pub(crate) fn of_packed(
        self,
        id: ObjectId,
        path: PathBuf,
        base: impl FnOnce(u64) -> Option<ObjectId>,
    ) -> Self {
        let base = match &self.0 {
            // The base may be in another pack.
            Reason::DamagedEntry { pack, offset, .. } if path.ends_with(format!("{pack}.pack")) => {
                base(*offset)
            }
            Reason::DamagedEntry { .. } | Reason::BadCrc(_) => None,
            _ => return self,
        };
        Reason::DamagedPacked { id, path, fault: Box::new(self), base }.into()
    }

    /// What git says if it is more than one line: the lines of `error:`, and the last message. The error's own text is one
    /// line, with the cause in it.
    pub fn in_git_words(&self) -> Option<(String, String)> {
        match &self.0 {
            Reason::DamagedPacked { id, path, fault, base } => {
                let path = path.display();
                let mut lines = format!("error: {}\n", of_fault(fault));
                if let Reason::DamagedEntry { offset, delta_at, .. } = &fault.0 {
                    if let Some(at) = delta_at {
                        lines +=
                            &format!("error: failed to unpack compressed delta at offset {at} from {path}\n");
                    }
                    if let Some(base) = base {
                        let base = format!("delta base object {base} at offset {offset} from {path}");
                        lines += &format!("error: failed to read {base}\n");
                    }
                }
                Some((lines, format!("packed object {id} (stored in {path}) is corrupt")))
            }
            Reason::Setting { why, place } => Some((format!("error: {why}\n"), place.clone())),
            Reason::DamagedLoose { id, path, what, is_header } => {
                let last = format!("loose object {id} (stored in {}) is corrupt", path.display());
                Some((of_loose(id, what, *is_header), last))
            }
            _ => None,
        }
    }
}

fn of_fault(fault: &Error) -> String {
    match &fault.0 {
        Reason::DamagedEntry { what, .. } if is_of_stream(what) => (*what).to_owned(),
        _ => fault.to_string(),
    }
}

fn of_loose(id: &ObjectId, what: &str, is_header: bool) -> String {
    if what == GARBAGE_AT_END {
        return format!("error: {what} of loose object '{id}'\n");
    }
    let stream = if is_of_stream(what) { format!("error: {what}\n") } else { String::new() };
    let place = match (is_header, what) {
        (false, _) => format!("corrupt loose object '{id}'"),
        (true, "header does not end") => format!("header for {id} too long, exceeds 32 bytes"),
        (true, what) if is_of_stream(what) => format!("unable to unpack {id} header"),
        (true, _) => format!("unable to parse {id} header"),
    };
    format!("{stream}error: {place}\n")
}

/// Whether zlib found the fault.
fn is_of_stream(what: &str) -> bool {
    what.starts_with("inflate: ")
}
