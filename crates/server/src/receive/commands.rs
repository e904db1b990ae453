//! A push from its pack to its report.

use std::io::BufRead;
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_os::HeldDir;
use packrace_os::clock::Clock;
use packrace_os::durable::NewFile;
use packrace_protocol::message::push_report::{PushReport, RefOutcome, RefReport, Rewritten};
use packrace_protocol::session::push::{PushInput, PushOutput, PushRequest, PushSession};
use packrace_store::refs::RefSnapshot;
use packrace_store::{Hooks, Quarantine, Snapshot};

use super::ReceivePack;
use super::certificate::CertificateCheck;
use super::client_messages::{ClientMessages, WorkerEvent};
use super::hook_run::run;
use super::landing::Landing;
use super::settings::{ProcReceive, PushSettings, UnpackSettings};
use super::shallow::NewShallow;
use super::unpack::{NotUnpacked, Progress, receive_pack_bytes};
use crate::access::AuditedRef;
use crate::error::Error;
use crate::metrics::Reason;
use crate::program::ReceivedRef;

/// One command and its state.
#[derive(Debug, Clone)]
pub(super) struct ReceivedCommand {
    pub(super) old: ObjectId,
    pub(super) new: ObjectId,
    /// The client's name for the ref.
    pub(super) name: Vec<u8>,
    /// The name including the namespace.
    pub(super) full_name: Vec<u8>,
    /// Why it is rejected.
    pub(super) error: Option<String>,
    /// It deletes a ref, whatever its value: the one that the client knows is the name of no object.
    pub(super) ignores_old: bool,
    /// It deletes a ref that did not exist: the hooks after the push and the journal skip it.
    pub(super) did_not_exist: bool,
    /// Another command of this push makes the same change through another name.
    pub(super) is_done_by_other: bool,
    /// The access rules forbid it: hooks do not see it.
    pub(super) is_forbidden: bool,
    /// The hook `proc-receive` executes it.
    pub(super) is_of_hook: bool,
    pub(super) rewritten: Vec<Rewritten>,
    /// Its history is cut where the repository's was not.
    pub(super) needs_shallow: bool,
}

impl ReceivedCommand {
    pub(super) fn is_delete(&self) -> bool {
        self.new.is_null()
    }

    /// Whether it has changed something: hooks that run afterwards and the journal see it.
    pub(super) fn is_done(&self) -> bool {
        self.error.is_none() && !self.did_not_exist
    }

    /// The change that the client asks for.
    pub(super) fn asked(&self) -> ReceivedRef<'_> {
        ReceivedRef { name: &self.name, old: self.old, new: self.new }
    }

    /// The changes that were made: the one asked for, or those that the hook `proc-receive` made instead.
    pub(super) fn made(&self) -> Vec<ReceivedRef<'_>> {
        match (self.is_done(), self.rewritten.as_slice()) {
            (false, _) => Vec::new(),
            (true, []) => vec![self.asked()],
            (true, rewritten) => rewritten.iter().map(|instead| self.made_instead(instead)).collect(),
        }
    }

    fn made_instead<'a>(&'a self, instead: &'a Rewritten) -> ReceivedRef<'a> {
        ReceivedRef {
            name: instead.name.as_deref().unwrap_or(&self.name),
            old: instead.old.unwrap_or(self.old),
            new: instead.new.unwrap_or(self.new),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.error.is_none() && !self.is_done_by_other
    }

    pub(super) fn reject(&mut self, why: &str) {
        self.error.get_or_insert_with(|| why.to_owned());
    }
}

/// A push and its state.
pub(super) struct Push<'a> {
    pub(super) call: &'a ReceivePack,
    pub(super) clock: &'a dyn Clock,
    pub(super) settings: PushSettings,
    pub(super) namespace: Vec<u8>,
    /// The nonce that the certificate must contain.
    pub(super) nonce: Option<String>,
    pub(super) request: PushRequest,
    pub(super) commands: Vec<ReceivedCommand>,
    pub(super) client: ClientMessages,
    pub(super) hooks: Arc<Hooks>,
    /// Where the history ends for hooks, if it ends where the repository's did not.
    shallow_file: Option<NewFile>,
    pub(super) certificate: Option<CertificateCheck>,
}

