//! The configuration that selects the backend (gitrepository-layout, "Git Repository Format Versions").

use gix_config::File;
use gix_config::file::{Metadata, init};
use packrace_object::HashKind;

use super::super::{Backend, RefStorage};

/// Longest file that is edited.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// Extensions that version 0 also has, and those without effect.
const OF_VERSION_0: [&str; 5] = ["noop", "partialclone", "preciousobjects", "worktreeconfig", "refstorage"];

/// A configuration file with another storage of refs and everything else kept.
pub(super) fn with_storage(
    text: &[u8],
    from: &RefStorage,
    to: &RefStorage,
    hash: HashKind,
) -> Result<Vec<u8>, String> {
    let damaged = |error: &dyn std::fmt::Display| format!("bad config: {error}");
    let mut file = File::from_bytes_no_includes(text, Metadata::api(), init::Options::default())
        .map_err(|error| damaged(&error))?;
    let found = file.raw_value("extensions.refStorage").ok();
    let found = found.map_or(Ok(Backend::Files.into()), |value| RefStorage::parse(value.as_ref()));
    if found.as_ref() != Ok(from) && found.as_ref() != Ok(to) {
        return Err("the configuration names other refs than GIT_REFERENCE_BACKEND".to_owned());
    }
    let is_plain = to.is_usual();
    let extensions = file.sections_by_name("extensions").into_iter().flatten();
    let is_old = |name: &String| OF_VERSION_0.contains(&name.to_ascii_lowercase().as_str());
    let needs_1 =
        extensions.flat_map(|section| section.value_names().collect::<Vec<_>>()).any(|name| !is_old(&name));
    let version = if !is_plain || needs_1 || hash != HashKind::Sha1 { "1" } else { "0" };
    file.set_raw_value("core.repositoryFormatVersion", version).map_err(|error| damaged(&error))?;
    if is_plain {
        remove(&mut file);
    } else {
        let value = to.to_value();
        file.set_raw_value("extensions.refstorage", value.as_slice()).map_err(|error| damaged(&error))?;
    }
    Ok(file.to_bstring().into())
}

/// Removes all values of `extensions.refStorage`, and their sections if nothing else is in them.
fn remove(file: &mut File) {
    let sections = file.sections_by_name("extensions").into_iter().flatten();
    let ids: Vec<_> = sections
        .filter(|section| section.header().subsection_name().is_none())
        .map(|section| section.id())
        .collect();
    for id in ids {
        let Some(mut section) = file.section_mut_by_id(id) else { continue };
        while section.remove("refStorage").is_some() {}
        // Without comments, too.
        if section.to_bstring().trim_ascii().eq_ignore_ascii_case(b"[extensions]") {
            file.remove_section_by_id(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_backend(text: &str, to: Backend, hash: HashKind) -> Result<Vec<u8>, String> {
        let from = if to == Backend::Files { Backend::Reftable } else { Backend::Files };
        with_storage(text.as_bytes(), &from.into(), &to.into(), hash)
    }

    #[test]
    fn places_stay() {
        let storage = |value: &str| RefStorage::parse(value.as_bytes()).unwrap();
        let text = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefstorage = files://x\n";
        let [files, tables, plain] = ["files://x", "reftable://x", "files"].map(storage);
        let changed = with_storage(text.as_bytes(), &files, &tables, HashKind::Sha1).unwrap();
        assert_eq!(changed, text.replace("files:", "reftable:").as_bytes());
        assert_eq!(with_storage(&changed, &tables, &files, HashKind::Sha1).unwrap(), text.as_bytes());
        let error =
            with_storage(text.as_bytes(), &plain, &Backend::Reftable.into(), HashKind::Sha1).unwrap_err();
        assert_eq!(error, "the configuration names other refs than GIT_REFERENCE_BACKEND");
    }

    #[test]
    fn only_the_format_is_changed() {
        let check = |before: &str, to: Backend, expect: &str| {
            let changed = with_backend(before, to, HashKind::Sha1).unwrap();
            assert_eq!(String::from_utf8(changed).unwrap(), expect);
        };
        let files = "# one\n[core] ; two\n\tbare = true\n\trepositoryformatversion = 0 # three\n[a \"b\"]\n  c=d\\\n e\n";
        let both = files.replace("version = 0", "version = 1");
        check(files, Backend::Reftable, &format!("{both}[extensions]\n\trefstorage = reftable\n"));
        let tables = format!(
            "{both}[extensions]\n\trefstorage = files\n\tRefStorage = reftable ; four\n\tpartialClone = o\n"
        );
        check(&tables, Backend::Files, &format!("{files}[extensions]\n ; four\n\tpartialClone = o\n"));
        let alone = format!("{both}[extensions]\n\trefstorage = reftable\n");
        check(&alone, Backend::Files, files);
        let newer = format!("{both}[Extensions]\n\trefstorage = reftable\n\trelativeWorktrees\n");
        check(&newer, Backend::Files, &format!("{both}[Extensions]\n\trelativeWorktrees\n"));
        assert!(with_backend("[core", Backend::Files, HashKind::Sha1).is_err());
    }

    #[test]
    fn sha256_needs_version_1() {
        let text = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n";
        let tables = format!("{text}\trefstorage = reftable\n");
        let changed = |text: &str, to| with_backend(text, to, HashKind::Sha256).unwrap();
        assert_eq!(changed(text, Backend::Reftable), tables.as_bytes());
        assert_eq!(changed(&tables, Backend::Files), text.as_bytes());
    }
}
