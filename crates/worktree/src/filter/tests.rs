//! Compares with stock git: what it stores, checks out and prints.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use packrace_object::ObjectId;
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::Git;
use tempfile::TempDir;

use super::*;

/// Contents that conversions treat differently.
const CONTENTS: [(&str, &[u8]); 14] = [
    ("empty", b""),
    ("lf", b"a\nb\n"),
    ("crlf", b"a\r\nb\r\n"),
    ("mixed", b"a\r\nb\nc"),
    ("lone-cr", b"a\rb\r\nc\r\r\n"),
    ("binary", b"a\0\r\nb\r\n"),
    ("control", b"\x01\x02\x03\r\n"),
    ("eof-mark", b"text\r\n\x1a"),
    ("ident", b"$Id$ $Id: 0123 $\n$Id: x\n$ $Id:$ $Id: a b c $ $Idx$ $Id"),
    ("utf16-be", b"\xfe\xff\0a\0\r\0\n\0b"),
    ("utf16-le", b"\xff\xfea\0\n\0\x3d\xd8\x00\xde"),
    ("utf16-odd", b"\xff\xfea\0\n"),
    ("utf32-le", b"\xff\xfe\0\0a\0\0\0"),
    ("latin", b"gr\xfc\xdfe\n"),
];

struct Twin {
    directory: TempDir,
}

impl Twin {
    fn new(attributes: &str, config: &[&str]) -> Self {
        let directory = packrace_testkit::scratch_dir();
        let twin = Twin { directory };
        twin.git(&["init", "-q"]);
        for setting in config {
            let (name, value) = setting.split_once('=').expect("a setting");
            twin.git(&["config", name, value]);
        }
        std::fs::write(twin.path(".gitattributes"), attributes).expect("a file");
        twin
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        Git::stock().command(self.directory.path()).args(args).output().expect("git runs")
    }

