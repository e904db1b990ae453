//! Odd and broken objects.

use packrace_object::{HashKind, Kind, object_id};
use packrace_testkit::Random;

use crate::Object;

/// Inserted into headers at any position.
const HEADER_PARTS: [&[u8]; 40] = [
    b" ",
    b"  ",
    b"\t",
    b"\n",
    b"\n\n",
    b"\0",
    b"<",
    b">",
    b"<>",
    b"0",
    b"00",
    b"1",
    b"9223372036854775807",
    b"9223372036854775808",
    b"99999999999999999999999",
    b"+0000",
    b"-",
    b"x",
    b"author ",
    b"committer ",
    b"parent ",
    b"tree ",
    b"object ",
    b"type ",
    b"tag ",
    b"tagger ",
    b"gpgsig ",
    b"encoding ",
    b"a..b",
    b".lock",
    b"@{",
    b"~",
    b"\\",
    b"/",
    b"\xff",
    b"\xc3\xa9",
    b"\x01",
    b"\r",
    b"author A <a@b> 1 +0000\n",
    b"blob",
];

fn pick<'a>(random: &mut Random, of: &[&'a [u8]]) -> &'a [u8] {
    of[random.below(of.len())]
}

/// A name that no object has.
fn hex(random: &mut Random, hash: HashKind) -> String {
    random.bytes(hash.len_in_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn broken(random: &mut Random, mut text: Vec<u8>, parts: &[&[u8]]) -> Vec<u8> {
    for _ in 0..random.below(4) {
        let at = random.below(text.len() + 1);
        match random.below(6) {
            0 => text.truncate(at),
            1 if at < text.len() => text[at] ^= 1 << random.below(8),
            2 if at < text.len() => drop(text.remove(at)),
            3 => {
                let (mut lines, at) = (lines(&text), random.below(8));
                if at < lines.len() {
                    match random.below(3) {
                        0 => drop(lines.remove(at)),
                        1 => lines.insert(at, lines[at].clone()),
                        _ => lines.swap(at, 0),
                    }
                }
                text = lines.concat();
            }
            _ => drop(text.splice(at..at, pick(random, parts).iter().copied())),
        }
    }
    text
}

fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn person(random: &mut Random) -> Vec<u8> {
    if random.one_in(2) {
        return b"A U Thor <author@example.com> 1112912053 -0700".to_vec();
    }
    let mut person = Vec::new();
    for parts in [
        &[b"A U Thor".as_slice(), b"", b"A>", b" ", b"A\xff"][..],
        &[b" ", b" ", b" ", b"", b"\t", b"  "],
        &[b"<", b"<", b"<", b"", b"<<"],
        &[b"a@b", b"", b"a b", b"a<b", b"\x01"],
        &[b">", b">", b">", b"", b">>"],
        &[b" ", b" ", b" ", b"", b"\t", b" \t", b"  "],
        &[b"1", b"0", b"01", b"", b"-1", b"1x", b"9223372036854775807", b"9223372036854775808", b"x"],
        &[b" ", b" ", b" ", b"", b"  ", b"\t"],
        &[b"+0000", b"+0000", b"-1234", b"", b"+000", b"00000", b"+00000", b"+000x", b"+0000 ", b"*0000"],
    ] {
        person.extend_from_slice(pick(random, parts));
    }
    person
}

/// A commit.
pub fn commit(random: &mut Random, hash: HashKind) -> Object {
    let mut text = format!("tree {}\n", hex(random, hash)).into_bytes();
    for _ in 0..random.below(3) {
        text.extend_from_slice(format!("parent {}\n", hex(random, hash)).as_bytes());
    }
    for role in [b"author ".as_slice(), b"committer "] {
        text.extend_from_slice(&[role, &person(random), b"\n"].concat());
    }
    text.extend_from_slice(pick(
        random,
        &[b"\nhello\n", b"", b"\n", b"encoding x\n\nhe\0llo", b"gpgsig x\n y\n\n\0"],
    ));
    let text = if random.one_in(2) { broken(random, text, &HEADER_PARTS) } else { text };
    Object::new(hash, Kind::Commit, text)
}

/// An annotated tag.
pub fn tag(random: &mut Random, hash: HashKind) -> Object {
    let kind = ["commit", "tree", "blob", "tag", "foo", "tree"][random.below(6)];
    let mut text = format!("object {}\ntype {kind}\ntag ", hex(random, hash)).into_bytes();
    text.extend_from_slice(pick(
        random,
        &[
            b"v1",
            b"v1",
            b"",
            b"a b",
            b"a..b",
            b"x.lock",
            b"/x",
            b"x/",
            b"x//y",
            b".x",
            b"@",
            b"@{",
            b"-x",
            b"a\\b",
            b"\xff",
            b"x.",
            b"x/.y",
            b"a~b",
            b"a^b",
            b"a:b",
            b"a?b",
            b"a*b",
            b"a[b",
            b"\x7f",
            b"x.lock/y",
            b"a@{b",
        ],
    ));
    text.push(b'\n');
    if !random.one_in(4) {
        text.extend_from_slice(&[b"tagger ", &*person(random), b"\n"].concat());
    }
    text.extend_from_slice(pick(
        random,
        &[b"\nhello\n", b"", b"\n", b"extra x\n\nhello", b"\nhe\0llo", b"gpgsig x\n y\n\n"],
    ));
    let text = if random.one_in(3) { broken(random, text, &HEADER_PARTS) } else { text };
    Object::new(hash, Kind::Tag, text)
}

const MODES: [&[u8]; 24] = [
    b"100644",
    b"100644",
    b"100644",
    b"40000",
    b"40000",
    b"120000",
    b"160000",
    b"100755",
    b"100664",
    b"0100644",
    b"040000",
    b"100600",
    b"0",
    b"644",
    b"1100644",
    b"40000000100644",
    b"140000",
    b"777777777777",
    b"",
    b"x",
    b"8",
    b"100644x",
    b" 1",
    b"40755",
];

fn push_entry(random: &mut Random, hash: HashKind, mode: &[u8], name: &[u8], tree: &mut Vec<u8>) {
    tree.extend_from_slice(&[mode, b" ", name, b"\0"].concat());
    match random.one_in(12) {
        true => tree.resize(tree.len() + hash.len_in_bytes(), 0),
        false => tree.extend(random.bytes(hash.len_in_bytes())),
    }
}

/// A tree whose names are close to each other, mostly sorted.
pub fn tree(random: &mut Random, hash: HashKind) -> Object {
    const LETTERS: &[u8] = b"aaab-./0.";
    let mut entries: Vec<(Vec<u8>, &[u8])> = Vec::new();
    for _ in 0..random.below(9) {
        let name: Vec<u8> = (0..1 + random.below(4)).map(|_| LETTERS[random.below(LETTERS.len())]).collect();
        let mode = if random.one_in(8) { pick(random, &MODES) } else { pick(random, &MODES[..6]) };
        entries.push((name, mode));
    }
    if random.one_in(20) {
        entries.push((vec![b'x'; 99 + random.below(4)], b"100644"));
    }
    if !random.one_in(4) {
        entries.sort_by_key(|(name, mode)| {
            [name.as_slice(), if *mode == b"40000" { b"/".as_slice() } else { b"" }].concat()
        });
    }
    let mut content = Vec::new();
    for (name, mode) in &entries {
        push_entry(random, hash, mode, name, &mut content);
    }
    match random.below(12) {
        0 => content.truncate(random.below(content.len() + 1)),
        1 => content.extend_from_slice(&[b"\0".as_slice(), &random.bytes(hash.len_in_bytes())].concat()),
        2 => content.extend_from_slice(&[b"1 \0".as_slice(), &random.bytes(hash.len_in_bytes())].concat()),
        3 if !content.is_empty() => {
            let at = random.below(content.len());
            content[at] ^= 1 << random.below(8);
        }
        _ => {}
    }
    Object::new(hash, Kind::Tree, content)
}

/// A tree with a name that some file system might take for another.
pub fn special_name(random: &mut Random, hash: HashKind) -> Object {
    const STARTS: [&[u8]; 34] = [
        b".",
        b"..",
        b".git",
        b".GIT",
        b"git~1",
        b"GIT~1",
        b"git~2",
        b".gitmodules",
        b".GitModules",
        b"gitmod~1",
        b"GITMOD~4",
        b"gitmod~5",
        b"gi7eba~1",
        b"gi7eb~10",
        b"gi7e~01",
        b"~1000000",
        b"g~123456",
        b"gi7~1234",
        b".gitattributes",
        b"gitatt~2",
        b"gi7d29~9",
        b"gi7d2~99",
        b".gitignore",
        b"gitign~3",
        b"gi250a~7",
        b"gi250~77",
        b".mailmap",
        b"mailma~1",
        b"maba30~1",
        b"maba3~12",
        b"m~123456",
        b"x",
        b"gitmod~",
        b"~1",
    ];
    const PARTS: [&[u8]; 29] = [
        b" ",
        b".",
        b":",
        b"\\",
        b"/",
        b"x",
        b"\xe2\x80\x8c",
        b"\xe2\x80\x8f",
        b"\xe2\x80\x8b",
        b"\xe2\x80\xaa",
        b"\xe2\x80\xaf",
        b"\xe2\x81\xaa",
        b"\xe2\x81\xb0",
        b"\xef\xbb\xbf",
        b"\xef\xbf\xbe",
        b"\xff",
        b"\xe2\x80",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98\x80",
        b"\xc0\x80",
        b"~1",
        b"\n",
        b"1",
        b"\xf4\x90\x80\x80",
        b"\xef\xbf\xbf",
        b"\xf0\x9f\xbf\xbe",
        b"\xef\xb7\x90",
        b"\xf8\x88\x80\x80\x80",
        b"\xe0\x80\x8c",
    ];
    let mut name = Vec::new();
    for _ in 0..if random.one_in(4) { 2 } else { 1 } {
        name.extend_from_slice(pick(random, &STARTS));
        for _ in 0..random.below(3) {
            let at = match random.below(3) {
                0 => 0,
                1 => name.len(),
                _ => random.below(name.len() + 1),
            };
            name.splice(at..at, pick(random, &PARTS).iter().copied());
        }
    }
    let mut content = Vec::new();
    let mode = pick(random, &[b"100644", b"120000", b"120000", b"40000", b"160000"]);
    push_entry(random, hash, mode, &name, &mut content);
    Object::new(hash, Kind::Tree, content)
}

/// A blob and a tree that names it, in any order.
fn named(random: &mut Random, hash: HashKind, name: &[u8], content: Vec<u8>) -> Vec<Object> {
    let id = object_id(hash, Kind::Blob, &content).unwrap();
    let tree = [b"100644 ", name, b"\0", id.as_slice()].concat();
    let mut objects = vec![Object::new(hash, Kind::Blob, content), Object::new(hash, Kind::Tree, tree)];
    match random.below(3) {
        0 => objects.reverse(),
        1 => {
            let both =
                [b"100644 .gitattributes\0", id.as_slice(), b"100644 .gitmodules\0", id.as_slice()].concat();
            objects.push(Object::new(hash, Kind::Tree, both));
        }
        _ => {}
    }
    objects
}

/// A `.gitmodules`.
pub fn modules(random: &mut Random, hash: HashKind) -> Vec<Object> {
    const PARTS: [&[u8]; 62] = [
        b"[submodule \"x\"]\n",
        b"[submodule \"x\"]\n",
        b"[submodule \"../x\"]\n",
        b"[submodule \"a\\\\..\"]\n",
        b"[submodule \"\"]",
        b"[submodule.x]\n",
        b"[SubModule \"y\"]",
        b"[submodule]\n",
        b"[other \"z\"]\n",
        b"[a.b-c]",
        b"[submodule\t\"x\"] ; c\n",
        b"path",
        b"path",
        b"url",
        b"update",
        b"URL",
        b"ignore",
        b"\tpath = -x\n",
        b"\tpath = x\n",
        b"\turl = -u\n",
        b"\tupdate = !x\n",
        b" = ",
        b"=",
        b"=-",
        b"=!",
        b"-x",
        b"\"",
        b"\\\\",
        b"\\\"",
        b"\\n",
        b"\\t",
        b"\\b",
        b"\\q",
        b"\\",
        b"\n",
        b"\n",
        b"\r\n",
        b"\r",
        b"\t",
        b" ",
        b"#c",
        b";c\n",
        b"[",
        b"]",
        b".",
        b"\0",
        b"\xff",
        b"\xfe",
        b"\xef\xbb\xbf",
        b"\x0b",
        b"\x0c",
        b"1",
        b"-",
        b"_",
        b"a=b\n",
        b"x",
        b"..",
        b"/",
        b"[submodule \"x",
        b"\"]",
        b"\xc3\xa9",
        b"\\\r\n",
    ];
    let mut text = Vec::new();
    for _ in 0..random.below(9) {
        text.extend_from_slice(pick(random, &PARTS));
    }
    named(random, hash, b".gitmodules", text)
}

/// A `.gitattributes`.
pub fn attributes(random: &mut Random, hash: HashKind) -> Vec<Object> {
    let mut text = random.next_u64().to_string().into_bytes();
    for _ in 0..random.below(4) {
        text.resize(text.len() + 2040 + random.below(12), b'x');
        text.extend_from_slice(pick(random, &[b"\n", b"\r\n", b"\0\n", b"", b"\n\n"]));
    }
    named(random, hash, b".gitattributes", text)
}

/// A `.gitmodules` with a URL.
pub fn submodule_url(random: &mut Random, hash: HashKind) -> Vec<Object> {
    const STARTS: [&[u8]; 23] = [
        b"http://",
        b"http://",
        b"https://",
        b"ftp://",
        b"ftps://",
        b"git://",
        b"ssh://",
        b"http::",
        b"https::",
        b"ftp::",
        b"ftps::",
        b"HTTP://",
        b"file://",
        b"http::x+1://",
        b"./",
        b"../",
        b"..\\",
        b"../../",
        b".\\../",
        b"ext::",
        b"-",
        b"",
        b"https://h/",
    ];
    const PARTS: [&[u8]; 58] = [
        b"h",
        b"h",
        b"h",
        b"x.y",
        b"/",
        b"/",
        b"/",
        b":",
        b":80",
        b":0",
        b":65535",
        b":65536",
        b":000001",
        b"@",
        b"u@",
        b"u:p@",
        b"?",
        b"#",
        b"%0a",
        b"%0A",
        b"%0d",
        b"%",
        b"%4",
        b"%zz",
        b"%41",
        b"%2e",
        b"%2E%2e",
        b"%2f",
        b"%00",
        b".",
        b"..",
        b"../",
        b"./",
        b"/..",
        b"/../",
        b"//",
        b"\\",
        b"..\\",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b"\x01",
        b"\x7f",
        b"\xc3\xa9",
        b"[",
        b"]",
        b"[::1]",
        b"_",
        b"-",
        b"*",
        b"'",
        b"(",
        b"<",
        b"http://",
        b"http::",
        b"+",
        b"~",
    ];
    let mut url = pick(random, &STARTS).to_vec();
    for _ in 0..random.below(7) {
        url.extend_from_slice(pick(random, &PARTS));
    }
    let mut text = b"[submodule \"x\"]\n\turl = \"".to_vec();
    for byte in url {
        match byte {
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\\' | b'"' => text.extend_from_slice(&[b'\\', byte]),
            _ => text.push(byte),
        }
    }
    text.extend_from_slice(b"\"\n");
    named(random, hash, b".gitmodules", text)
}
