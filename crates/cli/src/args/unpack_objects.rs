use packrace_commands::options::UnpackObjectsOptions;

use super::index_pack::parse_leading_digits;

#[derive(Debug, clap::Args)]
pub struct UnpackObjects {
    /// Store nothing; only check the pack.
    #[arg(short = 'n')]
    pub dry_run: bool,
    /// Show no progress.
    #[arg(short)]
    pub quiet: bool,
    /// Store the readable objects of a damaged pack.
    #[arg(short)]
    pub recover: bool,
    /// Refuse broken objects and links to missing objects; settings of repeated options add up.
    #[arg(long, value_name = "ID=SEVERITY,...", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub strict: Vec<String>,
    /// The header of the pack, which was already read from standard input.
    #[arg(long = "pack_header", value_name = "VERSION,OBJECTS", require_equals = true, hide = true)]
    pub pack_header: Option<String>,
    /// Fail if the pack has more than N bytes; 0: no limit.
    #[arg(long, value_name = "N", require_equals = true, value_parser = parse_leading_digits)]
    pub max_input_size: Option<u64>,
}

impl From<UnpackObjects> for UnpackObjectsOptions {
    fn from(args: UnpackObjects) -> Self {
        UnpackObjectsOptions {
            dry_run: args.dry_run,
            quiet: args.quiet,
            recover: args.recover,
            strict: args.strict,
            pack_header: args.pack_header,
            max_input_size: args.max_input_size,
        }
    }
}
