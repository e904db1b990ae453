use packrace_commands::options::{MultiPackIndexAction, MultiPackIndexOptions, MultiPackIndexWriteOptions};

use super::chosen;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub struct MultiPackIndex {
    /// The object directory that the multi-pack-index belongs to: the repository's own or one that it borrows from.
    #[arg(long, value_name = "DIR")]
    pub object_dir: Option<PathBuf>,
    #[command(subcommand)]
    pub command: MultiPackIndexCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum MultiPackIndexCommand {
    /// Write a multi-pack-index of all packs, or of those that are asked for.
    Write(MultiPackIndexWrite),
    /// Compare the multi-pack-index with the packs' own indexes.
    Verify(MultiPackIndexCommon),
    /// Delete packs that the multi-pack-index takes no object from.
    Expire(MultiPackIndexCommon),
    /// Put the objects of small packs into one, so that expire can delete those.
    Repack(MultiPackIndexRepack),
}

#[derive(Debug, clap::Args)]
pub struct MultiPackIndexRepack {
    #[command(flatten)]
    pub common: MultiPackIndexCommon,
    /// Take packs from the oldest on, of which less than SIZE is used each, until SIZE is used of them; 0 takes all.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = super::packing::parse_bytes)]
    pub batch_size: u64,
}

// What all commands understand.
#[derive(Debug, Default, clap::Args)]
pub struct MultiPackIndexCommon {
    /// The object directory, as before the command.
    #[arg(long, value_name = "DIR")]
    pub object_dir: Option<PathBuf>,
    /// Say what is done, also where standard error is no terminal.
    #[arg(long, overrides_with = "no_progress")]
    pub progress: bool,
    /// Say nothing while it is done.
    #[arg(long)]
    pub no_progress: bool,
}

#[derive(Debug, clap::Args)]
pub struct MultiPackIndexWrite {
    #[command(flatten)]
    pub common: MultiPackIndexCommon,
    /// The pack whose copies are read wherever there are several.
    #[arg(long, value_name = "PACK")]
    pub preferred_pack: Option<String>,
    /// Cover the packs whose indexes are named on standard input, and no others.
    #[arg(long, overrides_with = "no_stdin_packs")]
    pub stdin_packs: bool,
    #[arg(long, hide = true)]
    pub no_stdin_packs: bool,
    /// Write reachability bitmaps.
    #[arg(long, overrides_with = "no_bitmap")]
    pub bitmap: bool,
    /// Write no bitmaps (the default).
    #[arg(long)]
    pub no_bitmap: bool,
    /// With --bitmap, a list of the objects that refs point at; a line that begins with + is preferred.
    #[arg(long, value_name = "PATH")]
    pub refs_snapshot: Option<PathBuf>,
}

impl From<MultiPackIndexWrite> for MultiPackIndexWriteOptions {
    fn from(args: MultiPackIndexWrite) -> Self {
        MultiPackIndexWriteOptions {
            preferred_pack: args.preferred_pack,
            stdin_packs: args.stdin_packs,
            bitmap: args.bitmap,
            refs_snapshot: args.refs_snapshot,
        }
    }
}

impl From<MultiPackIndex> for MultiPackIndexOptions {
    fn from(args: MultiPackIndex) -> Self {
        let (common, action) = match args.command {
            MultiPackIndexCommand::Write(mut write) => {
                (std::mem::take(&mut write.common), MultiPackIndexAction::Write(write.into()))
            }
            MultiPackIndexCommand::Verify(common) => (common, MultiPackIndexAction::Verify),
            MultiPackIndexCommand::Expire(common) => (common, MultiPackIndexAction::Expire),
            MultiPackIndexCommand::Repack(MultiPackIndexRepack { common, batch_size }) => {
                (common, MultiPackIndexAction::Repack { batch_size })
            }
        };
        MultiPackIndexOptions {
            object_dir: common.object_dir.or(args.object_dir),
            progress: chosen(common.progress, common.no_progress),
            action,
        }
    }
}
