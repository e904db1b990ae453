use std::path::PathBuf;

use packrace_commands::options::{IndexPackOptions, VerifyPackOptions};

use super::chosen;
use super::fsck::FsckArgs;

#[derive(Debug, Default, clap::Args)]
pub struct IndexPack {
    /// Say on standard error how far the work is.
    #[arg(short)]
    pub verbose: bool,
    /// With -v, what is said of objects that come in; one at most.
    #[arg(long, value_name = "TITLE", hide = true)]
    pub progress_title: Vec<String>,
    /// Say how far the resolving of deltas is.
    #[arg(long)]
    pub show_resolving_progress: bool,
    /// Read the pack from standard input, and put it where FILE says, or into the repository.
    #[arg(long)]
    pub stdin: bool,
    /// Complete a pack that lacks bases which the repository has.
    #[arg(long)]
    pub fix_thin: bool,
    /// Where the index goes; to one place at most.
    #[arg(short, value_name = "FILE")]
    pub output: Vec<PathBuf>,
    /// Write a .keep, so that no repack takes the pack away, with this text.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub keep: Option<String>,
    /// Mark the pack as one of a promisor, with this text.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub promisor: Option<String>,
    /// Write a reverse index.
    #[arg(long, overrides_with = "no_rev_index")]
    pub rev_index: bool,
    /// Write none.
    #[arg(long)]
    pub no_rev_index: bool,
    #[command(flatten)]
    pub fsck: FsckArgs,
    /// Exit with 1 where a link leaves the pack.
    #[arg(long)]
    pub check_self_contained_and_connected: bool,
    /// Compare the pack with its index.
    #[arg(long)]
    pub verify: bool,
    /// The same, and say of every object what it takes.
    #[arg(long)]
    pub verify_stat: bool,
    /// The same, and say how long delta chains are.
    #[arg(long)]
    pub verify_stat_only: bool,
    /// Threads that resolve deltas; 0: one a processor.
    #[arg(long, value_name = "N")]
    pub threads: Option<u32>,
    /// The longest pack that is taken, in bytes; 0: any.
    #[arg(long, value_name = "N", value_parser = parse_leading_digits)]
    pub max_input_size: Option<u64>,
    /// Version of the index, and from which offset on it has eight bytes for one.
    #[arg(long, value_name = "VERSION[,OFFSET]")]
    pub index_version: Option<String>,
    /// The hash of the pack's objects: sha1 or sha256.
    #[arg(long, value_name = "HASH")]
    pub object_format: Option<String>,
    /// The header of the pack, which standard input does not have any more.
    #[arg(long = "pack_header", value_name = "VERSION,OBJECTS", hide = true)]
    pub pack_header: Option<String>,
    /// Write a NUL to standard error when the pack was read.
    #[arg(long, hide = true)]
    pub report_end_of_input: bool,
    /// The pack.
    #[arg(value_name = "FILE")]
    pub pack: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct VerifyPack {
    /// Say of every object what it takes.
    #[arg(short, long, overrides_with = "no_verbose")]
    pub verbose: bool,
    #[arg(long, hide = true)]
    pub no_verbose: bool,
    /// Say how long delta chains are.
    #[arg(short, long, overrides_with = "no_stat_only")]
    pub stat_only: bool,
    #[arg(long, hide = true)]
    pub no_stat_only: bool,
    /// The hash of the packs' objects: sha1 or sha256.
    #[arg(long, value_name = "HASH", overrides_with = "no_object_format")]
    pub object_format: Option<String>,
    #[arg(long, hide = true, overrides_with = "object_format")]
    pub no_object_format: bool,
    /// Indexes of packs.
    #[arg(value_name = "PACK", required = true)]
    pub packs: Vec<PathBuf>,
}

/// As git reads it: what follows the digits does not count, and without digits there is no limit.
fn parse_leading_digits(text: &str) -> Result<u64, String> {
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
