//! Writes a starting corpus for every target: `cargo run --bin seeds` in `fuzz/`, then files are in `fuzz/corpus/`.
//! They come from small repositories that stock git builds, so they are the same on every machine.

use std::path::{Path, PathBuf};

use packrace_format::head::{
    self, FilePlace, Head, ObjectKey, PackFileKind, StoredFile, StoredPack, StoredTable, WriteToken,
};
use packrace_object::HashKind;
use packrace_protocol::wire::pkt_line::write_data;
use packrace_testkit::{Bitmap, Git, GraphLayout, RefFormat, Repo, RepoBuilder, Size, Storage};

fn main() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let seeds = Seeds { hash, flag: u8::from(hash == HashKind::Sha256) };
        seeds.of_packs();
        seeds.of_bitmaps();
        seeds.of_pseudo_merges();
        seeds.of_commit_graphs();
        seeds.of_conversations();
        seeds.of_reftables();
        seeds.of_indexes();
        seeds.of_heads();
        seeds.of_requests();
        seeds.of_access();
        seeds.of_objects();
        seeds.of_clients_and_servers();
    }
}

struct Seeds {
    hash: HashKind,
    flag: u8,
}

impl Seeds {
    fn of_objects(&self) {
        let repo = self.repo(Storage::default());
        // In the order of their kinds' numbers.
        for (kind, name) in ["main", "main^{tree}", "", "of-a-tree"].into_iter().enumerate() {
            let flags = self.flag | (kind as u8) << 1;
            let content = match name {
                "" => b"[submodule \"a/b\"]\n\tpath = a # c\n\turl = \"http://u:p@h:80/a/../%0a?x\"\n\tupdate = !y\n".to_vec(),
                name => {
                    let kind = repo.git(&["cat-file", "-t", name]);
                    Git::stock().run_with_input(repo.path(), &["cat-file", kind.trim(), name], b"")
                }
            };
            self.save("fsck", &format!("kind-{kind}"), &[flags], &content);
        }
        self.save(
            "fsck",
            "settings",
            &[8],
            b"badDate=warn,largePathname=warn:10k skipList:x|nulInHeader=error",
        );
    }

