//! `packrace receive-pack`: one push on standard input and output.

use std::io::Write as _;
use std::path::PathBuf;

use packrace_os::clock::RealClock;
use packrace_os::source::FdSource;
use packrace_server::receive;
use packrace_server::receive::{Committer, PushBudget, Pusher};
use packrace_server::stdio::StreamSink;
use packrace_store::{Config, HooksFrom, MessageSink};

use super::upload_pack::{expand_home, mode, subject};
use crate::args::{Globals, ReceivePack};
use crate::environment::Environment;
use crate::fatal::Fatal;

pub fn run(globals: &Globals, args: &ReceivePack, environment: &Environment) -> Result<(), Fatal> {
    let named = args.directory.clone().or_else(|| globals.git_dir.clone());
    let named: PathBuf = named.ok_or_else(|| Fatal::usage("you must name a directory"))?;
    let directory = expand_home(&named, environment);
    let mode = mode(args.http_backend_info_refs, args.stateless_rpc);
    let call = receive::ReceivePack {
        subject: subject(globals, environment, &directory, false, mode)?,
        named: named.into_os_string(),
        temporary_dir: environment.temporary_dir.clone(),
        budget: PushBudget::default(),
        hook_environment: environment.for_hooks(globals),
        committer: committer(environment),
        pusher: None,
        quiet: args.quiet,
        skip_connectivity_check: args.skip_connectivity_check,
        // Nobody is left to be told where standard error is closed.
        hooks: HooksFrom::Repository,
        messages: MessageSink::new(|text| drop(std::io::stderr().write_all(text))),
    };
    let mut input = FdSource::stdin(None).map_err(Fatal::new)?;
    let mut client = StreamSink::stdout().map_err(Fatal::new)?;
    Ok(receive::receive_pack(&call, &mut input, &mut client, &RealClock::default())?)
}

/// Who stands in reflogs: the environment, who pushes, the configuration.
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