impl<'a> Push<'a> {
    pub(super) fn new(
        call: &'a ReceivePack,
        clock: &'a dyn Clock,
        settings: PushSettings,
        namespace: Vec<u8>,
        nonce: Option<String>,
        mut request: PushRequest,
        client: ClientMessages,
    ) -> Result<Self, Error> {
        let mut environment = call.hook_environment.clone();
        if !call.subject.namespace.is_empty() {
            environment.push(("GIT_NAMESPACE".into(), call.subject.namespace.clone().into()));
        }
        let confinement = call.subject.confinement.clone();
        let repository = &call.subject.repository;
        let hooks = Hooks::in_git_dir(repository, &call.hooks, environment, client.outlet(), confinement)?;
        let commands = std::mem::take(&mut request.commands).into_iter().map(|command| ReceivedCommand {
            old: command.old,
            new: command.new,
            full_name: [namespace.as_slice(), &command.name].concat(),
            name: command.name,
            error: None,
            ignores_old: false,
            did_not_exist: false,
            is_done_by_other: false,
            is_forbidden: false,
            is_of_hook: false,
            rewritten: Vec::new(),
            needs_shallow: false,
        });
        let commands = commands.collect();
        let hooks = Arc::new(hooks);
        Ok(Push {
            call,
            clock,
            settings,
            namespace,
            nonce,
            request,
            commands,
            client,
            hooks,
            shallow_file: None,
            certificate: None,
        })
    }

    /// Runs the push, and reports the result to the client.
    pub(super) fn run(&mut self, mut session: PushSession, mut source: impl BufRead) -> Result<(), Error> {
        let unpack_error = self.receive(&mut source)?;
        // Bytes that were read ahead are dropped.
        drop(source);
        self.record();
        let report = self.report(unpack_error);
        session.handle(PushInput::Finished(&report)).map_err(|refusal| Error::refused(&refusal))?;
        while let PushOutput::Write(packets) = session.poll_output() {
            self.client.tell(WorkerEvent::Packets(packets));
        }
        self.after()
    }

    /// Stores the objects and changes refs; returns why the objects were not stored, if so.
    fn receive(&mut self, source: &mut dyn BufRead) -> Result<Option<String>, Error> {
        self.check_certificate();
        // Opened before anything in the repository is read.
        let place = HeldDir::open(self.call.subject.repository.common_dir()).ok();
        if self.commands.iter().all(ReceivedCommand::is_delete) {
            self.client.pack_read();
            let snapshot = self.call.subject.repository.unlisted_snapshot()?;
            self.execute(None, &snapshot, place)?;
            return Ok(None);
        }
        let repository = &self.call.subject.repository;
        let mut quarantine = match self.call.bucket {
            Some(_) => Quarantine::create_for_copy(repository)?,
            None => Quarantine::create(repository)?,
        };
        let is_quiet = self.request.quiet || self.call.quiet;
        let progress = Progress::new(&self.client, self.clock, is_quiet);
        let room = self.room()?;
        let most = [self.settings.unpack.max_bytes, room].into_iter().flatten().min();
        let refuses_thin = self.call.reject_thin_packs;
        let limits = UnpackSettings { max_bytes: most, refuses_thin, ..self.settings.unpack.clone() };
        let unpacked = receive_pack_bytes(
            source,
            &mut quarantine,
            &limits,
            &self.call.budget,
            !self.request.shallow.is_empty(),
            &progress,
        )?;
        self.client.pack_read();
        if self.client.is_cancelled() && self.client.too_long().is_none() {
            return Err(Error::left());
        }
        if let Err(NotUnpacked { why, over_budget }) = unpacked {
            over_budget.iter().for_each(|limit| self.met_limit(limit, room));
            self.commands.iter_mut().for_each(|command| command.reject("unpacker error"));
            return Ok(Some(why));
        }
        let snapshot = quarantine.snapshot()?;
        self.execute(Some(quarantine), &snapshot, place)?;
        Ok(None)
    }

