use std::collections::BTreeSet;
use std::path::Path;

use super::*;

#[test]
fn rules() {
    for (name, expect) in [
        ("core.bare", Rule::Counts),
        ("receive.procreceiverefs", Rule::Counts),
        ("core.alternaterefscommand", Rule::Program),
        ("gpg.program", Rule::Program),
        ("gpg.ssh.program", Rule::Program),
        ("filter.a.b.smudge", Rule::Program),
        ("hook.x.command", Rule::Program),
        ("core.hookspath", Rule::Hooks),
        ("core.worktree", Rule::WorkTree),
        ("core.attributesfile", Rule::File),
        ("mailmap.file", Rule::File),
        ("remote.origin.url", Rule::Counts),
        ("remote.origin.uploadpack", Rule::Program),
        ("diff.x.textconv", Rule::Program),
    ] {
        assert_eq!(rule(name.as_bytes()), expect, "{name}");
    }
}

/// Keys that a repository may set as in git: they affect which of its own objects and refs are served,
/// how they are stored and at what cost, or only commands that nobody runs for another user. No
/// program and no path.
const HARMLESS: &[&str] = &[
    "add.ignore-errors",
    "add.ignoreerrors",
    "advice.ignoredhook",
    "advice.x",
    "attr.tree",
    "bitmappseudomerge.x.decay",
    "bitmappseudomerge.x.maxmerges",
    "bitmappseudomerge.x.pattern",
    "bitmappseudomerge.x.samplerate",
    "bitmappseudomerge.x.stablesize",
    "bitmappseudomerge.x.stablethreshold",
    "bitmappseudomerge.x.threshold",
    "bundle.x",
    "bundle.x.creationtoken",
    "bundle.x.uri",
    "clone.defaultremotename",
    "color.diff",
    "color.status",
    "color.advice",
    "color.ui",
    "commitgraph.changedpaths",
    "commitgraph.changedpathsversion",
    "commitgraph.generationversion",
    "commitgraph.maxnewfilters",
    "commitgraph.readchangedpaths",
    "core.abbrev",
    "core.alternaterefsprefixes",
    "core.autocrlf",
    "core.bare",
    "core.bigfilethreshold",
    "core.checkroundtripencoding",
    "core.checkstat",
    "core.commentchar",
    "core.commentstring",
    "core.commitgraph",
    "core.compression",
    "core.createobject",
    "core.deltabasecachelimit",
    "core.disambiguate",
    "core.eol",
    "core.filemode",
    "core.filesreflocktimeout",
    "core.fsmonitorhookversion",
    "core.fsync",
    "core.fsyncmethod",
    "core.fsyncobjectfiles",
    "core.ignorecase",
    "core.ignorestat",
    "core.lockfilepid",
    "core.logallrefupdates",
    "core.loosecompression",
    "core.maxtreedepth",
    "core.multipackindex",
    "core.packedrefstimeout",
    "core.precomposeunicode",
    "core.prefersymlinkrefs",
    "core.protecthfs",
    "core.protectntfs",
    "core.quotepath",
    "core.repositoryformatversion",
    "core.safecrlf",
    "core.sharedrepository",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.splitindex",
    "core.symlinks",
    "core.trustctime",
    "core.untrackedcache",
    "core.usereplacerefs",
    "core.warnambiguousrefs",
    "core.whitespace",
    "diff.renamelimit",
    "extensions.objectformat",
    "extensions.partialclone",
    "extensions.preciousobjects",
    "extensions.refstorage",
    "extensions.submodulepathconfig",
    "extensions.worktreeconfig",
    "feature.experimental",
    "feature.manyfiles",
    "gc.auto",
    "gc.autodetach",
    "gc.autopacklimit",
    "gc.bigpackthreshold",
    "gc.cruftpacks",
    "gc.maxcruftsize",
    "gc.packrefs",
    "gc.pruneexpire",
    "gc.reflogexpire",
    "gc.writecommitgraph",
    "gc.x",
    "gpg.mintrustlevel",
    "http.getanyfile",
    "http.maxrequestbuffer",
    "i18n.commitencoding",
    "i18n.logoutputencoding",
    "index.skiphash",
    "index.sparse",
    "index.version",
    "log.abbrevcommit",
    "log.date",
    "log.decorate",
    "log.showsignature",
    "lsrefs.unborn",
    "mailmap.blob",
    "maintenance.auto",
    "maintenance.autodetach",
    "maintenance.commit-graph.auto",
    "maintenance.geometric-repack.auto",
    "maintenance.geometric-repack.splitfactor",
    "maintenance.loose-objects.auto",
    "maintenance.reflog-expire.auto",
    "maintenance.strategy",
    "maintenance.x.enabled",
    "merge.conflictstyle",
    "merge.default",
    "merge.directoryrenames",
    "merge.renormalize",
    "midx.version",
    "pack.allowpackreuse",
    "pack.compression",
    "pack.deltacachelimit",
    "pack.deltacachesize",
    "pack.depth",
    "pack.indexversion",
    "pack.island",
    "pack.islandcore",
    "pack.packsizelimit",
    "pack.preferbitmaptips",
    "pack.threads",
    "pack.usebitmaps",
    "pack.usepathwalk",
    "pack.usesparse",
    "pack.window",
    "pack.windowmemory",
    "pack.writebitmaphashcache",
    "pack.writebitmaplookuptable",
    "pack.writebitmaps",
    "pack.writereverseindex",
    "packrace.looselimit",
    "packrace.requirereachablewants",
    "packrace.writebytes",
    "promisor.advertise",
    "promisor.quiet",
    "promisor.sendfields",
    "push.default",
    "receive.advertiseatomic",
    "receive.advertisepushoptions",
    "receive.autogc",
    "receive.certnonceseed",
    "receive.certnonceslop",
    "receive.denycurrentbranch",
    "receive.denydeletecurrent",
    "receive.denydeletes",
    "receive.denynonfastforwards",
    "receive.fsckobjects",
    "receive.hiderefs",
    "receive.keepalive",
    "receive.maxinputsize",
    "receive.procreceiverefs",
    "receive.shallowupdate",
    "receive.unpacklimit",
    "receive.updateserverinfo",
    "reftable.blocksize",
    "reftable.geometricfactor",
    "reftable.indexobjects",
    "reftable.locktimeout",
    "reftable.restartinterval",
    "remote.pushdefault",
    "remote.x",
    "remote.x.mirror",
    "remote.x.x",
    "repack.cruftdepth",
    "repack.cruftthreads",
    "repack.cruftwindow",
    "repack.cruftwindowmemory",
    "repack.midxmustcontaincruft",
    "repack.midxnewlayerthreshold",
    "repack.midxsplitfactor",
    "repack.packkeptobjects",
    "repack.updateserverinfo",
    "repack.usedeltabaseoffset",
    "repack.usedeltaislands",
    "repack.writebitmaps",
    "rerere.enabled",
    "sparse.expectfilesoutsideofpatterns",
    "splitindex.maxpercentchange",
    "splitindex.sharedindexexpire",
    "stash.index",
    "stash.showincludeuntracked",
    "stash.showpatch",
    "stash.showstat",
    "submodule.x.ignore",
    "status.relativepaths",
    "status.renamelimit",
    "status.renames",
    "status.short",
    "status.showuntrackedfiles",
    "trailer.separators",
    "transfer.advertiseobjectinfo",
    "transfer.advertisesid",
    "transfer.fsckobjects",
    "transfer.hiderefs",
    "transfer.unpacklimit",
    "uploadpack.advertisebundleuris",
    "uploadpack.allowanysha1inwant",
    "uploadpack.allowfilter",
    "uploadpack.allowreachablesha1inwant",
    "uploadpack.allowrefinwant",
    "uploadpack.allowsidebandall",
    "uploadpack.allowtipsha1inwant",
    "uploadpack.blobpackfileuri",
    "uploadpack.hiderefs",
    "uploadpack.keepalive",
    "uploadpackfilter.allow",
    "uploadpackfilter.tree.maxdepth",
    "uploadpackfilter.x.allow",
    "user.email",
    "user.name",
    "user.useconfigonly",
    "user.x",
    "versionsort.prereleasesuffix",
    "versionsort.suffix",
];

