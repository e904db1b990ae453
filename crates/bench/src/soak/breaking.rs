//! A disk that fails under one repository, while others are served.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_object::HashKind;
use packrace_testkit::Random;
use packrace_testkit::peer::Script;
use packrace_testkit::raw_client::{Door, Take};

use super::Soak;

/// How long a file stays broken, and how long it is whole before the next one breaks.
const EVERY: Duration = Duration::from_millis(300);

/// How soon clones must be whole again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Cuts files of the fragile repository off and puts them back. Who clones it meanwhile gets the same pack as ever or an error;
/// who clones it afterwards gets the pack.
pub fn break_files(soak: &Soak, is_over: &AtomicBool, seed: u64) {
    let repo = &soak.site.fragile;
    let mut random = Random::new(seed);
    let files = match files(repo) {
        Ok(files) => files,
        Err(error) => return soak.fail("files that break", error),
    };
    let tips = crate::work::tips(soak.git, repo);
    let script = Script::new().fetch_v2("sha1", &tips.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let clone = |door, patience| {
        let target = soak.target(door, repo);
        let request = target.request(script.bytes());
        let end = Instant::now() + patience;
        target.fetch_patiently(&request, Take::Hash(HashKind::Sha1), end).map(|(got, _)| got.pack.bytes)
    };
    let mut expect = None;
    while !is_over.load(Relaxed) {
        let (path, bytes) = &files[random.below(files.len())];
        let door = if random.one_in(2) { Door::Git } else { Door::Http };
        let length = random.below(bytes.len());
        let who = format!("{} cut off at {length}, {door:?}", path.display());
        let broken =
            std::fs::File::options().write(true).open(path).and_then(|file| file.set_len(length as u64));
        if let Err(error) = broken {
            return soak.fail(&who, error);
        }
        soak.counts.changes.fetch_add(1, Relaxed);
        // That a pack which comes whole is right is checked by its trailer. It may be made another way without what is broken.
        drop(clone(door, Duration::ZERO));
        std::thread::sleep(EVERY);
        if let Err(error) = std::fs::write(path, bytes) {
            return soak.fail(&who, error);
        }
        let end = Instant::now() + PATIENCE;
        let again = loop {
            match clone(door, PATIENCE) {
                Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
                ended => break ended,
            }
        };
        match again {
            Ok(length) if *expect.get_or_insert(length) == length => {}
            Ok(length) => soak.fail(&who, format!("then a pack of {length} bytes, not {expect:?}")),
            Err(failure) => soak.fail(&who, format!("then not whole again: {failure}")),
        }
        std::thread::sleep(EVERY);
    }
}

/// The files that break, which can be written to from now on, and what is in them.
fn files(repo: &Path) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    use std::os::unix::fs::PermissionsExt as _;
    let packs = std::fs::read_dir(repo.join("objects/pack"))?.map(|entry| Ok(entry?.path()));
    let mut files = packs.collect::<io::Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|end| end == "pack" || end == "idx"));
    let read = |path: PathBuf| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644))?;
        let bytes = std::fs::read(&path)?;
        Ok((path, bytes))
    };
    files.into_iter().map(read).collect()
}
