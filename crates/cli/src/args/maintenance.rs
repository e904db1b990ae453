//! `packrace maintenance`.

use packrace_commands::Fatal;
use packrace_commands::options::{MaintenanceOptions, MaintenanceRunOptions};

use super::chosen;

#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    disable_help_subcommand = true,
    after_long_help = MAINTENANCE_HELP
)]
pub struct Maintenance {
    #[command(subcommand)]
    pub command: MaintenanceCommand,
}

/// Which tasks there are, behind the help.
const MAINTENANCE_HELP: &str = "\
Tasks, in the order in which they are done: stale-files (what killed processes have left), pack-refs, reflog-expire, \
loose-objects, geometric-repack (small packs and loose objects into larger packs, with a multi-pack-index and a bitmap), gc \
(everything packed anew, cruft packs, their expiry, and all of the others) and commit-graph. Without --task, what is measured \
decides. git's settings count: gc.*, maintenance.auto, maintenance.<task>.enabled and .auto, repack.*, pack.*, \
core.multiPackIndex, core.commitGraph. Each job takes objects/maintenance.lock and gc.pid, so that it never runs \
beside git's own.

A cron job for all repositories below a folder that nobody serves with packrace:

    packrace repo list /srv/git | while read -r name; do packrace -C \"/srv/git/$name\" maintenance run --auto --quiet; done";

#[derive(Debug, clap::Subcommand)]
pub enum MaintenanceCommand {
    /// Do what the repository needs, or the named tasks.
    Run(MaintenanceRun),
    /// Say what is needed, and why.
    Plan(MaintenancePlan),
    /// Say how the repository is: packs, loose objects, what bitmap and commit-graph know, refs, what was left behind.
    Status,
    /// End with 0 if something is needed, and with 1 if not.
    IsNeeded(MaintenancePlan),
    /// Not offered: packrace serve looks after repositories by itself, and cron can do the rest.
    #[command(hide = true)]
    Start(Unsupported),
    /// Not offered.
    #[command(hide = true)]
    Stop(Unsupported),
    /// Not offered.
    #[command(hide = true)]
    Register(Unsupported),
    /// Not offered.
    #[command(hide = true)]
    Unregister(Unsupported),
}

#[derive(Debug, clap::Args)]
pub struct MaintenanceRun {
    /// Only do what is worth it by git's thresholds (gc.auto, maintenance.TASK.auto).
    #[arg(long, overrides_with = "no_auto")]
    pub auto: bool,
    #[arg(long, hide = true)]
    pub no_auto: bool,
    /// Say nothing (the default where standard error is no terminal).
    #[arg(long, overrides_with = "no_quiet")]
    pub quiet: bool,
    /// Say what was done, and show progress.
    #[arg(long)]
    pub no_quiet: bool,
    /// Do this task, whether it is needed or not; several in this order.
    #[arg(long = "task", value_name = "TASK")]
    pub tasks: Vec<String>,
    /// Say what would be done, as plan does, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Not offered: cron says how often.
    #[arg(long, value_name = "FREQUENCY", num_args = 0..=1)]
    pub schedule: Option<Option<String>>,
    /// Do it in the background: the command ends at once.
    #[arg(long, overrides_with = "no_detach")]
    pub detach: bool,
    /// Do it before the command ends (the default).
    #[arg(long, overrides_with = "detach")]
    pub no_detach: bool,
}

#[derive(Debug, clap::Args)]
pub struct MaintenancePlan {
    /// Only what is worth it by git's thresholds.
    #[arg(long)]
    pub auto: bool,
    /// This task; several in this order.
    #[arg(long = "task", value_name = "TASK")]
    pub tasks: Vec<String>,
    /// Without effect: nothing is done in any case.
    #[arg(long, hide = true)]
    pub dry_run: bool,
}

/// Options of what is not offered.
#[derive(Debug, clap::Args)]
pub struct Unsupported {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub ignored: Vec<String>,
}

impl TryFrom<Maintenance> for MaintenanceOptions {
    type Error = Fatal;

    fn try_from(args: Maintenance) -> Result<Self, Fatal> {
        let refused = |what: &str| Err(Fatal::usage(format!("`{what}' is not supported")));
        Ok(match args.command {
            MaintenanceCommand::Run(args) => {
                if args.schedule.is_some() {
                    return refused("--schedule");
                }
                let quiet = chosen(args.quiet, args.no_quiet);
                let MaintenanceRun { auto, dry_run, tasks, detach, .. } = args;
                let program = || std::env::current_exe().map_err(|error| Fatal::new(error.to_string()));
                let detached_program = if detach { Some(program()?) } else { None };
                MaintenanceOptions::Run(MaintenanceRunOptions {
                    auto,
                    quiet,
                    dry_run,
                    tasks,
                    detached_program,
                })
            }
            MaintenanceCommand::Plan(MaintenancePlan { auto, tasks, .. }) => {
                MaintenanceOptions::Plan { auto, tasks }
            }
            MaintenanceCommand::IsNeeded(MaintenancePlan { auto, tasks, .. }) => {
                MaintenanceOptions::IsNeeded { auto, tasks }
            }
            MaintenanceCommand::Status => MaintenanceOptions::Status,
            MaintenanceCommand::Start(_) => return refused("maintenance start"),
            MaintenanceCommand::Stop(_) => return refused("maintenance stop"),
            MaintenanceCommand::Register(_) => return refused("maintenance register"),
            MaintenanceCommand::Unregister(_) => return refused("maintenance unregister"),
        })
    }
}
