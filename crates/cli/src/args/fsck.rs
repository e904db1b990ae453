use clap::{ArgMatches, Args, Command, FromArgMatches};
use packrace_commands::option_values;
use packrace_commands::options::FsckOptions;

use super::globals::in_order;

/// `--strict` and `--fsck-objects`, each with settings or without.
#[derive(Debug, Default)]
pub struct FsckArgs(pub FsckOptions);

// What clap knows of them.
#[derive(Debug, Args)]
struct Typed {
    /// Refuse broken objects and links to missing objects.
    #[arg(long, value_name = "ID=SEVERITY,...", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = option_values::fsck_severities)]
    strict: Vec<String>,
    /// Refuse broken objects.
    #[arg(long, value_name = "ID=SEVERITY,...", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = option_values::fsck_severities)]
    fsck_objects: Vec<String>,
}

impl Args for FsckArgs {
    fn augment_args(command: Command) -> Command {
        Typed::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Typed::augment_args_for_update(command)
    }
}

impl FromArgMatches for FsckArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = FsckArgs::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.strict = matches.get_many::<String>("strict").is_some();
        let texts: Vec<String> = in_order(matches, &["strict", "fsck_objects"]);
        self.0.settings = (!texts.is_empty()).then(|| texts.join(","));
        Ok(())
    }
}
