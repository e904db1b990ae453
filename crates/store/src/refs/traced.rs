//! Lines of `GIT_TRACE_REFS` (git(1)) for what is read and changed here, in git's words. Git documents none of them. Those of
//! its iteration over directories and of its own second looks have no counterpart.

use packrace_os::trace::{self, TraceDetail, TraceStep};

use super::reflog::LoggedChange;
use super::{Target, Value};

/// Whether somebody wants to know.
#[inline]
pub(super) fn is_on() -> bool {
    trace::wants(TraceDetail::Refs)
}

pub(super) fn tell(line: &str) {
    trace::tell(TraceStep::Detail(TraceDetail::Refs, line));
}

pub(super) fn text(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}

/// One ref was looked up.
pub(super) fn looked_up(name: &[u8], found: Option<&Value>, is_packed: bool) {
    if !is_on() {
        return;
    }
    let name = text(name);
    tell(&match found {
        None => format!("read_raw_ref: {name}: -1 (errno 2)"),
        Some(Value::Id(id)) => {
            format!("read_raw_ref: {name}: {id} (=> ) type {}: 0", if is_packed { 2 } else { 0 })
        }
        // Git shows a null id of SHA-1 in place of what the ref leads to.
        Some(Value::Symbolic(target)) => {
            format!("read_raw_ref: {name}: {:040} (=> {}) type 1: 0", 0, text(target))
        }
    });
}

/// The same in a list of refs that was read before.
pub(super) fn looked_up_in_list(name: &[u8], found: Option<&Target<'_>>) {
    if is_on() {
        let value = found.map(|target| match target {
            Target::Direct { id, .. } => Value::Id(*id),
            Target::Symbolic(to) => Value::Symbolic(to.to_vec()),
        });
        looked_up(name, value.as_ref(), false);
    }
}

/// A visit of refs. Whether somebody wants to know is asked once: there may be a million.
pub(super) struct TracedVisit(bool);

impl TracedVisit {
    /// Refs from a name or a prefix on are visited.
    pub(super) fn begin(start: &[u8], has_broken: bool) -> Self {
        let is_on = is_on();
        if is_on {
            let flags = if has_broken { 5 } else { 1 };
            tell(&format!("ref_iterator_begin: \"{}\" (0x{flags})", text(start)));
        }
        TracedVisit(is_on)
    }

    #[inline]
    pub(super) fn met(&self, name: &[u8]) {
        if self.0 {
            tell(&format!("iterator_advance: {} (0)", text(name)));
        }
    }

    /// It is over; `is_whole` if not because somebody had seen enough.
    pub(super) fn end(self, is_whole: bool) {
        if self.0 && is_whole {
            tell("iterator_advance: (-1)");
        }
        if self.0 {
            tell("iterator_abort");
        }
    }
}

/// The entries of a reflog were read.
pub(super) fn log_read(name: &[u8], entries: &[LoggedChange]) {
    let name = text(name);
    for LoggedChange { old, new, who, message, .. } in entries {
        // Without the zone, as git shows it.
        let who = text(who);
        let who = who.rsplit_once(' ').map_or(&*who, |(before, _)| before);
        tell(&format!("reflog_ent {name} (ret 0): {old} -> {new}, {who} \"{}\"", text(message)));
    }
    tell(&format!("for_each_reflog: {name}: 0"));
}
