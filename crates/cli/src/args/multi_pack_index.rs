use packrace_commands::numbers;
use packrace_commands::options::{
    MultiPackIndexAction, MultiPackIndexCompactOptions, MultiPackIndexLayerOptions, MultiPackIndexOptions,
    MultiPackIndexWriteOptions,
};

use super::chosen;
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub struct MultiPackIndex {
    #[command(flatten)]
    pub common: MultiPackIndexCommon,
    #[command(subcommand)]
    pub command: MultiPackIndexCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum MultiPackIndexCommand {
    /// Write a multi-pack-index of all packs, or of selected packs.
    Write(MultiPackIndexWrite),
    /// Replace adjacent files of a chain with one.
    Compact(MultiPackIndexCompact),
    /// Verify the multi-pack-index against the indexes of the packs.
    Verify(MultiPackIndexCommon),
    /// Delete packs from which the multi-pack-index uses no objects.
    Expire(MultiPackIndexCommon),
    /// Repack small packs into a new one, so that expire can delete them.
    Repack(MultiPackIndexRepack),
}

// Where a file of a chain goes.
#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["incremental", "no_write_chain_file", "base"]))]
pub struct MultiPackIndexLayer {
    /// Write a file of a chain (multi-pack-index.d) instead of a single multi-pack-index.
    #[arg(long)]
    pub incremental: bool,
    /// With --incremental, do not add the file to the chain; print its checksum.
    #[arg(long)]
    pub no_write_chain_file: bool,
    /// Put the file on top of that with this checksum, or of none.
    #[arg(long, value_name = "CHECKSUM", allow_hyphen_values = true)]
    pub base: Option<String>,
}

impl From<MultiPackIndexLayer> for MultiPackIndexLayerOptions {
    fn from(args: MultiPackIndexLayer) -> Self {
        MultiPackIndexLayerOptions {
            incremental: args.incremental,
            no_write_chain_file: args.no_write_chain_file,
            base: args.base,
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["bitmap"]))]
pub struct MultiPackIndexCompact {
    #[command(flatten)]
    pub common: MultiPackIndexCommon,
    #[command(flatten)]
    pub layer: MultiPackIndexLayer,
    /// Write reachability bitmaps.
    #[arg(long)]
    pub bitmap: bool,
    /// Checksum of the lowest file.
    pub from: String,
    /// Checksum of the topmost file.
    pub to: String,
}

impl From<MultiPackIndexCompact> for MultiPackIndexCompactOptions {
    fn from(args: MultiPackIndexCompact) -> Self {
        MultiPackIndexCompactOptions {
            from: args.from,
            to: args.to,
            bitmap: args.bitmap,
            layer: args.layer.into(),
        }
    }
}

#[derive(Debug, clap::Args)]
pub struct MultiPackIndexRepack {
    #[command(flatten)]
    pub common: MultiPackIndexCommon,
    /// Select packs with less than SIZE of used objects each, oldest first, up to a total of SIZE; 0: all packs.
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "0", value_parser = numbers::bytes)]
    pub batch_size: u64,
}

// What all commands understand, and those of commit-graph.
#[derive(Debug, Default, clap::Args)]
pub struct MultiPackIndexCommon {
    /// Object directory of the file: the repository's own or an alternate.
    #[arg(long, value_name = "DIR", allow_hyphen_values = true, overrides_with = "no_object_dir")]
    #[arg(value_parser = maybe_empty())]
    pub object_dir: Option<PathBuf>,
    #[arg(long, hide = true)]
    pub no_object_dir: bool,
    /// Show progress even if standard error is not a terminal.
    #[arg(long, overrides_with = "no_progress")]
    pub progress: bool,
    /// Show no progress.
    #[arg(long)]
    pub no_progress: bool,
}

impl MultiPackIndexCommon {
    /// Takes the object directory from before the subcommand, unless one follows or is taken back.
    pub(super) fn or_before(&mut self, before: Option<PathBuf>) {
        self.object_dir = self.object_dir.take().or(before.filter(|_| !self.no_object_dir));
    }
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["preferred_pack", "stdin_packs", "refs_snapshot"]))]
pub struct MultiPackIndexWrite {
    #[command(flatten)]
    pub common: MultiPackIndexCommon,
    #[command(flatten)]
    pub layer: MultiPackIndexLayer,
    /// Prefer copies of objects in this pack.
    #[arg(long, value_name = "PACK", allow_hyphen_values = true)]
    pub preferred_pack: Option<String>,
    /// Cover only the packs whose indexes are named on standard input.
    #[arg(long)]
    pub stdin_packs: bool,
    /// Write reachability bitmaps.
    #[arg(long, overrides_with = "no_bitmap")]
    pub bitmap: bool,
    /// Write no bitmaps (the default).
    #[arg(long)]
    pub no_bitmap: bool,
    /// With --bitmap, read the tips from this file, one per line; those that begin with + are preferred.
    #[arg(long, value_name = "PATH", allow_hyphen_values = true, value_parser = maybe_empty())]
    pub refs_snapshot: Option<PathBuf>,
}

/// A path that the command itself refuses if it is empty.
pub(super) fn maybe_empty() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

impl From<MultiPackIndexWrite> for MultiPackIndexWriteOptions {
    fn from(args: MultiPackIndexWrite) -> Self {
        MultiPackIndexWriteOptions {
            preferred_pack: args.preferred_pack,
            stdin_packs: args.stdin_packs,
            bitmap: args.bitmap,
            refs_snapshot: args.refs_snapshot,
            layer: args.layer.into(),
        }
    }
}

impl From<MultiPackIndex> for MultiPackIndexOptions {
    fn from(args: MultiPackIndex) -> Self {
        let (mut common, action) = match args.command {
            MultiPackIndexCommand::Write(mut write) => {
                (std::mem::take(&mut write.common), MultiPackIndexAction::Write(write.into()))
            }
            MultiPackIndexCommand::Compact(mut compact) => {
                (std::mem::take(&mut compact.common), MultiPackIndexAction::Compact(compact.into()))
            }
            MultiPackIndexCommand::Verify(common) => (common, MultiPackIndexAction::Verify),
            MultiPackIndexCommand::Expire(common) => (common, MultiPackIndexAction::Expire),
            MultiPackIndexCommand::Repack(MultiPackIndexRepack { common, batch_size }) => {
                (common, MultiPackIndexAction::Repack { batch_size })
            }
        };
        common.or_before(args.common.object_dir);
        let progress = chosen(args.common.progress, args.common.no_progress);
        MultiPackIndexOptions {
            object_dir: common.object_dir,
            progress: chosen(common.progress, common.no_progress).or(progress),
            action,
        }
    }
}