    fn git(&self, args: &[&str]) -> Vec<u8> {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn filters(&self, direction: Direction, messages: &mut Vec<String>) -> Filters {
        let repository =
            Repository::open(self.directory.path(), &OpenOptions::default()).expect("a repository");
        let snapshot = repository.snapshot().expect("objects");
        Filters::new(&repository, &snapshot, self.directory.path(), direction, messages).expect("filters")
    }

    /// The index's blob for a path.
    fn staged(&self, path: &[u8]) -> Option<ObjectId> {
        let path = format!(":{}", String::from_utf8_lossy(path));
        let output = self.run(&["rev-parse", "-q", "--verify", &path]);
        ObjectId::from_hex(output.stdout.trim_ascii()).ok()
    }

    /// Writes a file with an old time: git filters files that were written in the second of its index again,
    /// whatever else is added.
    fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.path(name), content).expect("a file");
        let file = std::fs::File::options().append(true).open(self.path(name)).expect("the file");
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        file.set_modified(long_ago).expect("its time");
    }

    /// Adds the file with both, and compares content, messages and refusals.
    fn check_add(&self, path: &str, purpose: Purpose) {
        if let Some(ours) = self.add(path, purpose, &|path| self.staged(path)) {
            self.check_stored(&[(path, ours)]);
        }
    }

    /// Adds the file with both, and compares messages and refusals. Returns what packrace would store.
    fn add(
        &self,
        path: &str,
        purpose: Purpose,
        staged: &dyn Fn(&[u8]) -> Option<ObjectId>,
    ) -> Option<Vec<u8>> {
        let content = std::fs::read(self.path(path)).expect("a file");
        let mut messages = Vec::new();
        let mut filters = self.filters(Direction::CheckIn, &mut messages);
        let ours = filters.to_git(path.as_bytes(), &content, purpose, staged, &mut messages);
        let ours = ours.map(Cow::into_owned).map_err(|error| error.to_string());
        let mut args = vec!["add", path];
        if purpose == Purpose::Renormalize {
            args.insert(1, "--renormalize");
        }
        let output = self.run(&args);
        if let Err(error) = &ours {
            messages.push(format!("fatal: {error}"));
        }
        let messages: String = messages.iter().map(|line| format!("{line}\n")).collect();
        assert_eq!(lines(&messages), lines(&String::from_utf8_lossy(&output.stderr)), "{path}");
        assert_eq!(ours.is_ok(), output.status.success(), "{path}");
        ours.ok()
    }

    /// Compares what packrace would store with what git stored.
    fn check_stored(&self, files: &[(&str, Vec<u8>)]) {
        let names: String = files.iter().map(|(path, _)| format!(":{path}\n")).collect();
        let theirs =
            Git::stock().run_with_input(self.directory.path(), &["cat-file", "--batch"], names.as_bytes());
        let mut rest = &theirs[..];
        for (path, ours) in files {
            let end = rest.iter().position(|&byte| byte == b'\n').expect("a line about each");
            let header = String::from_utf8_lossy(&rest[..end]);
            let [_, "blob", bytes] = header.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{path}: {header}");
            };
            let content;
            (content, rest) = rest[end + 1..].split_at(bytes.parse().expect("a length"));
            rest = &rest[1..];
            assert_eq!(ours.escape_ascii().to_string(), content.escape_ascii().to_string(), "{path}");
        }
        assert!(rest.is_empty());
    }

    /// Puts contents into the object database and the index, unfiltered. Returns their names.
    fn stage(&self, files: &[(&str, &[u8])]) -> Vec<ObjectId> {
        let names: String = files.iter().map(|(path, _)| format!("stored-{path}\n")).collect();
        for (path, stored) in files {
            std::fs::write(self.path(&format!("stored-{path}")), stored).expect("a file");
        }
        let git = |args: &[&str], input: &str| {
            Git::stock().run_with_input(self.directory.path(), args, input.as_bytes())
        };
        let ids = git(&["hash-object", "-w", "--no-filters", "--stdin-paths"], &names);
        let ids = String::from_utf8(ids).expect("ids");
        let entries = ids.lines().zip(files).map(|(id, (path, _))| format!("100644 {id}\t{path}\n"));
        git(&["update-index", "--index-info"], &entries.collect::<String>());
        ids.lines().map(|id| ObjectId::from_hex(id.as_bytes()).expect("an id")).collect()
    }

    /// Checks out what git stored.
    fn check_checkout(&self, path: &str, stored: &[u8], id: ObjectId) {
        let _ = std::fs::remove_file(self.path(path));
        let output = self.run(&["checkout-index", "-f", path]);
        let mut messages = Vec::new();
        let mut filters = self.filters(Direction::CheckOut, &mut messages);
        let ours = filters.to_worktree(
            path.as_bytes(),
            stored,
            &BlobSource::default(),
            &only(path, id),
            &mut messages,
        );
        let ours = match ours {
            Ok(ours) => ours.into_owned(),
            Err(error) => {
                assert!(!output.status.success(), "{path}: {error}");
                assert!(String::from_utf8_lossy(&output.stderr).contains(&error.to_string()), "{path}");
                return;
            }
        };
        let theirs = std::fs::read(self.path(path)).expect("a file checked out");
        assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string(), "{path}");
    }
}

/// An index with one file.
fn only(path: &str, id: ObjectId) -> impl Fn(&[u8]) -> Option<ObjectId> {
    move |asked| (asked == path.as_bytes()).then_some(id)
}

