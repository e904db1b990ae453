//! `git receive-pack`: one push on standard input and output.

use std::path::PathBuf;

use packrace_os::clock::RealClock;
use packrace_os::trace;
use packrace_server::auto_maintenance::AutoMaintenance;
use packrace_server::receive::{self, Committer, PushBudget, Pusher};
use packrace_store::{Config, HooksFrom, MessageSink};

use crate::call::Call;
use crate::call::environment::Environment;
use crate::call::fatal::Fatal;
use crate::options::ReceivePackOptions;
use crate::trace2::packets::traced;
use crate::upload_pack::{client, expand_home, mode, subject};

/// Settings that must have values, of those of a push.
const NEEDED: [&str; 6] = [
    "core.logAllRefUpdates",
    "receive.certNonceSeed",
    "receive.fsck.skipList",
    "receive.hideRefs",
    "receive.procReceiveRefs",
    "transfer.hideRefs",
];

/// Implements `git receive-pack`.
pub fn run(call: &Call, args: &ReceivePackOptions) -> Result<(), Fatal> {
    let named = args.directory.clone().or_else(|| call.globals.git_dir.clone());
    let named: PathBuf = named.ok_or_else(|| Fatal::usage("you must name a directory"))?;
    let directory = expand_home(&named, &call.environment);
    let mode = mode(args.http_backend_info_refs, args.stateless_rpc);
    let errors = call.streams.errors.clone();
    // If standard error is closed, messages are lost.
    let messages = MessageSink::new(move |text| drop(errors.say(text)));
    let hook_environment = call.environment.for_hooks(&call.globals);
    let program = args.maintenance_program.clone();
    let push = receive::ReceivePack {
        bucket: None,
        maintenance: program.map(|program| AutoMaintenance::run_by(program, hook_environment.clone())),
        access: None,
        audit: None,
        subject: subject(call, &directory, false, mode, None)?,
        named: named.into_os_string(),
        temporary_dir: call.environment.temporary_dir.clone(),
        budget: PushBudget::default(),
        hook_environment,
        committer: committer(&call.environment),
        pusher: None,
        quiet: args.quiet,
        skip_connectivity_check: args.skip_connectivity_check,
        reject_thin_packs: args.reject_thin_packs,
        hooks: HooksFrom::Repository,
        faults: Some(messages.clone()),
        messages,
    };
    call.environment.booleans.check(&["GIT_REF_PARANOIA"])?;
    push.subject.repository.check_settings()?;
    let config = push.subject.repository.config();
    config.need_values(&NEEDED)?;
    trace::negotiated(push.subject.version as u8);
    let input = call.streams.source(None).map_err(Fatal::new)?;
    let (mut input, mut client) = traced(call, "receive-pack", input, client(call)?);
    receive::receive_pack(&push, &mut input, &mut client, &RealClock::default())?;
    Ok(())
}

/// The identity in reflogs: from the environment, the pusher, or the configuration, in this order.
pub fn committer(environment: &Environment) -> Committer {
    let person = environment.committer.clone();
    Committer::new(move |config: &Config, pusher: Option<&Pusher>| {
        let mut person = person.clone();
        if let Some(Pusher { name, email }) = pusher {
            person.name.get_or_insert_with(|| name.clone().into_bytes());
            person.email.get_or_insert_with(|| email.clone().into_bytes());
        }
        person.committer(config).map_err(|fatal| fatal.message)
    })
}
