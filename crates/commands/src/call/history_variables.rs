//! Environment variables for how history is read, and for how commit-graphs describe it.

use std::ffi::OsString;

use packrace_pack::maintain::commit_graph::FreshFilters;

/// The variables.
#[derive(Debug, Clone, Default)]
pub struct HistoryVariables {
    /// `GIT_REPLACE_REF_BASE`; `None` if nothing is replaced (`GIT_NO_REPLACE_OBJECTS`).
    pub replace_refs: Option<Vec<u8>>,
    /// `GIT_TEST_BLOOM_SETTINGS_*`, which git's tests set: changed-path filters where there are none.
    pub fresh_filters: FreshFilters,
}

impl HistoryVariables {
    /// Reads them with `get`.
    pub fn from_lookup(get: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let number = |name: &str| {
            let value = get(&format!("GIT_TEST_BLOOM_SETTINGS_{name}"))?;
            value.to_str()?.parse::<u32>().ok()
        };
        let base =
            || get("GIT_REPLACE_REF_BASE").map_or(b"refs/replace/".to_vec(), OsString::into_encoded_bytes);
        HistoryVariables {
            replace_refs: get("GIT_NO_REPLACE_OBJECTS").is_none().then(base),
            fresh_filters: FreshFilters {
                hashes: number("NUM_HASHES"),
                bits: number("BITS_PER_ENTRY"),
                max_paths: number("MAX_CHANGED_PATHS").map(|max| max as usize),
            },
        }
    }
}
