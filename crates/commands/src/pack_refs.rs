//! `git pack-refs`: packs refs into fewer files.

use gix_glob::wildmatch;
use gix_glob::wildmatch::Mode;
use packrace_store::refs::{self, Backend};

use crate::call::Call;
use crate::call::discovery::repository;
use crate::call::fatal::Fatal;
use crate::options::PackRefsOptions;
use crate::ref_changes::RefChanges;

/// Exit code if a stack of reftables cannot be packed.
const FAILED: u8 = 255;

/// Implements `git pack-refs`.
pub fn run(call: &Call, args: &PackRefsOptions) -> Result<(), Fatal> {
    let repository = repository(call)?;
    call.environment.namespace(&call.globals)?;
    let mut changes = RefChanges::new(&repository, call)?;
    let is_one_of = |patterns: &[std::ffi::OsString], name: &[u8]| {
        patterns
            .iter()
            .any(|pattern| wildmatch(pattern.as_encoded_bytes().into(), name.into(), Mode::empty()))
    };
    let is_wanted = |name: &[u8]| {
        let is_included = match () {
            () if args.all => true,
            () if args.include.is_empty() => name.starts_with(b"refs/tags/"),
            () => is_one_of(&args.include, name),
        };
        is_included && !is_one_of(&args.exclude, name)
    };
    let (prunes, is_auto) = (!args.no_prune, args.auto);
    let which = refs::PackRefs { is_wanted: &is_wanted, prunes, is_auto, tells_kept: true };
    let packed = repository.refs().pack(&which, &changes.writes, &mut changes.objects);
    packed.map_err(|error| match repository.refs().backend() {
        // As in git, which ends with another code here.
        Backend::Reftable => Fatal::silent(FAILED).after(format!("error: {error}\n")),
        Backend::Files => error.into(),
    })
}