    fn execute(
        &mut self,
        quarantine: Option<Quarantine>,
        snapshot: &Arc<Snapshot>,
        place: Option<HeldDir>,
    ) -> Result<(), Error> {
        let refs = self.call.subject.repository.refs().snapshot(&[])?;
        let connected = self.check_connected(quarantine.as_ref(), snapshot, &refs);
        if let Some(why) = self.client.too_long() {
            self.over_budget(&why);
            self.reject_all(&why);
            return Ok(());
        }
        let shallow = connected?;
        // Removed when the hooks after the push have run.
        self.shallow_file = self.shallow_file(&shallow)?;
        self.refuse_beyond_quota(quarantine.as_ref(), &refs)?;
        self.refuse_hidden();
        self.refuse_forbidden(snapshot, &refs)?;
        self.choose_for_hook();
        if !self.ask_program(quarantine.as_ref()) || !self.run_pre_receive(quarantine.as_ref())? {
            self.reject_all("pre-receive hook declined");
            return Ok(());
        }
        if self.client.is_cancelled() {
            return Err(Error::left());
        }
        // If all commands were rejected, no objects are stored.
        if self.commands.iter().all(|command| command.error.is_some()) {
            return Ok(());
        }
        // Objects were checked against stored files: the push is refused if these have changed since.
        if let Err(error) = snapshot.check_opened_files() {
            tracing::error!("push refused: {error}");
            self.client.error("unable to read the objects of the repository");
            self.reject_all("missing necessary objects");
            return Ok(());
        }
        self.client.go_on();
        // Objects and refs go to one repository: it is not deleted or renamed while `place` is held.
        if let Some(place) = &place
            && !place.hold().unwrap_or(false)
        {
            self.reject_all("repository was moved or deleted");
            return Ok(());
        }
        self.move_in(quarantine, &refs, shallow)
    }

    /// Tells all hooks where the history ends, if a command cuts it.
    fn shallow_file(&mut self, shallow: &Shallow) -> Result<Option<NewFile>, Error> {
        let Some(cut) =
            shallow.as_ref().filter(|_| self.commands.iter().any(|command| command.needs_shallow))
        else {
            return Ok(None);
        };
        let file = cut.file_for_hooks(&self.call.subject.repository)?;
        let variable = ("GIT_SHALLOW_FILE".into(), file.path().to_owned().into());
        self.hooks = Arc::new(self.hooks.with_environment([variable]));
        Ok(Some(file))
    }

    /// Stores the objects and changes refs, unless that cannot be recorded.
    fn move_in(
        &mut self,
        quarantine: Option<Quarantine>,
        refs: &RefSnapshot,
        shallow: Shallow,
    ) -> Result<(), Error> {
        let Ok(announced) = self.announce() else { return Ok(()) };
        let call = self.call;
        let landing = match Landing::begin(&call.subject.repository, call.bucket.as_ref(), quarantine) {
            Ok(landing) => landing,
            Err(error) => {
                announced.into_iter().for_each(|(announced, _)| announced.cancel());
                self.client.error(&error.to_string());
                self.reject_all("unable to migrate objects to permanent storage");
                return Ok(());
            }
        };
        let done = self.change_refs(refs, shallow, &landing);
        if let Err(error) = landing.end() {
            self.client.warn(&error.to_string());
        }
        self.record_event(announced, done)
    }

    fn change_refs(
        &mut self,
        refs: &RefSnapshot,
        shallow: Shallow,
        landing: &Landing<'_>,
    ) -> Result<(), Error> {
        self.check_aliases(refs)?;
        if !self.run_proc_receive()? {
            return Ok(());
        }
        match self.request.atomic {
            true => self.execute_atomic(refs, shallow, landing),
            false => self.execute_each(refs, shallow, landing),
        }
    }

    /// Counts and logs a push that exceeds its budget.
    pub(super) fn over_budget(&self, why: &str) {
        let transfer = &self.call.subject.transfer;
        transfer.metrics().refused(Reason::PushBudget);
        tracing::warn!("push from {}: {why}", transfer.shown_peer());
    }