    fn of_packs(&self) {
        let repo = self.repo(Storage::default());
        let pack = file(&repo, "pack");
        self.save("pack_entries", "pack", &[self.flag], &pack[..pack.len().min(1500)]);
        self.save("pack_entries", "delta", &[4, 5], b"hello\x05\x07\x91\x01\x04\x03bye");
        self.save(
            "pack_entries",
            "entry",
            &[self.flag | 6],
            &[&[0xe5, 0x85, 0x80, 1], &[7; 32][..]].concat(),
        );
        self.save("pack_entries", "distance", &[self.flag | 6], &[0x65, 0x85, 0x80, 1]);
        let blob = repo.git_with_input(&["hash-object", "-w", "--stdin"], b"loose");
        let loose = repo.path().join("objects").join(&blob[..2]).join(blob[2..].trim());
        self.save("pack_entries", "loose", &[2], &std::fs::read(loose).unwrap());
        for (name, option) in [("distance", "--delta-base-offset"), ("name", "--no-reuse-delta")] {
            let revisions = "HEAD\n^HEAD~3\n";
            let arguments = ["pack-objects", "--revs", "--stdout", "-q", "--window=50", option];
            let pack = Git::stock().run_with_input(repo.path(), &arguments, revisions.as_bytes());
            let end = pack.len() - self.hash.len_in_bytes();
            for settings in [0, 2 + 8] {
                let name = format!("{name}-{settings}");
                self.save("ingest", &name, &[self.flag | settings], &pack[..end]);
            }
        }
        let refs = std::fs::read(repo.path().join("packed-refs")).unwrap();
        repo.git(&["bundle", "create", "-q", "part.bundle", "main", "^main~3"]);
        let bundle = std::fs::read(repo.path().join("part.bundle")).expect("git wrote it");
        self.save("bundle", "part", &[self.flag], &bundle);
        self.save("packed_refs", "sorted", &[self.flag], &refs);
        let lines = refs.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"#"));
        self.save("packed_refs", "no-header", &[self.flag], &lines.collect::<Vec<_>>().concat());
        let (idx, rev) = (file(&repo, "idx"), file(&repo, "rev"));
        let [high, low] = (rev.len() as u16).to_be_bytes();
        self.save("idx", "v2", &[self.flag, high, low], &[rev, idx].concat());
        for version in ["--index-version=1", "--index-version=2,0x100"] {
            let out = repo.path().join("again.idx");
            let _ = std::fs::remove_file(&out);
            let pack = path(&repo, "pack");
            repo.git(&["index-pack", version, "-o", out.to_str().unwrap(), pack.to_str().unwrap()]);
            self.save("idx", version, &[self.flag, 0, 0], &std::fs::read(out).unwrap());
        }
    }

    fn of_heads(&self) {
        let checksum = self.hash.empty_tree();
        let key = ObjectKey { generation: 1, token: WriteToken([1; 16]) };
        let stored = |length, place| StoredFile { length, sha256: [2; 32], place };
        let of_object = |kind| (kind, stored(5, FilePlace::Object { key, offset: 9 }));
        let head = Head {
            hash: self.hash,
            generation: 3,
            token: WriteToken([3; 16]),
            recent: vec![key.token],
            floor: 1,
            shrunk: 2,
            config: vec![(b"transfer.hiderefs".to_vec(), b"refs/pull".to_vec())],
            shallow: vec![checksum],
            packs: vec![StoredPack {
                checksum,
                files: [PackFileKind::Pack, PackFileKind::Index].map(of_object).to_vec(),
            }],
            tables: vec![StoredTable {
                name: b"0x000000000001-0x000000000001-01234567.ref".to_vec(),
                file: stored(3, FilePlace::Inline(b"abc".to_vec())),
            }],
            dropped: vec![key],
        };
        let bytes = head::write(&head).unwrap();
        self.save("head", "whole", &[], &bytes[..bytes.len() - 32]);
    }

    fn of_bitmaps(&self) {
        for bitmap in [Bitmap::Plain, Bitmap::LookupTable] {
            let repo = self.repo(Storage { bitmap, ..Storage::default() });
            let objects = repo.git(&["count-objects", "-v"]);
            let objects = objects.lines().find_map(|line| line.strip_prefix("in-pack: ")).unwrap();
            let [high, low] = objects.parse::<u16>().unwrap().to_be_bytes();
            self.save("bitmap", &format!("{bitmap:?}"), &[self.flag, high, low], &file(&repo, "bitmap"));
            let storage = Storage { bitmap, packs: 3, multi_pack_index: true, ..Storage::default() };
            let repo = self.repo(storage);
            let midx = std::fs::read(repo.path().join("objects/pack/multi-pack-index")).unwrap();
            self.save("midx", &format!("{bitmap:?}"), &[self.flag], &midx);
        }
    }

    fn of_pseudo_merges(&self) {
        let repo = self.repo(Storage::default());
        let settings = ["pattern=refs/", "threshold=now", "sampleRate=1", "maxMerges=2"];
        let settings = settings.map(|setting| format!("bitmapPseudoMerge.all.{setting}"));
        let mut args: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting.as_str()]).collect();
        args.extend(["repack", "-adbq"]);
        repo.git(&args);
        let objects = repo.git(&["count-objects", "-v"]);
        let objects = objects.lines().find_map(|line| line.strip_prefix("in-pack: ")).unwrap();
        let [high, low] = objects.parse::<u16>().unwrap().to_be_bytes();
        self.save("bitmap", "pseudo-merges", &[self.flag, high, low], &file(&repo, "bitmap"));
    }

    fn of_commit_graphs(&self) {
        let repo = self.repo(Storage { commit_graph: GraphLayout::Single, ..Storage::default() });
        let graph = std::fs::read(repo.path().join("objects/info/commit-graph")).unwrap();
        self.save("commit_graph", "single", &[self.flag, 0, 0], &graph);
        repo.git(&["commit-graph", "write", "--reachable", "--changed-paths"]);
        let graph = std::fs::read(repo.path().join("objects/info/commit-graph")).unwrap();
        self.save("commit_graph", "filters", &[self.flag, 0, 0], &graph);
        let repo = self.repo(Storage { commit_graph: GraphLayout::Split, ..Storage::default() });
        let graphs = repo.path().join("objects/info/commit-graphs");
        let chain = std::fs::read_to_string(graphs.join("commit-graph-chain")).unwrap();
        let files: Vec<Vec<u8>> = chain
            .lines()
            .map(|name| std::fs::read(graphs.join(format!("graph-{name}.graph"))).unwrap())
            .collect();
        let [high, low] = (files[0].len() as u16).to_be_bytes();
        self.save("commit_graph", "chain", &[self.flag, high, low], &files.concat());
    }

    fn of_conversations(&self) {
        let v2 = [
            "command=ls-refs\nagent=x\n0001\nsymrefs\npeel\nunborn\nref-prefix refs/heads/\n0000\n0000",
            "command=fetch\nobject-format=sha256\n0001\nthin-pack\nofs-delta\nwant $1\nhave $2\nhave $3\n0000\n\
             command=fetch\nobject-format=sha256\n0001\nwant $1\nhave $4\ndone\n0000\n0000",
            "command=fetch\nobject-format=sha1\n0001\nwant $1\nshallow $2\ndeepen 5\ndeepen-relative\ndone\n0000\n0000",
            "command=fetch\n0001\nwant $1\ndeepen-since 5\ndeepen-not x\nwait-for-done\nhave $2\ninclude-tag\n0000",
        ];
        let v0 = [
            "want $1 multi_ack_detailed no-done side-band-64k ofs-delta object-format=sha256\nwant $2\nshallow $3\n\
             deepen 3\n0000\nhave $4\nhave $5\n0000\nhave $2\ndone",
            "want $1 multi_ack side-band\n0000\nhave $4\nhave $6\n0000\nhave $7\n0000\ndone",
            "want $1\n0000\nhave $2\n0000\n?0\n!0009done\n",
        ];
        let features = [
            "command=fetch\n0001\nsideband-all\nwant-ref refs/a\nwant-ref refs/b\nwant $1\nhave $2\ndeepen 1\n\
             packfile-uris http,https\n0000",
            "command=object-info\nobject-format=sha1\n0001\nsize\noid $1\noid $2\n0000\ncommand=bundle-uri\n0000\n0000",
            "command=fetch\npromisor-remote=a;%62\n0001\nwant $1\nfilter blob:none\npackfile-uris x\ndone\n0000",
        ];
        for (version, scripts) in [(0, &v2[..]), (64, &v0[..]), (128, &features[..])] {
            for (number, script) in scripts.iter().enumerate() {
                for carriage in [0, 32] {
                    let settings = self.flag | version | carriage | if number > 1 { 0x16 } else { 0 };
                    let name = format!("{settings}-{number}");
                    self.save("session", &name, &[settings, 3], script.as_bytes());
                }
            }
        }
        self.save("pkt_line", "stream", &[3], b"0009done\n000eversion 2\n0000000100020006\x01a0004");
    }

    fn of_reftables(&self) {
        let repo = RepoBuilder::new(Size::Tiny).hash(self.hash).ref_format(RefFormat::Reftable).build();
        // Small blocks, so that a table has an index; logs, so that there are deflated blocks.
        let settings = ["-c", "reftable.blockSize=512", "-c", "core.logAllRefUpdates=always"];
        for number in 0..40 {
            let name = format!("refs/heads/logged-{number:02}");
            repo.git(&[&settings[..], &["update-ref", "-m", "made", &name, "main"]].concat());
        }
        repo.git(&[&settings[..], &["pack-refs", "--all"]].concat());
        repo.git(&[&settings[..], &["update-ref", "-m", "moved", "refs/heads/logged-01", "main~1"]].concat());
        repo.git(&[&settings[..], &["update-ref", "-d", "refs/heads/logged-02"]].concat());
        let list = std::fs::read_to_string(repo.path().join("reftable/tables.list")).unwrap();
        self.save("reftable_stack", "list", &[], list.as_bytes());
        let mut stack = Vec::new();
        for name in list.lines() {
            let bytes = std::fs::read(repo.path().join("reftable").join(name)).unwrap();
            self.save("reftable", &bytes.len().to_string(), &[self.flag], &bytes);
            stack.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
            stack.extend_from_slice(&bytes);
        }
        let count = (list.lines().count() - 1) as u8;
        self.save("reftable_stack", "tables", &[count], &stack);
    }

    /// Indexes of work trees in every version, and the times of a cruft pack.
    fn of_indexes(&self) {
        let repo = self.repo(Storage::default());
        for version in ["2", "3", "4"] {
            let version = format!("index.version={version}");
            let _ = std::fs::remove_file(repo.path().join("index"));
            repo.git(&["-c", &version, "read-tree", "main"]);
            if version.ends_with('3') {
                let listed = repo.git(&["ls-files"]);
                let first = listed.lines().find(|name| !name.starts_with('"')).unwrap();
                repo.git(&[
                    "-c",
                    "core.bare=false",
                    "--work-tree=.",
                    "update-index",
                    "--skip-worktree",
                    first,
                ]);
            }
            let index = std::fs::read(repo.path().join("index")).unwrap();
            // The target adds the checksum.
            let index = &index[..index.len() - self.hash.len_in_bytes()];
            self.save("index_file", &version, &[self.flag, 2], index);
        }
        std::fs::remove_file(repo.path().join("index")).unwrap();
        let tree = repo.git(&["rev-parse", "main^{tree}"]);
        for message in ["one", "two", "three"] {
            repo.git(&["commit-tree", tree.trim(), "-m", message]);
        }
        repo.git(&["repack", "-d", "--cruft"]);
        self.save("index_file", "mtimes", &[self.flag, 1], &file(&repo, "mtimes"));
    }

    /// Filters, and pairs of contents to make deltas of.
    fn of_access(&self) {
        let headers = [
            "Basic YWxpY2U6YWxpY2U=",
            "Bearer prt_00",
            "192.0.2.1, 127.0.0.1",
            "for=\"[::1]:4\";proto=http",
            "a,b",
        ];
        for (number, header) in headers.iter().enumerate() {
            self.save("access", &format!("header-{number}"), &[0], header.as_bytes());
        }
        let rules = "team/a.git\nadmins = [\"@x\"]\n[groups]\nx = [\"alice\"]\n[[rule]]\nrepository = \"team/*\"\nwho = \"@x\"\n\
                     deny = [\"force\"]\nrefs = \"refs/heads/[a-z]?*\"\n";
        let users = "a\nalice:$2y$04$XZ0QjYUHdQqLIyqwDvmbfeS7dKyKyhaLoMmYbWpaTgOBUV3Yq0Dka\n\
                     bob:$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$ljFpLeKdQRz1dvgvQzbmTtnZAM6tNbQMMrb0trBOgcQ\n";
        let tokens = format!(
            "a\n[[token]]\nuser = \"a\"\nsha256 = \"{}\"\nexpires = \"2027-01-01T00:00:00Z\"\n",
            "0".repeat(64)
        );
        for (name, text) in [("rules", rules), ("users", users), ("tokens", tokens.as_str())] {
            self.save("access", name, &[1], text.as_bytes());
        }
    }

    fn of_requests(&self) {
        let specs = [
            "blob:none",
            "blob:limit=1k",
            "tree:0x10",
            "object:type=commit",
            "sparse:oid=main:a b",
            "combine:tree:2+blob:limit=3+combine:sparse%3aoid=a%252b+blob:none",
        ];
        for (number, spec) in specs.iter().enumerate() {
            self.save("filter_spec", &number.to_string(), &[], spec.as_bytes());
        }
        let line = |number: usize| format!("line {} of a file\n", number * 7 % 97);
        let base: String = (0..60).map(line).collect();
        let target: String = (10..30).chain(3..5).chain(40..80).map(line).collect();
        let [high, low] = (base.len() as u16).to_be_bytes();
        self.save(
            "delta_encode",
            "moved",
            &[0, 90, high, low],
            [base.as_bytes(), target.as_bytes()].concat().as_slice(),
        );
        self.save("delta_encode", "run", &[0, 90, 1, 0], &[b'a'; 700]);
    }

    /// Requests, pushes, settings, patterns, and what a server says to a clone.
    fn of_clients_and_servers(&self) {
        let targets = [
            "/a.git/info/refs?service=git-upload-pack",
            "/a%2fb/../%00c/git-receive-pack",
            "/a/objects/12/34567890123456789012345678901234567890",
        ];
        for (number, target) in targets.iter().enumerate() {
            self.save("requests", &number.to_string(), &[1 + (number % 2) as u8], target.as_bytes());
        }
        self.save("requests", "ssh", &[3], b"git-receive-pack '/a/it'\\''s'\\!' b.git'");
        self.save("requests", "git", &[0], b"git-upload-pack /a/b.git\0host=h:1\0\0version=2\0");
        let pushes = [
            "$0 $1 refs/heads/a|report-status-v2 side-band-64k push-options atomic object-format=sha256\n$1 $0 b\n0000\nx=1\n0000\n!PACK",
            "shallow $2\n$1 $2 refs/heads/a|report-status quiet session-id=x\n0000\n!PACK",
            "push-cert|report-status push-options\ncertificate version 0.1~\npusher me~\nnonce 1-a~\npush-option x~\n~\n\
             $0 $1 refs/heads/a~\n-----BEGIN PGP SIGNATURE-----~\nx~\npush-cert-end~\n0000\nx\n0000\n!PACK",
        ];
        for (number, script) in pushes.iter().enumerate() {
            self.save("push", &number.to_string(), &[self.flag | 6, 3], script.as_bytes());
        }
        let settings = "[limits]\ndrain-time = \"1m\"\nstall-bytes = 10\nexempt-addresses = [\"10.0.0.0/8\", \"::1\"]\n\
                        [listen]\ngit = \"[::1]:0\"\nadmin = \"none\"\n[log]\nlevel = \"debug\"\n[push]\nallowed = true\n\
                        [hooks]\nuser = \"git\"\nenvironment = [\"A_*\"]\n[cache]\ndirectory = \"/tmp\"\n";
        self.save("serve_config", "some", &[], settings.as_bytes());
        self.save("sparse", "patterns", &[5], b"a/b/c/*\n!/a/\n/a/**/c\n\\#x\n[a-c]?/\n **b* \n");
        let lines = |lines: &[&str], end: &[u8]| {
            let mut out = Vec::new();
            lines.iter().for_each(|line| write_data(format!("{line}\n").as_bytes(), &mut out));
            out.extend_from_slice(end);
            out
        };
        let format = format!("object-format={}", self.hash);
        let id = "1".repeat(self.hash.len_in_hex());
        let tag = format!("{id} refs/tags/v peeled:{id}");
        let refs = format!("{id} HEAD symref-target:refs/heads/main");
        let said = ["version 2", "agent=x", "ls-refs=unborn", "fetch=shallow", &format];
        let mut pack = lines(&["packfile"], b"");
        for band in [&b"\x02half\rdone\n"[..], b"\x01PACK", b"\x01more"] {
            write_data(band, &mut pack);
        }
        pack.extend_from_slice(b"0000");
        let mut body = Vec::new();
        for answer in [lines(&said, b"0000"), lines(&[&refs, &tag], b"0000")] {
            body.extend_from_slice(&(answer.len() as u16).to_be_bytes());
            body.extend(answer);
        }
        self.save("clone", "whole", &[3, 2], &[body, pack].concat());
    }

    fn repo(&self, storage: Storage) -> Repo {
        RepoBuilder::new(Size::Tiny).hash(self.hash).storage(storage).build()
    }

    fn save(&self, target: &str, name: &str, head: &[u8], body: &[u8]) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        std::fs::create_dir_all(&dir).unwrap();
        let seed = [head, body].concat();
        println!("{target}: {name} of {}: {} bytes", self.hash, seed.len());
        std::fs::write(dir.join(format!("{name}-{}", self.hash)), seed).unwrap();
    }
}

/// The only file of the repository's pack directory with this extension.
fn path(repo: &Repo, extension: &str) -> PathBuf {
    let listing = std::fs::read_dir(repo.path().join("objects/pack")).unwrap();
    let mut paths = listing.map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().is_some_and(|found| found == extension)).unwrap()
}

fn file(repo: &Repo, extension: &str) -> Vec<u8> {
    std::fs::read(path(repo, extension)).unwrap()
}
