//! `packrace http-backend`: one request that a web server hands over.

use std::io::Write as _;

use packrace_os::sink::FdSink;
use packrace_os::source::FdSource;
use packrace_server::admission::AdmissionSettings;
use packrace_server::pack_cache::CacheSettings;
use packrace_server::transport::cgi;
use packrace_server::transport::settings::{Admin, Limits, Pushing, Settings};
use packrace_store::{Config, OpenOptions};

use super::Fatal;
use super::receive_pack::committer;
use crate::args::Globals;
use crate::environment::Environment;

pub fn run(globals: &Globals, environment: &Environment) -> Result<(), Fatal> {
    super::warnings::to_stderr();
    let settings = match settings(globals, environment) {
        Ok(settings) => settings,
        Err(fatal) => {
            // The web server must be told something.
            let _ = std::io::stdout().write_all(b"Status: 500 Internal Server Error\r\n\r\n");
            return Err(fatal);
        }
    };
    let input = FdSource::stdin(None).map_err(Fatal::new)?;
    let output = FdSink::stdout().map_err(Fatal::new)?;
    match cgi::http_backend(&environment.cgi, &settings, input, output) {
        Ok(()) => Ok(()),
        // What was answered is an answer; a client that leaves is no fault of this program.
        Err(why) => {
            if !why.is_empty() {
                let _ = writeln!(std::io::stderr(), "{}", super::harmless(&why));
            }
            Ok(())
        }
    }
}

fn settings(globals: &Globals, environment: &Environment) -> Result<Settings, Fatal> {
    let open = OpenOptions { check_ownership: true, ..environment.open_options(globals)? };
    let configured = Config::outside(&open.config)?.integer("http.maxRequestBuffer")?;
    let configured = configured.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
    let limits = Limits::default();
    let max_request_bytes = environment.max_request_buffer()?.or(configured);
    Ok(Settings {
        http: None,
        git: None,
        admin: Admin::default(),
        open,
        namespace: environment.namespace(globals)?,
        agent: environment.agent(),
        session_id: environment.session_id.clone(),
        limits: Limits { max_request_bytes: max_request_bytes.unwrap_or(limits.max_request_bytes), ..limits },
        admission: AdmissionSettings::default(),
        // One request is served, and nobody shares with it.
        cache: CacheSettings { enabled: false, ..CacheSettings::default() },
        hook_environment: environment.for_upload_hooks(globals),
        pushing: Pushing {
            is_allowed: false,
            new_repositories: None,
            committer: committer(environment),
            hook_environment: environment.for_push_hooks(globals),
            temporary_dir: environment.temporary_dir.clone(),
        },
    })
}
