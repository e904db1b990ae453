//! The order in which git's usage texts show the long options of a command, where ours groups them in another way. Of an
//! abbreviation with several meanings, git names the last two.

/// Commands, and their options.
const ORDERS: [(&str, &str); 16] = [
    ("init", "template bare shared quiet separate-git-dir initial-branch object-format ref-format"),
    (
        "pack-objects",
        "quiet progress all-progress all-progress-implied index-version max-pack-size local incremental window \
         window-memory depth reuse-delta reuse-object delta-base-offset threads non-empty revs unpacked all reflog \
         indexed-objects stdin-packs stdout include-tag keep-unreachable pack-loose-unreachable unpack-unreachable cruft \
         cruft-expiration sparse thin path-walk shallow honor-pack-keep keep-pack compression keep-true-parents \
         use-bitmap-index write-bitmap-index write-bitmap-index-quiet filter missing exclude-promisor-objects \
         delta-islands uri-protocol name-hash-version",
    ),
    (
        "repack",
        "cruft cruft-expiration combine-cruft-below-size max-cruft-size name-hash-version path-walk quiet local \
         write-bitmap-index delta-islands unpack-unreachable keep-unreachable window window-memory depth threads \
         max-pack-size filter pack-kept-objects keep-pack geometric write-midx expire-to filter-to",
    ),
    (
        "update-index",
        "ignore-submodules add replace remove unmerged refresh really-refresh cacheinfo chmod assume-unchanged \
         skip-worktree ignore-skip-worktree-entries info-only force-remove stdin index-info unresolve again \
         ignore-missing verbose clear-resolve-undo index-version show-index-version split-index untracked-cache \
         test-untracked-cache force-untracked-cache force-write-index fsmonitor fsmonitor-valid",
    ),
    ("upload-pack", "stateless-rpc http-backend-info-refs advertise-refs strict timeout"),
    ("update-ref", "deref stdin create-reflog batch-updates"),
    ("stash push", STASH_PUSH),
    ("stash save", STASH_PUSH),
    ("stash pop", "quiet index"),
    ("stash apply", "quiet index label-ours label-theirs label-base"),
    ("refs verify", "verbose strict"),
    ("maintenance run", "auto dry-run detach schedule quiet task"),
    ("commit-graph verify", "object-dir shallow progress"),
    (
        "multi-pack-index write",
        "object-dir progress preferred-pack bitmap base incremental write-chain-file stdin-packs refs-snapshot",
    ),
    ("multi-pack-index compact", "object-dir progress base bitmap incremental write-chain-file"),
    (
        "commit-graph write",
        "object-dir reachable stdin-packs stdin-commits append changed-paths split max-commits size-multiple expire-time \
         max-new-filters progress",
    ),
];

/// Options of two of its subcommands, of which one has not all.
const STASH_PUSH: &str = "keep-index staged patch auto-advance unified inter-hunk-context quiet include-untracked all message \
                          pathspec-from-file pathspec-file-nul";

/// Where an option stands among those of `packrace COMMAND`, if that is not its place here.
pub(super) fn place(command: &str, option: &str) -> Option<usize> {
    let (_, options) = ORDERS.iter().find(|(name, _)| command.strip_prefix("packrace ") == Some(name))?;
    options.split(' ').position(|one| one == option)
}
