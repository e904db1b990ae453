use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use packrace_commands::option_values;
use packrace_commands::options::{IndexPackOptions, VerifyPackOptions};

use super::chosen;
use super::fsck::FsckArgs;

#[derive(Debug, Default, clap::Args)]
pub struct IndexPack {
    /// Show progress.
    #[arg(short)]
    pub verbose: bool,
    /// With -v, the progress title for received objects.
    #[arg(long, value_name = "TITLE", allow_hyphen_values = true, hide = true)]
    pub progress_title: Vec<String>,
    /// Show progress while deltas are resolved.
    #[arg(long)]
    pub show_resolving_progress: bool,
    /// Read the pack from standard input, and store it as FILE or in the repository.
    #[arg(long)]
    pub stdin: bool,
    /// Complete a thin pack with delta bases from the repository.
    #[arg(long)]
    pub fix_thin: bool,
    /// Write the index to FILE.
    #[arg(short, value_name = "FILE", allow_hyphen_values = true)]
    pub output: Vec<PathBuf>,
    /// Write a .keep file with this text, so that repack keeps the pack.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub keep: Option<String>,
    /// Write a .promisor file with this text, which marks a promisor pack. Local objects that the pack refers to get a promisor
    /// pack, too.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub promisor: Option<String>,
    /// Write a reverse index (default: pack.writeReverseIndex).
    #[arg(long, overrides_with = "no_rev_index")]
    pub rev_index: bool,
    /// Write no reverse index.
    #[arg(long)]
    pub no_rev_index: bool,
    #[command(flatten)]
    pub fsck: FsckArgs,
    /// Exit with 1 if objects of the pack refer to objects outside it.
    #[arg(long)]
    pub check_self_contained_and_connected: bool,
    /// Verify the pack against its index.
    #[arg(long)]
    pub verify: bool,
    /// Like --verify, and print a line for each object.
    #[arg(long)]
    pub verify_stat: bool,
    /// Like --verify, and print the lengths of delta chains.
    #[arg(long)]
    pub verify_stat_only: bool,
    /// Number of threads that resolve deltas; 0: one per processor.
    #[arg(long, value_name = "N", require_equals = true)]
    pub threads: Option<String>,
    /// Fail if the pack has more than N bytes; 0: no limit.
    #[arg(long, value_name = "N", require_equals = true, value_parser = parse_leading_digits)]
    pub max_input_size: Option<u64>,
    /// Version of the index, and the offset from which it uses 64-bit offsets.
    #[arg(long, value_name = "VERSION[,OFFSET]", require_equals = true, value_parser = option_values::index_version)]
    pub index_version: Option<String>,
    /// Hash of object IDs: sha1 or sha256.
    #[arg(long, value_name = "HASH", require_equals = true, value_parser = option_values::object_format)]
    pub object_format: Vec<String>,
    /// The header of the pack, which was already read from standard input.
    #[arg(long = "pack_header", value_name = "VERSION,OBJECTS", require_equals = true, hide = true)]
    pub pack_header: Option<String>,
    /// Write a NUL to standard error after the pack was read.
    #[arg(long, hide = true)]
    pub report_end_of_input: bool,
    /// The pack file.
    #[arg(value_name = "FILE")]
    pub pack: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["verbose", "stat_only", "object_format"]))]
pub struct VerifyPack {
    /// Print a line for each object.
    #[arg(short, long)]
    pub verbose: bool,
    /// Print only the lengths of delta chains.
    #[arg(short, long)]
    pub stat_only: bool,
    /// Hash of object IDs: sha1 or sha256.
    #[arg(long, value_name = "HASH", allow_hyphen_values = true)]
    pub object_format: Option<String>,
    /// The index files of packs.
    #[arg(value_name = "PACK", required = true, value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub packs: Vec<PathBuf>,
}

/// As git reads it: what follows the digits does not count, and without digits there is no limit.
pub(super) fn parse_leading_digits(text: &str) -> Result<u64, String> {
    let text = text.trim_start();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    Ok(text[..digits].parse().unwrap_or(if digits == 0 { 0 } else { u64::MAX }))
}

impl From<IndexPack> for IndexPackOptions {
    fn from(args: IndexPack) -> Self {
        IndexPackOptions {
            verbose: args.verbose,
            progress_title: args.progress_title,
            show_resolving_progress: args.show_resolving_progress,
            stdin: args.stdin,
            fix_thin: args.fix_thin,
            output: args.output,
            keep: args.keep,
            promisor: args.promisor,
            rev_index: chosen(args.rev_index, args.no_rev_index),
            fsck: args.fsck.0,
            check_self_contained_and_connected: args.check_self_contained_and_connected,
            verify: args.verify,
            verify_stat: args.verify_stat,
            verify_stat_only: args.verify_stat_only,
            threads: args.threads,
            max_input_size: args.max_input_size,
            index_version: args.index_version,
            object_format: args.object_format,
            pack_header: args.pack_header,
            report_end_of_input: args.report_end_of_input,
            pack: args.pack,
        }
    }
}

impl From<VerifyPack> for VerifyPackOptions {
    fn from(args: VerifyPack) -> Self {
        VerifyPackOptions {
            verbose: args.verbose,
            stat_only: args.stat_only,
            object_format: args.object_format,
            packs: args.packs,
        }
    }
}