/// Keys that are read from protected configuration only, or checked where they are read.
const CHECKED_ELSEWHERE: &[&str] = &[
    // They only disable services: `Service::check_enabled`.
    "http.receivepack",
    "http.uploadpack",
    // Only files in the served folder: `includes`.
    "include.path",
    // There is no repository yet.
    "http.followredirects",
    "http.sslverify",
    "remote.x.proxy",
    "transfer.credentialsinurl",
    "init.defaultbranch",
    "init.defaultobjectformat",
    "init.defaultrefformat",
    "init.defaultsubmodulepathconfig",
    "init.templatedir",
    "packrace.createonpush",
    // The file must be in the served folder: `FsckSettings`.
    "receive.fsck.skiplist",
    // Protected only: `ownership`.
    "safe.barerepository",
    "safe.directory",
];

/// Sections that are read whole, key by key: groups of refs, bundles and remotes advertised to clients, expiry of reflogs by
/// pattern, what may be wanted, labels of merges, extensions of the format; `filter`, which is denied whole; and `submodule`, of `.gitmodules`.
const SECTIONS: [&str; 13] = [
    "bitmappseudomerge",
    "bundle",
    "color",
    "diff",
    "extensions",
    "filter",
    "gc",
    "merge",
    "remote",
    "status",
    "submodule",
    "trailer",
    "uploadpack",
];

