//! `git verify-pack`: compares packs with their indexes.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_format::pack_index::PackIndex;
use packrace_format::reverse_index;
use packrace_os::count::Role;
use packrace_os::trace::{self, TracedChild};
use packrace_pack::ingest::{IndexedPack, IngestOptions, Listed};
use packrace_store::publish::{PublishOptions, with_extension};
use packrace_store::{Config, ConfigSources, Mapped, fault_of_index};

use crate::call::Call;
use crate::call::discovery::{in_directory, repository_if_known};
use crate::call::fatal::Fatal;
use crate::options::VerifyPackOptions;
use crate::packs::hash::chosen_hash;
use crate::packs::input::read_pack_file;
use crate::progress::Progress;

/// What to print about a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackReport {
    Nothing,
    /// Lengths of delta chains.
    Chains,
    /// The same, after one line per object.
    Objects,
}

/// Implements `git verify-pack`.
pub fn run(call: &Call, args: &VerifyPackOptions) -> Result<(), Fatal> {
    let sources = call.open_options()?.config;
    in_directory(call, Path::new(""))?;
    Config::outside(&ConfigSources { overrides: sources.overrides.clone(), ..ConfigSources::default() })?;
    // As in git, each pack fails for a repository that cannot be opened, a wrong name of the hash or a wrong setting.
    let options = || {
        let repository = repository_if_known(call)?;
        let config = match &repository {
            Some(repository) => repository.config().clone(),
            None => Config::outside(&sources)?,
        };
        let hash = chosen_hash(args.object_format.as_deref(), repository.as_ref())?;
        let with_reverse = PublishOptions::of(&config)?.reverse_index;
        Ok::<_, Fatal>((IngestOptions::of(&config, hash)?, with_reverse))
    };
    let progress = Progress::new(false, call)?;
    let listing = match (args.stat_only, args.verbose) {
        (true, _) => PackReport::Chains,
        (_, true) => PackReport::Objects,
        _ => PackReport::Nothing,
    };
    let mut is_good = true;
    for path in &args.packs {
        let typed = stem(path);
        let stem = in_directory(call, &typed)?;
        let child = child_of_git(&with_extension(&typed, "pack"), listing);
        let verified = trace::during(child, || {
            let (options, with_reverse) = options()?;
            verify(call, [&stem, &typed], listing, options, with_reverse, &progress)
        });
        let word = match verified {
            Err(fatal) => {
                is_good = false;
                let _ = call.streams.errors.say(&fatal.text());
                (listing != PackReport::Nothing).then_some("bad")
            }
            Ok(()) => (listing == PackReport::Objects).then_some("ok"),
        };
        if let Some(word) = word {
            say(call, &format!("{}: {word}\n", with_extension(&typed, "pack").display()))?;
        }
    }
    if is_good { Ok(()) } else { Err(Fatal::silent(1)) }
}

/// The program that git starts for this pack.
fn child_of_git(pack: &Path, listing: PackReport) -> Option<TracedChild> {
    let how = match listing {
        PackReport::Nothing => "--verify",
        PackReport::Chains => "--verify-stat-only",
        PackReport::Objects => "--verify-stat",
    };
    trace::child_inside(&["git", "index-pack", how, &pack.to_string_lossy()])
}

