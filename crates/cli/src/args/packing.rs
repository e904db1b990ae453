use packrace_commands::numbers;
use packrace_commands::options::PackingOptions;

// How packs are made: options that several commands have.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Packing {
    /// Number of objects among which a delta base is searched (default: pack.window, else 10).
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::integer, overrides_with = "no_window")]
    pub window: Option<i64>,
    #[arg(long, hide = true)]
    no_window: bool,
    /// Limit the objects in each thread's window to N bytes, with k, m or g as units; 0: no limit.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::bytes)]
    pub window_memory: Option<u64>,
    /// Maximum length of delta chains, at most 4095 (default: pack.depth, else 50).
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::integer, overrides_with = "no_depth")]
    pub depth: Option<i64>,
    #[arg(long, hide = true)]
    no_depth: bool,
    /// Number of threads for the walk and the delta search; 0: one per processor.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::integer, overrides_with = "no_threads")]
    pub threads: Option<i64>,
    #[arg(long, hide = true)]
    no_threads: bool,
    /// Version of the path hash for the delta search: 1, or 2, which separates equal names in different directories.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::integer, overrides_with = "no_name_hash_version")]
    pub name_hash_version: Option<i64>,
    #[arg(long, hide = true)]
    no_name_hash_version: bool,
    /// Compare objects with those of the same path first, then with others (default: pack.usePathWalk).
    #[arg(long, overrides_with = "no_path_walk")]
    path_walk: bool,
    #[arg(long, hide = true)]
    no_path_walk: bool,
    /// Split output into packs of at most N bytes (minimum: 1m), with k, m or g as units.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::bytes)]
    pub max_pack_size: Option<u64>,
}

impl Packing {
    /// As `pack-objects` takes back a number: it is 0 then. `repack` only tells it nothing.
    pub(super) fn with_zeros(mut self) -> Self {
        for (is_zero, number) in [
            (self.no_window, &mut self.window),
            (self.no_depth, &mut self.depth),
            (self.no_threads, &mut self.threads),
            (self.no_name_hash_version, &mut self.name_hash_version),
        ] {
            if is_zero {
                *number = Some(0);
            }
        }
        self
    }
}

impl From<Packing> for PackingOptions {
    fn from(args: Packing) -> Self {
        PackingOptions {
            window: args.window,
            window_memory: args.window_memory,
            depth: args.depth,
            threads: args.threads,
            name_hash_version: args.name_hash_version,
            path_walk: super::chosen(args.path_walk, args.no_path_walk),
            max_pack_size: args.max_pack_size,
        }
    }
}
