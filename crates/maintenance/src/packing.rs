//! Limits of packing settings.

use packrace_pack::Settings;

/// The widest window if a limit applies.
const MAX_WINDOW: usize = 250;

/// Packing settings of a repository, limited to this many threads, and to this memory for each of: objects in the
/// window, new deltas, delta bases.
pub fn within(settings: Settings, threads: usize, bytes: usize) -> Settings {
    let least = |configured: usize| if configured == 0 { bytes } else { configured.min(bytes) };
    Settings {
        threads: settings.threads.min(threads).max(1),
        // The repository's owner sets the compression effort, but another user's processor does the work.
        window: settings.window.min(MAX_WINDOW),
        window_bytes: least(settings.window_bytes),
        delta_cache_bytes: least(settings.delta_cache_bytes),
        base_cache_bytes: least(settings.base_cache_bytes),
        ..settings
    }
}
