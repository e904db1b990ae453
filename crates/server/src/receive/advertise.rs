//! The refs that a pushing client sees: those of the namespace, and as `.have` the tips of other history in
//! this repository.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;

use packrace_object::{ObjectId, StoredId};
use packrace_os::child::{ChildProcess, Program};
use packrace_protocol::message::advertisement;
use packrace_protocol::message::push_offer::PushOffer;
use packrace_protocol::wire::pkt_line;
use packrace_store::refs::{RefSnapshot, StoredRef, Target};
use packrace_store::{OpenOptions, Repository, SkippedRefs};

use super::settings::PushSettings;
use super::{ReceivePack, Subject};
use crate::error::Error;
use crate::refs::lines::Lines;

/// The name for tips that are no refs of the namespace.
const HAVE: &[u8] = b".have";

/// The most output that `core.alternateRefsCommand` may write.
const MAX_COMMAND_BYTES: usize = 64 << 20;

/// Writes the advertisement, flush included.
pub(super) fn refs(
    call: &ReceivePack,
    settings: &PushSettings,
    offer: &PushOffer,
    namespace: &[u8],
    lines: &mut Lines<'_>,
) -> Result<(), Error> {
    let mut capabilities = Some(offer.capabilities());
    let mut seen = HashSet::new();
    let refs = call.subject.repository.refs().snapshot(&[])?;
    let mut skipped = SkippedRefs::of(&call.subject.repository)?;
    visit(&refs, |name, id| {
        let short = name.strip_prefix(namespace);
        if settings.hidden.hides_ref(short, name) || skipped.has(name, &id)? {
            return Ok(());
        }
        let is_new = seen.insert(id);
        if short.is_some() || is_new {
            let capabilities = capabilities.take();
            let name = short.unwrap_or(HAVE);
            advertisement::write_v0_ref(lines.out, StoredId::from(&id), name, capabilities.as_deref());
        }
        lines.send_if_full()
    })?;
    for dir in call.subject.repository.borrowed_object_dirs() {
        for id in tips_of_alternate(&call.subject, &dir) {
            if seen.insert(id) {
                let capabilities = capabilities.take();
                advertisement::write_v0_ref(lines.out, StoredId::from(&id), HAVE, capabilities.as_deref());
                lines.send_if_full()?;
            }
        }
    }
    if let Some(capabilities) = capabilities {
        advertisement::write_v0_no_refs(lines.out, &capabilities, offer.hash);
    }
    for id in call.subject.repository.unlisted_snapshot()?.shallow()? {
        advertisement::write_v0_shallow(lines.out, id);
    }
    refs.check_unchanged()?;
    lines.out.extend_from_slice(pkt_line::FLUSH);
    Ok(())
}

/// Calls `each` with every ref below `refs/` that resolves to an object.
pub(super) fn visit(
    refs: &RefSnapshot,
    mut each: impl FnMut(&[u8], ObjectId) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut result = Ok(());
    let all = packrace_store::refs::NameRange::of_prefix(b"refs/");
    refs.visit_range(&all, |StoredRef { name, target }| {
        let id = match target {
            Target::Direct { id, .. } => Ok(Some(id.to_id())),
            Target::Symbolic(_) => refs.resolve(name).map(|resolved| resolved.map(|resolved| resolved.id)),
        };
        result = match id {
            Ok(Some(id)) => each(name, id),
            Ok(None) => Ok(()),
            Err(error) => Err(error.into()),
        };
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    result
}

/// The objects that the refs of an alternate point to; none if it cannot be read, as in git.
pub(super) fn tips_of_alternate(subject: &Subject, object_dir: &Path) -> Vec<ObjectId> {
    let Some(dir) = object_dir.parent().filter(|_| object_dir.ends_with("objects")) else {
        return Vec::new();
    };
    let config = subject.repository.config();
    if let Some(command) = config.string("core.alternateRefsCommand") {
        return tips_of_command(subject, &command, dir);
    }
    let prefixes = config.string("core.alternateRefsPrefixes").unwrap_or_default();
    let prefixes: Vec<&[u8]> =
        prefixes.split(|byte| *byte == b' ').filter(|prefix| !prefix.is_empty()).collect();
    let mut tips = Vec::new();
    let options = OpenOptions { strict: true, ..OpenOptions::default() };
    let found = Repository::open(dir, &options).map_err(Error::from).and_then(|other| {
        let refs = other.refs().snapshot(&[])?;
        visit(&refs, |name, id| {
            if prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                tips.push(id);
            }
            Ok(())
        })
    });
    if let Err(error) = found {
        tracing::debug!("refs of {}: {error}", dir.display());
    }
    tips
}

/// `core.alternateRefsCommand`: one object name per line.
fn tips_of_command(subject: &Subject, command: &[u8], dir: &Path) -> Vec<ObjectId> {
    use std::os::unix::ffi::OsStringExt as _;
    let script = std::ffi::OsString::from_vec([command, b" \"$@\""].concat());
    let name = std::ffi::OsString::from_vec(command.to_vec());
    let argv = vec!["/bin/sh".into(), "-c".into(), script, name, dir.into()];
    let program = Program {
        argv,
        hook: None,
        directory: subject.repository.git_dir().to_owned(),
        environment: vec![("GIT_DIR".into(), None)],
        reads_messages: false,
        confinement: subject.confinement.clone(),
    };
    let mut said = Vec::new();
    let run = ChildProcess::start(&program).and_then(|child| {
        child.run(b"", &mut |bytes| {
            let room = MAX_COMMAND_BYTES - said.len();
            said.extend_from_slice(&bytes[..bytes.len().min(room)]);
        })
    });
    match run {
        Ok(status) if status.success() => {}
        _ => tracing::warn!("core.alternateRefsCommand failed for {}", dir.display()),
    }
    let lines = said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map_while(|line| ObjectId::from_hex(line).ok()).collect()
}
