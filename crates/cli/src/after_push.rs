//! Maintenance after a push to a process that serves one connection (`receive.autogc`).

use std::ffi::OsString;
use std::path::Path;

use packrace_server::auto_maintenance::AutoMaintenance;
use packrace_server::maintenance::MaintenanceMode;
use packrace_server::settings::Settings;

/// Adds what is started after a push: `packrace shell --maintain`, confined as this process is, by the same settings.
pub fn maintained(mut settings: Settings, config: Option<&Path>, root: &Path) -> Settings {
    let is_wanted = settings.maintenance.mode != MaintenanceMode::Off && !settings.rules.read_only;
    settings.pushing.auto_maintenance = if is_wanted { maintenance(config, root) } else { None };
    settings
}

fn maintenance(config: Option<&Path>, root: &Path) -> Option<AutoMaintenance> {
    // It runs in the repository.
    let absolute = |path| std::path::absolute(path).ok();
    let mut argv: Vec<OsString> =
        vec![std::env::current_exe().ok()?.into(), "shell".into(), "--maintain".into()];
    if let Some(config) = config {
        argv.extend(["--config".into(), absolute(config)?.into()]);
    }
    argv.extend([absolute(root)?.into(), "maintenance".into()]);
    Some(AutoMaintenance { argv, environment: Vec::new(), tells_client: false })
}
