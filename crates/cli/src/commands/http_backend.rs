//! `packrace http-backend`: one request that a web server hands over.

use std::io::Write as _;

use packrace_os::child::Confinement;
use packrace_os::sink::FdSink;
use packrace_os::source::FdSource;
use packrace_server::cgi::{self, CgiRequest};
use packrace_server::limits::Limits;
use packrace_server::limits::admission::AdmissionSettings;
use packrace_server::receive::PushBudget;
use packrace_server::repository_cache::RepositoryCacheSettings;
use packrace_server::send::pack_cache::CacheSettings;
use packrace_server::settings::{Admin, Hosts, PushMemory, Pushing, ServeRules, Settings};
use packrace_store::OpenOptions;

use super::receive_pack::committer;
use crate::args::Globals;
use crate::environment::Environment;
use crate::fatal::Fatal;

pub fn run(globals: &Globals, environment: &Environment) -> Result<(), Fatal> {
    let (request, settings) = match told(globals, environment) {
        Ok(told) => told,
        Err(fatal) => {
            // The web server must be told something.
            let _ = std::io::stdout().write_all(b"Status: 500 Internal Server Error\r\n\r\n");
            return Err(fatal);
        }
    };
    let input = FdSource::stdin(None).map_err(Fatal::new)?;
    let output = FdSink::stdout().map_err(Fatal::new)?;
    // What was refused is answered.
    if let Err(why) = cgi::http_backend(&request, &settings, input, output)
        && !why.is_empty()
    {
        let _ = writeln!(std::io::stderr(), "{}", crate::printable::one_line(&why));
    }
    Ok(())
}

fn told(globals: &Globals, environment: &Environment) -> Result<(CgiRequest, Settings), Fatal> {
    let max_request_bytes = environment.max_request_buffer()?;
    let settings = Settings {
        http: None,
        git: None,
        admin: Admin::default(),
        open: OpenOptions { check_ownership: true, ..environment.open_options(globals)? },
        namespace: environment.namespace(globals)?,
        agent: environment.agent(),
        session_id: environment.session_id.clone(),
        limits: Limits::default(),
        admission: AdmissionSettings::default(),
        // One request is served, and nobody shares with it.
        cache: CacheSettings { enabled: false, ..CacheSettings::default() },
        repository_cache: RepositoryCacheSettings { enabled: false, ..RepositoryCacheSettings::default() },
        hook_environment: environment.for_upload_hooks(globals),
        rules: ServeRules::default(),
        hosts: Hosts::default(),
        pushing: Pushing {
            is_allowed: false,
            new_repositories: None,
            committer: committer(environment),
            hook_environment: environment.for_push_hooks(globals),
            temporary_dir: environment.temporary_dir.clone(),
            budget: PushBudget::default(),
            memory: PushMemory::default(),
        },
        // As git's.
        confinement: Confinement::default(),
    };
    Ok((CgiRequest { max_request_bytes, ..environment.cgi.clone() }, settings))
}