    pub(super) fn reject_all(&mut self, why: &str) {
        self.commands.iter_mut().for_each(|command| command.reject(why));
    }

    /// The certificate also lists the push options, so that they cannot be changed in transit.
    fn check_certificate(&mut self) {
        let Some(certificate) = &self.request.certificate else { return };
        let named: Vec<&[u8]> = certificate.headers("push-option").collect();
        let given = self.request.options.iter().flatten().map(Vec::as_slice);
        if !given.eq(named) {
            self.reject_all("inconsistent push options");
        }
    }

    fn refuse_hidden(&mut self) {
        for command in &mut self.commands {
            if self.settings.hidden.hides_ref(Some(&command.name), &command.full_name) {
                let what = if command.is_delete() { "deleting" } else { "updating" };
                command.reject(&format!("deny {what} a hidden ref"));
            }
        }
    }

    fn choose_for_hook(&mut self) {
        for command in self.commands.iter_mut().filter(|command| command.is_open()) {
            let (is_create, is_delete) = (command.old.is_null(), command.new.is_null());
            command.is_of_hook =
                ProcReceive::takes(&self.settings.proc_receive, &command.name, is_create, is_delete);
            // It would change refs of the cache only.
            if command.is_of_hook && self.call.bucket.is_some() {
                command.reject("proc-receive hooks are not supported in a bucket");
            }
        }
    }

    fn report(&self, unpack_error: Option<String>) -> PushReport {
        let refs = self.commands.iter().map(|command| RefReport {
            name: command.name.clone(),
            outcome: match &command.error {
                Some(why) => RefOutcome::Rejected(why.clone().into_bytes()),
                None => RefOutcome::Ok(command.rewritten.clone()),
            },
        });
        PushReport { unpack_error, refs: refs.collect() }
    }

    /// Appends the outcome for each ref to the audit log.
    pub(super) fn record(&self) {
        let Some(audit) = &self.call.audit else { return };
        let refs = self.commands.iter().map(|command| AuditedRef {
            name: &command.name,
            old: command.old,
            new: command.new,
            error: command.error.as_deref(),
        });
        audit.push(&self.call.subject.transfer, refs);
    }

    /// Runs what follows the report to the client.
    fn after(&mut self) -> Result<(), Error> {
        self.tell_program();
        // The push is complete: failures of these hooks do not make it fail.
        for ended in [self.run_post_receive(), self.run_post_update()] {
            ended.unwrap_or_else(|error| self.client.error(&error.to_string()));
        }
        self.maintain();
        if self.settings.update_server_info
            && let Err(error) = self.update_server_info()
        {
            self.client.error(&error.to_string());
        }
        Ok(())
    }

    fn maintain(&self) {
        let Some(maintenance) = &self.call.maintenance else { return };
        let repository = &self.call.subject.repository;
        let begun = maintenance.begin(repository, |program| run(program, b"", &self.client).map(drop));
        begun.unwrap_or_else(|error| self.client.warn(&error.to_string()));
    }

    fn update_server_info(&self) -> Result<(), Error> {
        use packrace_pack::maintain::server_info;
        use packrace_store::publish::{FileKind, WritePolicy, publish_file};
        let repository = &self.call.subject.repository;
        let policy = WritePolicy::of(repository.config())?;
        let snapshot = repository.snapshot()?;
        let request_objects = packrace_pack::RequestObjects::new(snapshot.clone());
        let refs = server_info::refs(&request_objects, &repository.refs().snapshot(&[])?)?;
        publish_file(&repository.common_dir().join("info/refs"), &refs, FileKind::ServerInfo, policy)?;
        let packs = server_info::packs(&snapshot);
        publish_file(&repository.object_dir().join("info/packs"), &packs, FileKind::ServerInfo, policy)?;
        Ok(())
    }

    /// How many threads a walk may use.
    pub(super) fn threads(&self) -> Result<usize, Error> {
        let all = packrace_os::process::available_threads();
        Ok(packrace_pack::Settings::threads(self.call.subject.repository.config(), all)?)
    }
}

/// Passed from the connectivity check to the change of refs.
pub(super) type Shallow = Option<NewShallow>;
