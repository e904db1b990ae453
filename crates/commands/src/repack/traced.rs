//! Makes the packs of a repack; in a trace, by the programs that git would start.

use std::sync::{Arc, Mutex};

use packrace_os::trace::{self, TracedChild};
use packrace_pack::maintain::pack_files::PackFilesError;
use packrace_pack::maintain::repack::{self, RepackRequest, Repacked, Scope, Unreachable};
use packrace_pack::{BitmapTotals, BitmapUse, Phase, ProgressSink, RepackPart, RequestObjects, Totals};

use crate::options::{PackingOptions, RepackOptions};
use crate::progress::Progress;

/// Makes the packs; `cruft` are the options for cruft packs.
pub(super) fn write(
    args: &RepackOptions,
    cruft: &PackingOptions,
    request_objects: &Arc<RequestObjects>,
    request: &RepackRequest,
    progress: &Progress,
) -> Result<Repacked, PackFilesError> {
    let parts = TracedParts { args, cruft, request, progress, running: Mutex::new(None) };
    parts.begin(&args.packing, of_reachable(args, request));
    if args.packing.path_walk == Some(true) {
        progress.begin_path_walk(request.settings.name_hash);
    }
    let written = repack::write(request_objects, request, &parts);
    parts.end(written.is_ok());
    written
}

/// Progress, which also tells of the programs.
struct TracedParts<'a> {
    args: &'a RepackOptions,
    cruft: &'a PackingOptions,
    request: &'a RepackRequest,
    progress: &'a Progress,
    running: Mutex<Option<TracedChild>>,
}

impl TracedParts<'_> {
    fn begin(&self, packing: &PackingOptions, selection: Vec<String>) {
        if trace::is_on() {
            let argv = command(self.args, self.request, packing, selection);
            let started = trace::child_inside(&argv.iter().map(String::as_str).collect::<Vec<_>>());
            *self.running.lock().expect("no panic while held") = started;
        }
    }

    fn end(&self, is_well: bool) {
        self.progress.end_packs();
        let ended = self.running.lock().expect("no panic while held").take();
        ended.into_iter().for_each(|child| child.ended_inside(is_well));
    }
}

impl ProgressSink for TracedParts<'_> {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        self.progress.report(phase, done, total);
    }

    fn cancelled(&self) -> bool {
        self.progress.cancelled()
    }

    fn packed(&self, totals: &Totals) {
        self.progress.packed(totals);
    }

    fn bitmaps_made(&self, totals: &BitmapTotals) {
        self.progress.bitmaps_made(totals);
    }

    fn bitmaps_used(&self, used: &dyn Fn() -> BitmapUse) {
        self.progress.bitmaps_used(used);
    }

    fn loosened(&self, objects: u64) {
        self.progress.loosened(objects);
    }

    fn begin_part(&self, part: RepackPart) {
        self.end(true);
        match part {
            RepackPart::Filtered => self.begin(&self.args.packing, vec!["--stdin-packs".to_owned()]),
            RepackPart::Cruft => {
                let date = self.args.cruft_expiration.iter().map(|date| format!("--cruft-expiration={date}"));
                self.begin(self.cruft, of_cruft(date));
            }
            // Whatever has not expired is in a pack by then.
            RepackPart::Expired => self.begin(self.cruft, of_cruft([])),
        }
    }
}

/// The arguments, but for the name of the pack.
fn command(
    args: &RepackOptions,
    request: &RepackRequest,
    packing: &PackingOptions,
    selection: Vec<String>,
) -> Vec<String> {
    let number = |name: &str, value: Option<i64>| value.map(|value| format!("--{name}={value}"));
    let flag = |name: &str, is_on: bool| is_on.then(|| format!("--{name}"));
    let bytes = |value: Option<u64>| value.and_then(|bytes| i64::try_from(bytes).ok());
    let options = [
        number("window", packing.window),
        number("window-memory", bytes(packing.window_memory)),
        number("depth", packing.depth),
        number("threads", packing.threads),
        number("max-pack-size", bytes(packing.max_pack_size)),
        flag("no-reuse-delta", args.no_reuse_delta),
        flag("no-reuse-object", args.no_reuse_object),
        number("name-hash-version", packing.name_hash_version),
        flag("path-walk", packing.path_walk == Some(true)),
        flag("local", args.local),
        flag("quiet", args.quiet),
        flag("delta-base-offset", request.ofs_delta),
        flag("honor-pack-keep", !request.pack_kept),
    ];
    let words = ["git", "pack-objects"].map(str::to_owned).into_iter();
    words.chain(options.into_iter().flatten()).chain(selection).collect()
}

fn of_cruft(expiration: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut selection = vec!["--cruft".to_owned()];
    selection.extend(expiration);
    selection.push("--non-empty".to_owned());
    selection
}

fn of_reachable(args: &RepackOptions, request: &RepackRequest) -> Vec<String> {
    let kept = args.keep_pack.iter().map(|name| format!("--keep-pack={name}"));
    let selection: &[&str] = match request.scope {
        Scope::All(Unreachable::Drop | Unreachable::Cruft { .. }) => &[],
        Scope::All(Unreachable::Loosen { .. }) if args.unpack_unreachable.is_some() => &[],
        Scope::All(Unreachable::Loosen { .. }) => &["--unpack-unreachable"],
        Scope::All(Unreachable::Append) => &["--keep-unreachable", "--pack-loose-unreachable"],
        Scope::Loose => &["--unpacked", "--incremental"],
        Scope::Geometric(_) => &["--stdin-packs", "--unpacked"],
    };
    let all: &[&str] = match request.scope {
        Scope::Geometric(_) => &["--non-empty"],
        _ => &["--non-empty", "--all", "--reflog", "--indexed-objects"],
    };
    let dates = args.unpack_unreachable.iter().map(|date| format!("--unpack-unreachable={date}"));
    let filter = match &args.filter[..] {
        [] => None,
        [filter] => Some(format!("--filter={filter}")),
        filters => Some(format!("--filter=combine:{}", filters.join("+"))),
    };
    let words = all.iter().chain(selection).map(|word| (*word).to_owned()).chain(dates);
    let mut arguments: Vec<String> =
        ["--keep-true-parents".to_owned()].into_iter().chain(kept).chain(words).collect();
    arguments.extend(request.bitmap.is_some().then(|| "--write-bitmap-index".to_owned()));
    arguments.extend(request.islands.is_some().then(|| "--delta-islands".to_owned()));
    arguments.extend(filter);
    arguments
}