/// Compares a pack with its index and, if there is one and it is wanted, with its reverse index. Errors name it as it was
/// typed.
pub(crate) fn verify(
    call: &Call,
    [stem, typed]: [&Path; 2],
    listing: PackReport,
    options: IngestOptions,
    with_reverse: bool,
    progress: &Progress,
) -> Result<(), Fatal> {
    let hash = options.hash;
    let index_path = with_extension(stem, "idx");
    let index = with_extension(typed, "idx");
    let shown = index.display();
    let pack_path = with_extension(stem, "pack");
    let is_there = |path: &Path| packrace_os::identity(path, Role::Pack).is_ok_and(|found| found.is_some());
    if !is_there(&pack_path) {
        return Err(Fatal::new(format!("Cannot open existing pack file '{shown}'")));
    }
    let unreadable = || Fatal::new(format!("Cannot open existing pack idx file for '{shown}'"));
    let stored = Mapped::open(&index_path, Role::Index).map_err(|_| unreadable())?;
    let why = || format!("error: {}\n", fault_of_index(&index, &stored, hash));
    let stored = PackIndex::open(stored.clone(), hash).map_err(|_| unreadable().after(why()))?;
    let indexed = read_pack_file(call, &pack_path, options, None, progress)?;
    progress.finish();
    if listing != PackReport::Nothing {
        say(call, &list(&indexed.list()?, listing))?;
    }
    let sum = hash.to_string().to_lowercase().replace("sha-", "sha");
    let damaged = |path: &Path| Err(Fatal::new(format!("{sum} file '{}' validation error", path.display())));
    if !is_index_of(&stored, &indexed) {
        return damaged(&index_path);
    }
    let reverse_path = with_extension(stem, "rev");
    let Ok(stored) = Mapped::open(&reverse_path, Role::Index) else { return Ok(()) };
    if !with_reverse {
        return Ok(());
    }
    let checksum = indexed.checksum();
    let expected = reverse_index::write(indexed.entries(), checksum.kind(), checksum);
    match *stored == *expected {
        true => Ok(()),
        false if stored.len() < expected.len() => {
            Err(Fatal::new(format!("{}: {sum} file truncated", reverse_path.display())))
        }
        false => damaged(&reverse_path),
    }
}

/// Whether an index describes a pack correctly.
fn is_index_of(index: &PackIndex<Mapped>, pack: &IndexedPack) -> bool {
    let is_right = |(position, entry): (u32, &packrace_format::pack_index::Entry)| {
        *index.id_at(position) == *entry.id
            && index.offset_at(position) == entry.offset
            && index.crc32_at(position).is_none_or(|crc32| crc32 == entry.crc32)
    };
    index.len() as usize == pack.entries().len()
        && index.pack_checksum() == *pack.checksum()
        && index.verify_checksum().is_ok()
        && (0..).zip(pack.entries()).all(is_right)
}

/// Git's listing: objects in pack order, then the number of objects per delta depth.
fn list(objects: &[Listed], listing: PackReport) -> String {
    let mut text = String::new();
    let mut depths: Vec<u64> = vec![0];
    for object in objects {
        let Listed { id, kind, size, packed_bytes, offset, depth, base } = object;
        if listing == PackReport::Objects {
            let _ = write!(text, "{id} {:<6} {size} {packed_bytes} {offset}", kind.to_string());
            if let Some(base) = base {
                let _ = write!(text, " {depth} {base}");
            }
            text.push('\n');
        }
        let depth = *depth as usize;
        if depths.len() <= depth {
            depths.resize(depth + 1, 0);
        }
        depths[depth] += 1;
    }
    let objects = |count: u64| if count == 1 { "1 object".to_owned() } else { format!("{count} objects") };
    if depths[0] > 0 {
        let _ = writeln!(text, "non delta: {}", objects(depths[0]));
    }
    for (depth, count) in depths.iter().enumerate().skip(1).filter(|(_, count)| **count > 0) {
        let _ = writeln!(text, "chain length = {depth}: {}", objects(*count));
    }
    text
}

fn say(call: &Call, text: &str) -> Result<(), Fatal> {
    call.write(text.as_bytes())
}

/// The stem of a pack that is named by its index, by itself, or without an extension.
fn stem(path: &Path) -> PathBuf {
    let name = path.as_os_str().as_bytes();
    let stem = name.strip_suffix(b".idx").or_else(|| name.strip_suffix(b".pack")).unwrap_or(name);
    PathBuf::from(OsStr::from_bytes(stem))
}
