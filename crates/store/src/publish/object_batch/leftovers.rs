use std::path::Path;
use std::time::Duration;

use packrace_os::EntryType;
use packrace_os::count::Role;
use packrace_os::durable;

/// A live process has written to its temporary file more recently than this.
const AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Names with these prefixes and six more letters or digits belong to unfinished packs.
const PREFIXES: [&str; 3] = ["tmp_pack_", "tmp_idx_", "tmp_rev_"];

/// Removes old leftovers beside `ours`, a temporary file made just now, whose time replaces the clock.
/// Failures are ignored: `git prune` removes leftovers too.
pub(super) fn remove(pack_dir: &Path, ours: &Path) {
    let modified = |path: &Path| packrace_os::identity(path, Role::Pack).ok().flatten()?.modified;
    let Some(now) = modified(ours) else { return };
    for entry in packrace_os::list_dir(pack_dir, Role::Pack).unwrap_or_default() {
        let name = entry.name.to_str().unwrap_or_default();
        let letters = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        let is_temporary = letters.is_some_and(|letters| letters.len() == 6);
        if entry.kind != EntryType::File || !is_temporary {
            continue;
        }
        let path = pack_dir.join(name);
        let age = modified(&path).and_then(|then| now.duration_since(then).ok());
        if age.is_some_and(|age| age > AGE)
            && let Err(error) = durable::remove_file(&path, Role::Pack)
        {
            tracing::debug!("{}: {error}", path.display());
        }
    }
}
