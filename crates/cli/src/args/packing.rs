use packrace_commands::options::PackingOptions;

// How packs are made: options that several commands have.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Packing {
    /// Number of objects among which a delta base is searched (default: pack.window, else 10).
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub window: Option<i64>,
    /// Limit the objects in each thread's window to N bytes, with k, m or g as units; 0: no limit.
    #[arg(long, value_name = "N", value_parser = parse_bytes)]
    pub window_memory: Option<u64>,
    /// Maximum length of delta chains, at most 4095 (default: pack.depth, else 50).
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub depth: Option<i64>,
    /// Number of threads for the walk and the delta search; 0: one per processor.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub threads: Option<i64>,
    /// Version of the path hash for the delta search: 1, or 2, which separates equal names in different directories.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub name_hash_version: Option<i64>,
    /// Split output into packs of at most N bytes (minimum: 1m), with k, m or g as units.
    #[arg(long, value_name = "N", value_parser = parse_bytes)]
    pub max_pack_size: Option<u64>,
}

/// A number of bytes, which k, m and g multiply.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1u64),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes.ok_or_else(|| "not a number of bytes".to_owned())
}

impl From<Packing> for PackingOptions {
    fn from(args: Packing) -> Self {
        PackingOptions {
            window: args.window,
            window_memory: args.window_memory,
            depth: args.depth,
            threads: args.threads,
            name_hash_version: args.name_hash_version,
            max_pack_size: args.max_pack_size,
        }
    }
}
