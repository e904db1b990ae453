//! A server on loopback. It lives as long as the process.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;

use packrace_server::bundles::BundleRules;
use packrace_server::events::EventSettings;
use packrace_server::limits::Limits;
use packrace_server::limits::admission::AdmissionSettings;
use packrace_server::listen::serve;
use packrace_server::maintenance::{MaintenanceMode, MaintenanceRules};
use packrace_server::program::ProgramHooks;
use packrace_server::receive::{Committer, PushBudget};
use packrace_server::repository_cache::RepositoryCacheSettings;
use packrace_server::send::pack_cache::CacheSettings;
use packrace_server::settings::{Admin, Hosts, PushMemory, Pushing, ServeRules, Settings};
use packrace_store::OpenOptions;

/// Both transports on ports that the system chooses; nobody may push. What needs a place of its own is in `temporary_dir`.
pub fn settings(temporary_dir: &Path) -> Settings {
    let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    Settings {
        http: any,
        https: None,
        ssh: None,
        ssh_keys: None,
        tls: None,
        git: any,
        admin: Admin::default(),
        bucket: None,
        open: OpenOptions::default(),
        namespace: String::new(),
        agent: "packrace/test".into(),
        session_id: "test".into(),
        limits: Limits::default(),
        admission: AdmissionSettings::default(),
        cache: CacheSettings { directory: Some(temporary_dir.to_owned()), ..CacheSettings::default() },
        repository_cache: RepositoryCacheSettings::default(),
        // Tests say themselves what changes in a repository.
        maintenance: MaintenanceRules { mode: MaintenanceMode::Off, ..MaintenanceRules::default() },
        bundles: BundleRules::default(),
        hook_environment: Vec::new(),
        rules: ServeRules::default(),
        hosts: Hosts::default(),
        access: std::sync::Arc::new(packrace_server::access::Anyone),
        proxies: packrace_server::access::TrustedProxies::default(),
        audit: None,
        events: EventSettings::default(),
        webhooks: None,
        program: ProgramHooks::default(),
        repository_prototype: None,
        pushing: Pushing {
            is_allowed: false,
            new_repositories: None,
            committer: Committer::new(|_, _| Err("nobody pushes".to_owned())),
            hook_environment: Vec::new(),
            temporary_dir: temporary_dir.to_owned(),
            budget: PushBudget::default(),
            memory: PushMemory::default(),
            auto_maintenance: None,
        },
        confinement: Default::default(),
    }
}

/// Serves `root`; gives the addresses of HTTP and of git://, and of the page where it has one of its own.
pub fn start(root: &Path, settings: Settings) -> Vec<SocketAddr> {
    let (sender, receiver) = mpsc::channel();
    let root = root.to_owned();
    std::thread::spawn(move || {
        let listening = |addresses: &[(&'static str, SocketAddr)]| {
            sender.send(addresses.iter().map(|(_, address)| *address).collect()).unwrap();
        };
        serve(&root, settings, Vec::new(), listening).unwrap();
    });
    receiver.recv().unwrap()
}
