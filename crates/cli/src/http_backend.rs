//! `packrace http-backend`: serves one CGI request of a web server.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use packrace_commands::receive_pack::committer;
use packrace_commands::trace2::packets::{trace_announcement, traced};
use packrace_commands::{Call, Fatal, harmless, one_line};
use packrace_os::child::Confinement;
use packrace_os::sink::FdSink;
use packrace_os::source::FdSource;
use packrace_server::access::{Anyone, TrustedProxies};
use packrace_server::auto_maintenance::AutoMaintenance;
use packrace_server::bundles::BundleRules;
use packrace_server::cgi::{self, CgiRequest};
use packrace_server::events::EventSettings;
use packrace_server::limits::Limits;
use packrace_server::limits::admission::AdmissionSettings;
use packrace_server::maintenance::MaintenanceRules;
use packrace_server::program::ProgramHooks;
use packrace_server::receive::PushBudget;
use packrace_server::repository_cache::RepositoryCacheSettings;
use packrace_server::send::pack_cache::CacheSettings;
use packrace_server::settings::{Admin, Hosts, PushMemory, Pushing, ServeRules, Settings};
use packrace_server::subject::ProtocolVersion;
use packrace_store::OpenOptions;

pub fn run(call: &Call) -> Result<(), Fatal> {
    let (request, settings) = match call_of_variables(call) {
        Ok(call) => call,
        Err(fatal) => {
            // The web server needs a response.
            let _ = std::io::stdout().write_all(b"Status: 500 Internal Server Error\r\n\r\n");
            return Err(fatal);
        }
    };
    let input = FdSource::stdin(None).map_err(Fatal::new)?;
    let output = FdSink::stdout().map_err(Fatal::new)?;
    // Refusals get their own response.
    if let Err(why) =
        cgi::http_backend(&request, &settings, input, output, &|service, announcement, input, output| {
            trace_announcement(call, announcement);
            let (input, output) = traced(call, service, input, output);
            (Box::new(input), Box::new(output))
        })
        && !why.is_empty()
    {
        // What git says on several lines names a path that exists.
        let shown = if why.starts_with("fatal: ") { harmless(&why) } else { one_line(&why) };
        let _ = writeln!(std::io::stderr(), "{shown}");
    }
    Ok(())
}

fn call_of_variables(call: &Call) -> Result<(CgiRequest, Settings), Fatal> {
    let environment = &call.environment;
    let max_request_bytes = environment.max_request_buffer()?;
    let settings = Settings {
        http: None,
        https: None,
        ssh: None,
        ssh_keys: None,
        tls: None,
        git: None,
        admin: Admin::default(),
        bucket: None,
        open: OpenOptions { check_ownership: true, ref_storage: None, ..call.open_options()? },
        namespace: environment.namespace(&call.globals)?,
        agent: environment.agent(),
        session_id: environment.session_id.clone(),
        limits: Limits::default(),
        admission: AdmissionSettings::default(),
        // One request is served: nothing to share with others.
        cache: CacheSettings { enabled: false, ..CacheSettings::default() },
        repository_cache: RepositoryCacheSettings { enabled: false, ..RepositoryCacheSettings::default() },
        maintenance: MaintenanceRules::default(),
        bundles: BundleRules::default(),
        hook_environment: environment.for_upload_hooks(&call.globals),
        rules: ServeRules::default(),
        hosts: Hosts::default(),
        pushing: Pushing {
            is_allowed: false,
            new_repositories: None,
            committer: committer(environment),
            hook_environment: environment.for_push_hooks(&call.globals),
            temporary_dir: environment.temporary_dir.clone(),
            budget: PushBudget::default(),
            memory: PushMemory::default(),
            auto_maintenance: std::env::current_exe()
                .ok()
                .map(|program| AutoMaintenance::run_by(program, environment.for_hooks(&call.globals))),
        },
        // As in git.
        confinement: Confinement::default(),
        access: Arc::new(Anyone),
        proxies: TrustedProxies::default(),
        audit: None,
        webhooks: None,
        program: ProgramHooks::default(),
        events: EventSettings::default(),
        repository_prototype: None,
    };
    Ok((CgiRequest { max_request_bytes, ..cgi_request() }, settings))
}

/// The request, from the web server's variables.
fn cgi_request() -> CgiRequest {
    let get = |name: &str| std::env::var_os(name);
    let path = |name: &str| get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let text = |name: &str| get(name).map(|value| value.to_string_lossy().into_owned());
    CgiRequest {
        method: text("REQUEST_METHOD"),
        project_root: path("GIT_PROJECT_ROOT"),
        path_info: get("PATH_INFO"),
        path_translated: get("PATH_TRANSLATED"),
        query: text("QUERY_STRING").unwrap_or_default(),
        content_type: text("CONTENT_TYPE").unwrap_or_default(),
        content_length: text("CONTENT_LENGTH"),
        content_encoding: text("HTTP_CONTENT_ENCODING").unwrap_or_default(),
        max_request_bytes: None,
        server_protocol: text("SERVER_PROTOCOL").unwrap_or_default(),
        remote_user: text("REMOTE_USER"),
        remote_address: text("REMOTE_ADDR"),
        exports_all: get("GIT_HTTP_EXPORT_ALL").is_some(),
        version: {
            let protocol = text("GIT_PROTOCOL").or_else(|| text("HTTP_GIT_PROTOCOL"));
            ProtocolVersion::from_environment(&protocol.unwrap_or_default())
        },
    }
}
