use std::ffi::OsString;

use packrace_commands::options::ForEachRefOptions;
use packrace_commands::{numbers, option_values};

#[derive(Debug, Default, clap::Args)]
#[command(args = super::taken_back(&[
    "shell", "perl", "python", "tcl", "omit_empty", "count", "format", "color", "exclude", "sort",
    "points_at", "ignore_case", "stdin", "include_root_refs", "start_after",
]))]
pub struct ForEachRef {
    /// Quote values for a shell.
    #[arg(short = 's', long)]
    pub shell: bool,
    /// Quote values for Perl.
    #[arg(short = 'p', long)]
    pub perl: bool,
    /// Quote values for Python.
    #[arg(long)]
    pub python: bool,
    /// Quote values for Tcl.
    #[arg(long)]
    pub tcl: bool,
    /// Print no line for refs whose formatted text is empty.
    #[arg(long)]
    pub omit_empty: bool,
    /// Show at most N refs; 0: all.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::integer)]
    pub count: Option<i64>,
    /// Format of a line, with fields as %(FIELD).
    #[arg(long, value_name = "FORMAT", allow_hyphen_values = true)]
    pub format: Option<OsString>,
    /// When to use the colors of the format: always, never or auto.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "always", value_parser = option_values::color)]
    pub color: Option<OsString>,
    /// Omit refs that match PATTERN.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub exclude: Vec<OsString>,
    /// List only refs whose names come after MARKER; not together with patterns and --sort.
    #[arg(long, value_name = "MARKER", allow_hyphen_values = true)]
    pub start_after: Option<OsString>,
    /// Sort by this field, in descending order if it begins with -; the last of several is the primary key.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub sort: Vec<OsString>,
    /// List only refs that point at OBJECT.
    #[arg(long, value_name = "OBJECT", allow_hyphen_values = true)]
    pub points_at: Vec<OsString>,
    /// List only refs whose tips are reachable from COMMIT (HEAD if the option comes last).
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, default_missing_value = "HEAD", allow_hyphen_values = true)]
    pub merged: Vec<OsString>,
    /// List only refs whose tips are not reachable from COMMIT.
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, default_missing_value = "HEAD", allow_hyphen_values = true)]
    pub no_merged: Vec<OsString>,
    /// List only refs that contain COMMIT.
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, default_missing_value = "HEAD", allow_hyphen_values = true)]
    pub contains: Vec<OsString>,
    /// List only refs that do not contain COMMIT.
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, default_missing_value = "HEAD", allow_hyphen_values = true)]
    pub no_contains: Vec<OsString>,
    /// Ignore case in sorting and filtering.
    #[arg(long)]
    pub ignore_case: bool,
    /// Read patterns from standard input, one per line.
    #[arg(long)]
    pub stdin: bool,
    /// Also show HEAD and other refs outside refs/.
    #[arg(long)]
    pub include_root_refs: bool,
    /// Refs to show: a full name, a prefix up to a slash, or a pattern with wildcards.
    pub pattern: Vec<OsString>,
}

impl From<ForEachRef> for ForEachRefOptions {
    fn from(args: ForEachRef) -> Self {
        ForEachRefOptions {
            shell: args.shell,
            perl: args.perl,
            python: args.python,
            tcl: args.tcl,
            omit_empty: args.omit_empty,
            count: args.count,
            format: args.format,
            color: args.color,
            exclude: args.exclude,
            sort: args.sort,
            points_at: args.points_at,
            merged: args.merged,
            no_merged: args.no_merged,
            contains: args.contains,
            no_contains: args.no_contains,
            ignore_case: args.ignore_case,
            stdin: args.stdin,
            include_root_refs: args.include_root_refs,
            start_after: args.start_after,
            pattern: args.pattern,
        }
    }
}