/// The distinct messages: git converts again if the index does not show that a file is unchanged. Omits
/// messages about processes that were terminated.
fn lines(messages: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = Vec::new();
    for line in messages.lines().filter(|line| !line.ends_with("died of signal 15")) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Tries all contents in both directions: new, over the same content, and over others in the index.
fn check(attributes: &str, config: &[&str]) {
    let twin = Twin::new(attributes, config);
    let mut stored = Vec::new();
    for (name, content) in CONTENTS {
        twin.write(name, content);
        stored.extend(twin.add(name, Purpose::Store, &|_| None).map(|ours| (name, ours)));
    }
    twin.check_stored(&stored);
    let twin = Twin::new(attributes, config);
    let ids = twin.stage(&CONTENTS);
    stored.clear();
    for ((name, content), id) in CONTENTS.into_iter().zip(ids) {
        twin.check_checkout(name, content, id);
        std::fs::write(twin.path(name), [b"first\r\n", content].concat()).expect("a file");
        stored.extend(twin.add(name, Purpose::Store, &only(name, id)).map(|ours| (name, ours)));
    }
    twin.check_stored(&stored);
}

#[test]
fn line_endings() {
    for auto in ["true", "input", "false"] {
        for eol in ["crlf", "lf", "native"] {
            if (auto, eol) != ("input", "crlf") {
                check("", &[&format!("core.autocrlf={auto}"), &format!("core.eol={eol}")]);
            }
        }
    }
    for attributes in ["* text", "* -text", "* text=auto", "* crlf", "* crlf=input", "* text=odd", "* !text"]
    {
        for eol in ["", " eol=lf", " eol=crlf", " eol=odd"] {
            check(&format!("{attributes}{eol}\n"), &["core.autocrlf=true"]);
        }
    }
    for attributes in ["* text\n", "* text=auto\n", "* text=auto eol=crlf\n"] {
        check(attributes, &["core.eol=crlf", "core.safecrlf=true"]);
    }
    check("* text=auto\n", &["core.safecrlf=false", "core.eol=crlf"]);
}

#[test]
fn renormalizing_ignores_the_index() {
    let twin = Twin::new("", &[]);
    for (name, content) in CONTENTS {
        twin.write(name, content);
    }
    twin.git(&["add", "."]);
    std::fs::write(twin.path(".gitattributes"), "* text=auto\n").expect("a file");
    for (name, _) in CONTENTS {
        twin.check_add(name, Purpose::Renormalize);
    }
}

#[test]
fn ids() {
    check("* ident\n", &[]);
    check("* ident text=auto\n", &["core.autocrlf=true"]);
}

#[test]
fn encodings() {
    for name in ["UTF-16", "utf16", "UTF-16LE", "UTF-16BE", "UTF-16LE-BOM", "UTF-32", "UTF-32LE", "UTF-32be"]
    {
        check(&format!("* working-tree-encoding={name}\n"), &[]);
        check(&format!("* text working-tree-encoding={name}\n"), &["core.eol=crlf"]);
    }
    for name in ["ISO-8859-1", "latin1", "UTF-8", "utf8", "", "nonsense", "SHIFT-JIS", "KOI8-R", "CP1252"] {
        check(&format!("[a-l]* working-tree-encoding={name}\n"), &[]);
    }
    check("* working-tree-encoding\n", &[]);
    check("* -working-tree-encoding\n", &[]);
    check("* working-tree-encoding=UTF-16LE\n", &["core.checkRoundtripEncoding=utf-16le, other"]);
}

#[test]
fn programs() {
    let filter = |clean: &str, required: &str| {
        let config = [
            format!("filter.x.clean={clean}"),
            "filter.x.smudge=tr a b".into(),
            format!("filter.x.required={required}"),
        ];
        check("* filter=x\n", &config.each_ref().map(String::as_str));
    };
    for required in ["false", "true"] {
        for clean in [
            "cat",
            "tr a-z A-Z",
            "echo %f; cat",
            "false",
            "true",
            "head -c 1",
            "cat && exit 3",
            "kill -9 $$",
            "/nowhere",
            "nowhere to be found 2>&-",
            "",
        ] {
            filter(clean, required);
        }
    }
    check("* filter=unknown\n", &[]);
    check("* filter=x\n", &["filter.x.required=true"]);
    check("* filter=x ident text\n", &["filter.x.clean=cat; printf 'x\\r\\n$Id: 1 $'", "core.eol=crlf"]);
}

#[test]
fn sources_of_attributes() {
    let twin =
        Twin::new("[attr]mine text eol=crlf\n*.mine mine\n*.txt text\nsub/*.both -text\n# text\n", &[]);
    let sub = twin.path("sub/deep");
    std::fs::create_dir_all(&sub).expect("a directory");
    std::fs::write(twin.path("sub/.gitattributes"), "*.both text\n*.txt -text\n*.bad bad\n").expect("a file");
    std::fs::write(twin.path("sub/deep/.gitattributes"), "/here text\nnot/here text\n").expect("a file");
    std::fs::write(twin.path(".git/info/attributes"), "*.info text\n").expect("a file");
    std::fs::write(twin.path("mine"), "*.user text\n*.info -text\n*.bin binary\n").expect("a file");
    let mine = twin.path("mine");
    twin.git(&["config", "core.attributesFile", mine.to_str().expect("a path")]);
    let names = ["a.mine", "a.txt", "a.both", "a.bad", "a.info", "a.user", "a.bin", "here", "other"];
    for directory in ["", "sub/", "sub/deep/", "else/"] {
        std::fs::create_dir_all(twin.path(directory)).expect("a directory");
        for name in names {
            let path = format!("{directory}{name}");
            std::fs::write(twin.path(&path), "a\r\nb\r\n").expect("a file");
            twin.check_add(&path, Purpose::Store);
        }
    }
    // From the index, because the file is deleted.
    twin.git(&["add", "."]);
    std::fs::remove_file(twin.path("sub/.gitattributes")).expect("it was there");
    std::fs::write(twin.path("sub/new.both"), "a\r\nb\n").expect("a file");
    twin.check_add("sub/new.both", Purpose::Store);
}

#[test]
fn lines_that_mean_nothing_are_told_of() {
    let twin = Twin::new(" !a text\n[attr]good text\n# [attr]bad\n", &[]);
    std::fs::create_dir(twin.path("sub")).expect("a directory");
    std::fs::write(twin.path("sub/.gitattributes"), "\n[attr]bad text\n!a text\na good\n").expect("a file");
    std::fs::write(twin.path("sub/a"), "a\r\nb\r\n").expect("a file");
    twin.check_add("sub/a", Purpose::Store);
}

#[test]
fn links_are_not_followed_and_directories_are_nothing() {
    let twin = Twin::new("", &[]);
    std::fs::write(twin.path("real"), "* text\n").expect("a file");
    std::fs::remove_file(twin.path(".gitattributes")).expect("it was there");
    symlink("real", twin.path(".gitattributes")).expect("a link");
    std::fs::write(twin.path("file"), "a\r\n").expect("a file");
    twin.check_add("file", Purpose::Store);
    std::fs::remove_file(twin.path(".gitattributes")).expect("it was there");
    std::fs::create_dir(twin.path(".gitattributes")).expect("a directory");
    twin.check_add("file", Purpose::Store);
}

/// A filter process in Python: upper case for `clean`, and a status that depends on the file name.
const PROCESS: &str = r#"
import sys
def read():
    size = int(sys.stdin.buffer.read(4) or b'0', 16)
    return None if size == 0 else sys.stdin.buffer.read(size - 4)
def until_flush():
    packets = []
    while (packet := read()) is not None:
        packets.append(packet)
    return packets
def lines():
    packets = until_flush()
    assert all(packet.endswith(b'\n') for packet in packets), packets
    return packets
def write(*packets):
    for packet in packets:
        sys.stdout.buffer.write(b'0000' if packet is None else b'%04x' % (len(packet) + 4) + packet)
    sys.stdout.buffer.flush()
lines()
write(b'git-filter-server\n', b'version=2\n', None)
lines()
write(b'capability=clean\n', None)
while True:
    about = lines()
    if not about:
        break
    name = about[1].split(b'=')[1].strip().decode()
    content = b''.join(until_flush())
    if name == 'lf':
        write(b'status=error\n', None)
    elif name == 'mixed':
        write(b'status=odd\n', None)
    elif name == 'ident':
        write(b'status=success\n', None, b'half', None, b'status=error\n', None)
    elif name == 'utf16-be':
        write(b'status=abort\n', None)
    else:
        write(b'status=success\n', None, *([content.upper()] if content else []), None, None)
"#;

#[test]
#[ignore = "needs python3"]
fn processes() {
    assert!(Command::new("python3").arg("--version").output().is_ok(), "this test needs python3");
    for required in ["false", "true"] {
        let twin = Twin::new("* filter=x\n", &[]);
        let script = twin.path("process.py");
        std::fs::write(&script, PROCESS).expect("a file");
        twin.git(&["config", "filter.x.process", &format!("python3 {}", script.display())]);
        twin.git(&["config", "filter.x.required", required]);
        for (name, content) in CONTENTS {
            twin.write(name, content);
            twin.check_add(name, Purpose::Store);
        }
    }
}

#[test]
fn what_stays_as_it_is_need_not_be_read() {
    let twin = Twin::new("*.txt text\n*.x filter=x\n*.y filter=y\n", &["filter.x.clean=cat"]);
    let mut messages = Vec::new();
    let mut filters = twin.filters(Direction::CheckIn, &mut messages);
    for (path, expected) in [("a.txt", true), ("a.x", true), ("a.y", false), ("a", false)] {
        let found =
            filters.needs_content(path.as_bytes(), &nothing_staged, &mut messages).expect("attributes");
        assert_eq!(found, expected, "{path}");
    }
    assert!(messages.is_empty(), "{messages:?}");
}
