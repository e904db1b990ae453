//! Answers about refs: the advertisement of version 0, and `ls-refs`.
//! [`crate::repository_cache::RefAdvertisementCache`] keeps them, and they are sent again until a ref
//! changes.

use packrace_object::StoredId;
use packrace_pack::RequestObjects;
use packrace_protocol::message::{advertisement, ls_refs};
use packrace_protocol::session::RefsRequest;
use packrace_protocol::wire::pkt_line;

use super::serve::Upload;
use super::settings::UploadSettings;
use crate::error::Error;
use crate::refs::lines::Lines;
use crate::refs::view::{RefsView, VisibleRef, disjoint};
use crate::repository_cache::StoredAnswer;
use crate::send::outbox::ClientSink;
use crate::subject::{CallMode, Subject};

/// The last part of a kept answer is copied next to what follows it, if it is shorter than this.
const SHORT_ANSWER_BYTES: usize = 64 << 10;

impl Upload<'_> {
    /// Writes the advertisement of version 0, flush included.
    pub(super) fn advertise_refs(&mut self) -> Result<(), Error> {
        let is_http = self.call.subject.mode == CallMode::Advertise;
        let Upload { call, client, settings, config, request_objects, namespace, out, .. } = self;
        // Everything but the refs. A session id is never the same again.
        let capabilities = advertisement::v0_capabilities(config, None, is_http);
        let question =
            config.session_id.is_none().then(|| question("advertisement", &[namespace, &capabilities]));
        let asked =
            Asked { subject: &call.subject, settings, request_objects, namespace, question, prefixes: &[] };
        asked.answer(out, *client, |view, lines| {
            let head = view.head()?;
            let head_target = head.as_ref().and_then(|head| head.id.and(head.target.as_deref()));
            let mut capabilities = Some(advertisement::v0_capabilities(config, head_target, is_http));
            if let Some(id) = head.and_then(|head| head.id) {
                let id = StoredId::from(&id);
                advertisement::write_v0_ref(lines.out, id, b"HEAD", capabilities.take().as_deref());
            }
            view.visit(&[], true, |line: VisibleRef<'_>| {
                advertisement::write_v0_ref(lines.out, line.id, line.name, capabilities.take().as_deref());
                if let Some(peeled) = line.peeled {
                    advertisement::write_v0_peeled(lines.out, peeled, line.name);
                }
                lines.send_if_full()
            })?;
            if let Some(capabilities) = capabilities {
                advertisement::write_v0_no_refs(lines.out, &capabilities, config.hash);
            }
            for id in request_objects.snapshot().shallow()? {
                advertisement::write_v0_shallow(lines.out, id);
            }
            lines.out.extend_from_slice(pkt_line::FLUSH);
            Ok(())
        })
    }

    /// Answers `ls-refs`.
    pub(super) fn send_refs(&mut self, request: &RefsRequest) -> Result<(), Error> {
        let Upload { call, client, settings, request_objects, namespace, out, .. } = self;
        let in_namespace = |name: &[u8]| [namespace.as_slice(), name].concat();
        let mut full: Vec<Vec<u8>> = request.prefixes.iter().map(|prefix| in_namespace(prefix)).collect();
        if !full.is_empty() {
            full.push(in_namespace(b"HEAD"));
        }
        let full: Vec<&[u8]> = full.iter().map(Vec::as_slice).collect();
        let wants_head =
            request.prefixes.is_empty() || request.prefixes.iter().any(|prefix| b"HEAD".starts_with(prefix));
        let flags = [request.peel, request.symrefs, request.unborn, wants_head].map(u8::from);
        let mut parts: Vec<&[u8]> = vec![namespace, &flags];
        parts.extend(disjoint(&request.prefixes));
        let question = Some(question("ls-refs", &parts));
        let asked =
            Asked { subject: &call.subject, settings, request_objects, namespace, question, prefixes: &full };
        asked.answer(out, *client, |view, lines| {
            if let Some(head) = view.head()?.filter(|_| wants_head) {
                let target = head.target.as_deref();
                match (head.id, target) {
                    (Some(id), _) => {
                        let target = target.filter(|_| request.symrefs);
                        ls_refs::write_ref(lines.out, StoredId::from(&id), b"HEAD", target, None);
                    }
                    (None, Some(target)) if request.unborn => {
                        ls_refs::write_unborn_head(lines.out, target);
                    }
                    (None, _) => {}
                }
            }
            view.visit(&request.prefixes, request.peel, |line: VisibleRef<'_>| {
                let target = line.symref_target.filter(|_| request.symrefs);
                ls_refs::write_ref(lines.out, line.id, line.name, target, line.peeled);
                lines.send_if_full()
            })
        })
    }
}

/// A question about refs, and what its answer needs.
struct Asked<'a> {
    subject: &'a Subject,
    settings: &'a UploadSettings,
    request_objects: &'a RequestObjects,
    namespace: &'a [u8],
    /// What the answer depends on beside the repository, its configuration and its refs; `None` if it is not
    /// kept.
    question: Option<Vec<u8>>,
    /// The prefixes of the requested full names; empty for all refs.
    prefixes: &'a [&'a [u8]],
}

impl Asked<'_> {
    /// Sends the kept answer, or the one that `tell` writes.
    fn answer(
        &self,
        out: &mut Vec<u8>,
        client: &mut dyn ClientSink,
        tell: impl FnOnce(&RefsView<'_>, &mut Lines<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Subject { repository, host, .. } = self.subject;
        let question =
            self.question.as_deref().filter(|question| host.ref_advertisements.room_for(question) > 0);
        let view_of = |refs| {
            let view =
                RefsView::new(refs, self.request_objects.snapshot(), &self.settings.hidden, self.namespace);
            view.with_broken(repository)
        };
        let lines = |out, client| Lines::new(out, client, self.settings.batch_bytes);
        let Some(question) = question else {
            let refs = repository.refs().snapshot(self.prefixes)?;
            let view = view_of(&refs)?;
            tell(&view, &mut lines(out, client))?;
            return view.check();
        };
        if let Some(answer) = host.ref_advertisements.find(repository, question) {
            host.metrics.answer_hits.inc();
            return send(&answer, lines(out, client));
        }
        host.metrics.answer_misses.inc();
        let (refs, stamp) = repository.refs().stamped_snapshot(self.prefixes)?;
        let view = view_of(&refs)?;
        if !stamp.is_settled() {
            tell(&view, &mut lines(out, client))?;
            return view.check();
        }
        let mut lines = lines(out, client).kept(host.ref_advertisements.room_for(question));
        tell(&view, &mut lines)?;
        view.check()?;
        if let Some(chunks) = lines.end().filter(|_| view.has_read_all()) {
            host.ref_advertisements.keep(repository, question, stamp, chunks);
        }
        Ok(())
    }
}

/// Sends a kept answer.
fn send(answer: &StoredAnswer, mut lines: Lines<'_>) -> Result<(), Error> {
    for chunk in answer.chunks() {
        if chunk.bytes().len() < SHORT_ANSWER_BYTES {
            lines.out.extend_from_slice(chunk.bytes());
            lines.send_if_full()?;
        } else {
            lines.send_batch(chunk.to_batch())?;
        }
    }
    Ok(())
}

/// A key of a question and its parts; lengths keep the parts apart.
fn question(what: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut text = what.as_bytes().to_vec();
    for part in parts {
        text.extend_from_slice(&(part.len() as u64).to_le_bytes());
        text.extend_from_slice(part);
    }
    text
}
