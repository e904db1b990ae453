//! Rearranges one imported pack into the storage that a test asks for.

use std::path::{Path, PathBuf};

use crate::Git;
use crate::storage::{Bitmap, GraphLayout, Loose, Storage};

/// Rearranges the objects and refs of the repository at `path`. `main_line` are its commits, oldest first.
pub(crate) fn apply(git: &Git, path: &Path, storage: &Storage, main_line: &[String]) {
    if let Some(depth) = storage.shallow_depth {
        assert!(
            storage.packs == 1 && storage.commit_graph == GraphLayout::No,
            "a shallow repository is one pack"
        );
        make_shallow(git, path, depth);
    }
    git.run(path, &["-c", "pack.threads=1", "-c", "repack.writeBitmaps=false", "repack", "-adfq"]);
    if storage.packs > 1 {
        split_packs(git, path, storage.packs, main_line);
    }
    let mut packs = packs_oldest_first(path);
    match storage.loose {
        Loose::No => {}
        Loose::Newest => {
            assert!(packs.len() >= 2, "the older packs stay");
            unpack(git, path, packs.pop().expect("there are packs"));
        }
        Loose::All => packs.drain(..).for_each(|pack| unpack(git, path, pack)),
    }
    if storage.keep_oldest {
        std::fs::write(packs[0].with_extension("keep"), b"").expect("a keep file can be written");
    }
    if storage.alternate {
        assert!(!storage.multi_pack_index && storage.bitmap == Bitmap::No, "indexes are for one directory");
        move_to_alternate(path, &packs[..packs.len() / 2]);
    }
    write_bitmap_and_index(git, path, storage);
    write_commit_graph(git, path, storage.commit_graph, main_line);
    if storage.packed_refs {
        git.run(path, &["pack-refs", "--all"]);
        git.run(path, &["update-ref", "refs/heads/loose", "main"]);
    }
}

/// Replaces the repository by a clone with all its refs and limited depth.
fn make_shallow(git: &Git, path: &Path, depth: usize) {
    let full = path.with_extension("full");
    std::fs::rename(path, &full).expect("a repository can be moved");
    let url = format!("file://{}", full.display());
    let depth = format!("--depth={depth}");
    let format = git.run(&full, &["rev-parse", "--show-ref-format"]);
    let format = format!("--ref-format={}", format.trim());
    let target = path.to_str().expect("test paths are UTF-8");
    git.run(Path::new("/"), &["clone", "-q", "--mirror", &depth, &format, &url, target]);
    git.run(path, &["remote", "remove", "origin"]);
    std::fs::remove_dir_all(full).expect("and removed");
}

/// Packs the history in `count` sections of the main line; the last one has everything else too.
fn split_packs(git: &Git, path: &Path, count: usize, main_line: &[String]) {
    let whole = packs_oldest_first(path);
    let mut previous: Option<&String> = None;
    for number in 1..=count {
        let tip = &main_line[main_line.len() * number / count - 1];
        let mut revs = format!("{tip}\n");
        if let Some(previous) = previous {
            revs.push_str(&format!("^{previous}\n"));
        }
        previous = Some(tip);
        let base = path.join("objects/pack/pack");
        let base = base.to_str().expect("test paths are UTF-8");
        let what = if number == count { "--all" } else { "--revs" };
        let pack = ["-c", "pack.threads=1", "pack-objects", "-q", "--delta-base-offset", what, base];
        let name = git.run_with_input(path, &pack, revs.as_bytes());
        let name = String::from_utf8_lossy(&name).trim().to_string();
        // If sizes and names do not differ, git orders packs by age; it sees differences of a second.
        let age =
            std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_200_000_000 + number as u64);
        let file = std::fs::File::options().append(true).open(format!("{base}-{name}.pack"));
        // git makes packs read-only; root may open them anyway, others change the mode first.
        let file = file.or_else(|_| make_writable(Path::new(&format!("{base}-{name}.pack"))));
        file.and_then(|file| file.set_modified(age)).expect("a pack's time can be set");
    }
    whole.iter().for_each(|pack| remove_pack(pack));
}

fn make_writable(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))?;
    std::fs::File::options().append(true).open(path)
}

/// The `.pack` files of the repository itself.
fn packs_oldest_first(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path.join("objects/pack")).expect("a repository has a pack directory");
    let mut packs: Vec<PathBuf> = entries
        .map(|entry| entry.expect("entries can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pack"))
        .collect();
    packs.sort_by_key(|pack| {
        (pack.metadata().and_then(|m| m.modified()).expect("files have a time"), pack.clone())
    });
    packs
}

fn remove_pack(pack: &Path) {
    for extension in ["idx", "rev", "pack"] {
        let file = pack.with_extension(extension);
        if file.exists() {
            std::fs::remove_file(file).expect("a pack can be removed");
        }
    }
}

fn unpack(git: &Git, path: &Path, pack: PathBuf) {
    let bytes = std::fs::read(&pack).expect("a pack can be read");
    remove_pack(&pack);
    git.run_with_input(path, &["unpack-objects", "-q"], &bytes);
}

fn move_to_alternate(path: &Path, packs: &[PathBuf]) {
    let name =
        format!("{}-alternate", path.file_stem().and_then(|stem| stem.to_str()).expect("a UTF-8 name"));
    let directory = path.with_file_name(&name).join("objects/pack");
    std::fs::create_dir_all(&directory).expect("the alternate can be made");
    for pack in packs {
        for extension in ["pack", "idx", "rev", "keep"] {
            let file = pack.with_extension(extension);
            if file.exists() {
                let target = directory.join(file.file_name().expect("a file has a name"));
                std::fs::rename(&file, target).expect("a pack can be moved");
            }
        }
    }
    let info = path.join("objects/info");
    std::fs::create_dir_all(&info).expect("objects/info can be made");
    std::fs::write(info.join("alternates"), format!("../../{name}/objects\n")).expect("and written to");
}

fn write_bitmap_and_index(git: &Git, path: &Path, storage: &Storage) {
    let lookup = format!("pack.writeBitmapLookupTable={}", storage.bitmap == Bitmap::LookupTable);
    let mut args = vec!["-c", "pack.threads=1", "-c", lookup.as_str()];
    match (storage.multi_pack_index, storage.bitmap) {
        (false, Bitmap::No) => return,
        (false, _) => {
            assert!(
                storage.packs == 1 && storage.loose == Loose::No,
                "a pack's bitmap needs all in one pack"
            );
            args.extend(["repack", "-adbq"]);
        }
        (true, Bitmap::No) => args.extend(["multi-pack-index", "write"]),
        (true, _) => {
            assert!(storage.loose == Loose::No, "a bitmap needs all in packs");
            args.extend(["multi-pack-index", "write", "--bitmap"]);
        }
    }
    git.run(path, &args);
}

fn write_commit_graph(git: &Git, path: &Path, commit_graph: GraphLayout, main_line: &[String]) {
    match commit_graph {
        GraphLayout::No => {}
        GraphLayout::Single => {
            drop(git.run(path, &["commit-graph", "write", "--reachable", "--no-progress"]))
        }
        GraphLayout::Split => {
            let older = format!("{}\n", main_line[main_line.len() / 2]);
            let split = ["commit-graph", "write", "--no-progress", "--split=no-merge"];
            git.run_with_input(path, &[&split[..], &["--stdin-commits"]].concat(), older.as_bytes());
            git.run(path, &[&split[..], &["--reachable"]].concat());
        }
    }
}
