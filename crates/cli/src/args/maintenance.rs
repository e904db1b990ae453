//! `packrace maintenance`.

use packrace_commands::Fatal;
use packrace_commands::option_values;
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

/// The tasks; shown after the help.
const MAINTENANCE_HELP: &str = "\
Tasks, in the order in which they run:

    stale-files        delete files that killed processes have left
    pack-refs          pack refs
    reflog-expire      delete expired reflog entries
    loose-objects      pack loose objects
    geometric-repack   combine small packs and loose objects into larger packs, with a multi-pack-index and a bitmap
    gc                 repack everything, write cruft packs and delete expired objects; includes the other tasks except stale-files
    commit-graph       write the commit-graph

Without --task, measurements of the repository decide which tasks run. Git's configuration applies: gc.*, maintenance.auto, \
maintenance.<task>.enabled and .auto, repack.*, pack.*, core.multiPackIndex and core.commitGraph. Each run takes \
objects/maintenance.lock and gc.pid, so that it never runs at the same time as git's maintenance.

A cron job for all repositories below a folder that packrace serve does not maintain:

    packrace repo list /srv/git | while read -r name; do packrace -C \"/srv/git/$name\" maintenance run --auto --quiet; done";

#[derive(Debug, clap::Subcommand)]
pub enum MaintenanceCommand {
    /// Run the tasks that the repository needs, or the named tasks.
    Run(MaintenanceRun),
    /// Print the tasks that are needed, and why.
    Plan(MaintenancePlan),
    /// Print the state of the repository: packs, loose objects, bitmap, commit-graph, refs, stale files.
    Status,
    /// Exit with 0 if a task is needed, and with 1 if not.
    IsNeeded(MaintenancePlan),
    /// Done by git, if it is installed; packrace serve maintains its repositories itself.
    #[command(hide = true, aliases = ["stop", "register", "unregister"])]
    Start(LeftToGit),
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["auto"]))]
pub struct MaintenanceRun {
    /// Run only tasks that exceed git's thresholds (gc.auto, maintenance.TASK.auto).
    #[arg(long)]
    pub auto: bool,
    /// Print no reports and no progress (the default if standard error is not a terminal).
    #[arg(long, overrides_with = "no_quiet")]
    pub quiet: bool,
    /// Report completed tasks, and show progress.
    #[arg(long)]
    pub no_quiet: bool,
    /// Run this task even if it is not needed (with --auto, only if needed); may be repeated, tasks run in the given order.
    #[arg(long = "task", value_name = "TASK", allow_hyphen_values = true, value_parser = option_values::task)]
    pub tasks: Vec<String>,
    /// Only print the tasks that would run, as plan does.
    #[arg(long)]
    pub dry_run: bool,
    /// Done by git, if it is installed.
    #[arg(long, value_name = "FREQUENCY", allow_hyphen_values = true, value_parser = option_values::frequency)]
    pub schedule: Option<String>,
    #[arg(long, hide = true, num_args = 0, default_missing_value = "", value_parser = option_values::no_frequency)]
    pub no_schedule: Option<bool>,
    /// Run in the background.
    #[arg(long, overrides_with = "no_detach")]
    pub detach: bool,
    /// Run in the foreground (the default).
    #[arg(long, overrides_with = "detach")]
    pub no_detach: bool,
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["auto"]))]
pub struct MaintenancePlan {
    /// Consider only tasks that exceed git's thresholds.
    #[arg(long)]
    pub auto: bool,
    /// Consider only this task; may be repeated.
    #[arg(long = "task", value_name = "TASK", allow_hyphen_values = true, value_parser = option_values::task)]
    pub tasks: Vec<String>,
    /// No effect: nothing is changed anyway.
    #[arg(long, hide = true)]
    pub dry_run: bool,
}

/// Arguments that git reads.
#[derive(Debug, clap::Args)]
pub struct LeftToGit {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub ignored: Vec<String>,
}

impl TryFrom<Maintenance> for MaintenanceOptions {
    type Error = Fatal;

    fn try_from(args: Maintenance) -> Result<Self, Fatal> {
        let refused = |what: &str| Err(Fatal::usage(format!("`{what}' is not supported")).unless_git());
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
            MaintenanceCommand::Start(_) => return refused("maintenance with this subcommand"),
        })
    }
}