/// Methods of [`Config`](super::super::Config) that take a key.
const BY_KEY: [&str; 15] = [
    "string",
    "strings",
    "boolean",
    "integer",
    "small_integer",
    "bytes",
    "bytes_within",
    "expiry",
    "path",
    "protected_strings",
    "protected_boolean",
    "own_boolean",
    "value",
    "local_integer",
    "file_from_top",
];

const BY_SECTION: [&str; 3] = ["section", "subsections", "local_section"];

/// Keys, in lower case, and whole sections that the sources read.
fn read_in_sources() -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut keys, mut sections) = (BTreeSet::new(), BTreeSet::new());
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let shipped = std::fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path());
    for room in shipped.filter(|room| !room.ends_with("testkit") && !room.ends_with("bench")) {
        visit(&room.join("src"), &mut |text| {
            let pieces: Vec<&str> = text.split('"').collect();
            for pair in pieces.windows(2) {
                let is_argument_of = |method: &&str| pair[0].trim_end().ends_with(&format!(".{method}("));
                // A formatted part stands for any text.
                let piece = pair[1].split(['{', '}']).enumerate();
                let piece = piece.map(|(at, part)| if at % 2 == 0 { part } else { "x" }).collect::<String>();
                if BY_SECTION.iter().any(is_argument_of) {
                    sections.insert(piece);
                } else if piece.contains('.') && BY_KEY.iter().any(is_argument_of) || looks_like_a_key(&piece)
                {
                    keys.insert(piece.to_ascii_lowercase());
                }
            }
        });
    }
    (keys, sections)
}

/// Whether it is a name in a section that packrace reads (`receive.maxInputSize`).
fn looks_like_a_key(text: &str) -> bool {
    let known = HARMLESS.iter().chain(CHECKED_ELSEWHERE).map(|key| key.split('.').next().unwrap());
    let (section, key) = (text.split('.').next().unwrap(), text.rsplit('.').next().unwrap());
    let is_known = known.chain(SECTIONS).chain(["gpg"]).any(|known| known.eq_ignore_ascii_case(section));
    let is_word =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-*".contains(&byte));
    section.len() < text.len()
        && is_known
        && is_word(text)
        && key.starts_with(|first: char| first.is_ascii_lowercase())
}

fn visit(dir: &Path, look: &mut impl FnMut(&str)) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if name != "tests" && name != "trust" {
                visit(&path, look);
            }
        } else if name != "tests.rs" && name != "trust.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            look(text.split("#[cfg(test)]").next().unwrap());
        }
    }
}

/// A newly read key must be classified here or in [`rule`]: what may a repository decide by it?
#[test]
fn every_key_that_is_read_is_classified() {
    let (keys, sections) = read_in_sources();
    let is_counted = |key: &str| rule(key.as_bytes()) == Rule::Counts;
    let listed: BTreeSet<&str> = HARMLESS.iter().chain(CHECKED_ELSEWHERE).copied().collect();
    assert_eq!(listed.len(), HARMLESS.len() + CHECKED_ELSEWHERE.len(), "a key is there twice");
    let new: Vec<&String> =
        keys.iter().filter(|key| is_counted(key) && !listed.contains(key.as_str())).collect();
    assert_eq!(new, Vec::<&String>::new(), "may a repository of a stranger decide this?");
    let stale: Vec<&&str> = listed.iter().filter(|key| !is_counted(key) || !keys.contains(**key)).collect();
    assert_eq!(stale, Vec::<&&str>::new(), "nobody reads these, or they are denied");
    assert_eq!(sections.iter().map(String::as_str).collect::<Vec<_>>(), SECTIONS);
}
