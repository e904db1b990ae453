use std::ffi::OsString;

use packrace_commands::options::ForEachRefOptions;

#[derive(Debug, Default, clap::Args)]
pub struct ForEachRef {
    /// Quote values as a shell reads them.
    #[arg(short = 's', long, overrides_with = "no_shell")]
    pub shell: bool,
    #[arg(long, hide = true)]
    pub no_shell: bool,
    /// Quote values as Perl reads them.
    #[arg(short = 'p', long, overrides_with = "no_perl")]
    pub perl: bool,
    #[arg(long, hide = true)]
    pub no_perl: bool,
    /// Quote values as Python reads them.
    #[arg(long, overrides_with = "no_python")]
    pub python: bool,
    #[arg(long, hide = true)]
    pub no_python: bool,
    /// Quote values as Tcl reads them.
    #[arg(long, overrides_with = "no_tcl")]
    pub tcl: bool,
    #[arg(long, hide = true)]
    pub no_tcl: bool,
    /// Write no line for a ref of which the format leaves nothing.
    #[arg(long, overrides_with = "no_omit_empty")]
    pub omit_empty: bool,
    #[arg(long, hide = true)]
    pub no_omit_empty: bool,
    /// Show at most N refs; 0 is all.
    #[arg(long, value_name = "N", allow_hyphen_values = true, overrides_with = "no_count")]
    pub count: Option<i64>,
    #[arg(long, hide = true)]
    pub no_count: bool,
    /// What to write of each ref, with %(FIELD)s.
    #[arg(long, value_name = "FORMAT", allow_hyphen_values = true, overrides_with = "no_format")]
    pub format: Option<OsString>,
    #[arg(long, hide = true)]
    pub no_format: bool,
    /// Heed colours in the format: always, never or auto.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "always", overrides_with = "no_color")]
    pub color: Option<OsString>,
    #[arg(long, hide = true)]
    pub no_color: bool,
    /// Leave out refs that match PATTERN.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true, overrides_with = "no_exclude")]
    pub exclude: Vec<OsString>,
    #[arg(long, hide = true)]
    pub no_exclude: bool,
    /// Sort by this field, with a - before it downwards; the last of several counts first.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, overrides_with = "no_sort")]
    pub sort: Vec<OsString>,
    #[arg(long, hide = true)]
    pub no_sort: bool,
    /// Only refs that point at OBJECT.
    #[arg(long, value_name = "OBJECT", allow_hyphen_values = true, overrides_with = "no_points_at")]
    pub points_at: Vec<OsString>,
    #[arg(long, hide = true)]
    pub no_points_at: bool,
    /// Only refs that COMMIT reaches; HEAD where the option stands last.
    #[arg(long, value_name = "COMMIT", allow_hyphen_values = true)]
    pub merged: Vec<OsString>,
    /// Only refs that COMMIT does not reach.
    #[arg(long, value_name = "COMMIT", allow_hyphen_values = true)]
    pub no_merged: Vec<OsString>,
    /// Only refs that reach COMMIT.
    #[arg(long, value_name = "COMMIT", allow_hyphen_values = true)]
    pub contains: Vec<OsString>,
    /// Only refs that do not reach COMMIT.
    #[arg(long, value_name = "COMMIT", allow_hyphen_values = true)]
    pub no_contains: Vec<OsString>,
    /// Sort and filter without regard to case.
    #[arg(long, overrides_with = "no_ignore_case")]
    pub ignore_case: bool,
    #[arg(long, hide = true)]
    pub no_ignore_case: bool,
    /// Read patterns from standard input, one a line.
    #[arg(long, overrides_with = "no_stdin")]
    pub stdin: bool,
    #[arg(long, hide = true)]
    pub no_stdin: bool,
    /// Show HEAD and the other refs outside refs/ too.
    #[arg(long, overrides_with = "no_include_root_refs")]
    pub include_root_refs: bool,
    #[arg(long, hide = true)]
    pub no_include_root_refs: bool,
    /// Refs to show: all of a name, all below it, or by wildcards.
    pub pattern: Vec<OsString>,
}

/// Options that mean HEAD where nothing follows them.
const OF_HEAD: [&str; 4] = ["--merged", "--no-merged", "--contains", "--no-contains"];

/// Options that take the next argument, whatever it is.
const WITH_VALUE: [&str; 9] = [
    "--merged",
    "--no-merged",
    "--contains",
    "--no-contains",
    "--count",
    "--format",
    "--exclude",
    "--sort",
    "--points-at",
];

/// `--merged` and its like take the next argument, and where there is none, HEAD.
pub fn add_default_commit(argv: &mut [OsString]) {
    let Some(command) = argv.iter().position(|arg| arg == "for-each-ref") else { return };
    let mut is_value = false;
    let mut needs_head = false;
    for arg in &argv[command + 1..] {
        if !is_value && arg == "--" {
            return;
        }
        needs_head = !is_value && OF_HEAD.iter().any(|option| arg == option);
        is_value = !is_value && WITH_VALUE.iter().any(|option| arg == option);
    }
    if let Some(last) = argv.last_mut().filter(|_| needs_head) {
        last.push("=HEAD");
    }
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
            pattern: args.pattern,
        }
    }
}
