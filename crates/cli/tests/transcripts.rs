//! Replays the requests and responses that were recorded from stock git against the binary: same packets,
//! same words, same exit code. The protocol crate replays them against its sessions; here a real repository
//! responds.

use std::path::Path;
use std::process::Command;

use packrace_testkit::peer::{Feed, Script, stdio};
use packrace_testkit::{Git, clean_environment};

const TRANSCRIPTS: [&str; 2] = [
    include_str!("../../protocol/src/session/tests/stock_v0.txt"),
    include_str!("../../protocol/src/session/tests/stock_v2.txt"),
];

/// Transcripts recorded with features turned on.
const FEATURE_TRANSCRIPTS: &str = include_str!("../../protocol/src/session/tests/stock_features.txt");

/// Their configuration.
const FEATURES: [(&str, &str); 8] = [
    ("uploadpack.allowRefInWant", "true"),
    ("uploadpack.allowSidebandAll", "true"),
    ("transfer.advertiseObjectInfo", "true"),
    ("uploadpack.advertiseBundleURIs", "true"),
    ("bundle.version", "1"),
    ("bundle.mode", "all"),
    ("bundle.Day.uri", "https://bundles.example/day?a=b"),
    (
        "uploadpack.blobPackfileUri",
        "9999999999999999999999999999999999999999 7777777777777777777777777777777777777777 https://a.example/1.pack",
    ),
];

/// One request and its answer, as written in the files.
#[derive(Default)]
struct Case {
    name: String,
    version: String,
    is_stateless: bool,
    request: Script,
    answer: Vec<String>,
}

/// Names in the transcripts, and the ids that they stand for.
type Ids = Vec<(String, String)>;

#[test]
fn recorded_requests_get_the_recorded_answers() {
    check(&TRANSCRIPTS, &[], 250);
}

#[test]
fn requests_recorded_with_features_get_the_recorded_answers() {
    check(&[FEATURE_TRANSCRIPTS], &FEATURES, 65);
}

fn check(transcripts: &[&str], config: &[(&str, &str)], at_least: usize) {
    let dir = packrace_testkit::scratch_dir();
    let ids = repository(dir.path());
    let cases: Vec<Case> = transcripts.iter().flat_map(|text| parse(text, &ids)).collect();
    assert!(cases.len() >= at_least, "{} cases", cases.len());
    let mut differing = Vec::new();
    for case in &cases {
        let answer = play(dir.path(), case, &ids, config);
        if answer != case.answer {
            differing.push(format!("{}\n  git  {:?}\n  ours {answer:?}", case.name, case.answer));
        }
    }
    assert!(differing.is_empty(), "{} of {}:\n{}", differing.len(), cases.len(), differing.join("\n"));
}

/// Makes the repository that the transcripts describe.
fn repository(dir: &Path) -> Ids {
    let git = Git::stock();
    git.run(dir, &["init", "--quiet", "--bare", "--initial-branch=main", "."]);
    let mut stream = String::new();
    for number in 1..=5 {
        let who = format!("C O Mitter <committer@example.com> 170000000{number} +0000");
        stream.push_str(&format!(
            "commit refs/heads/main\nmark :{number}\ncommitter {who}\ndata 2\nc{number}\n"
        ));
        stream.push_str(&format!("M 100644 inline f\ndata 2\n{number}\n\n"));
    }
    stream.push_str("reset refs/heads/old\nfrom :2\n\n");
    stream
        .push_str("tag v1\nfrom :5\ntagger C O Mitter <committer@example.com> 1700000006 +0000\ndata 2\nt\n");
    git.run_with_input(dir, &["fast-import", "--quiet"], stream.as_bytes());
    let mut ids = Ids::new();
    for number in 1..=5 {
        let id = git.run(dir, &["rev-parse", &format!("main~{}", 5 - number)]);
        ids.push((format!("{{c{number}}}"), id.trim().to_owned()));
        ids.push((format!("{{u{number}}}"), number.to_string().repeat(40)));
    }
    ids.push(("{t1}".into(), git.run(dir, &["rev-parse", "refs/tags/v1"]).trim().to_owned()));
    ids
}

fn parse(text: &str, ids: &Ids) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        if mark == "##" {
            cases.push(Case { name: rest.to_owned(), ..Case::default() });
        }
        let Some(case) = cases.last_mut() else { continue };
        match mark {
            "v0" | "v1" | "v2" => {
                case.version = format!("version={}", &mark[1..]);
                case.is_stateless = rest == "stateless";
                case.name.push_str(&format!(" ({line})"));
            }
            ">" => {
                let line =
                    ids.iter().fold(rest.replace("\\n", "\n"), |line, (name, id)| line.replace(name, id));
                let request = std::mem::take(&mut case.request);
                case.request = match rest {
                    "0000" | "0001" | "0002" => request.raw(rest.as_bytes()),
                    _ => request.data(line.as_bytes()),
                };
            }
            "=" => case.request = std::mem::take(&mut case.request).raw(rest.as_bytes()),
            "<" | "!" => case.answer.push(line.to_owned()),
            _ => {}
        }
    }
    cases
}

/// The binary's response, in the format of the transcripts. `ERR` packets with words that git does not send
/// are left out.
fn play(dir: &Path, case: &Case, ids: &Ids, config: &[(&str, &str)]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packrace"));
    clean_environment(&mut command);
    command.arg("upload-pack").env("GIT_PROTOCOL", &case.version);
    if case.is_stateless {
        command.arg("--stateless-rpc");
    }
    command.env("GIT_CONFIG_COUNT", config.len().to_string());
    for (at, (name, value)) in config.iter().enumerate() {
        command.env(format!("GIT_CONFIG_KEY_{at}"), name).env(format!("GIT_CONFIG_VALUE_{at}"), value);
    }
    let reply = stdio(command.arg(dir), case.request.bytes(), Feed::Whole);
    let with_names = |line: &str| ids.iter().fold(line.to_owned(), |line, (name, id)| line.replace(id, name));
    let words = reply.stderr.lines().find_map(|line| line.strip_prefix("fatal: "));
    let mut answer = Vec::new();
    for line in packets(&reply.stdout, !case.is_stateless) {
        if words.is_none_or(|words| line != format!("ERR {words}") && line != format!("\\3{words}")) {
            answer.push(format!("< {}", with_names(&line)));
        }
    }
    answer.extend(words.map(|words| format!("! {}", with_names(words))));
    let code = if words.is_some() { 128 } else { 0 };
    assert_eq!(reply.status.code(), Some(code), "{}: {}", case.name, reply.stderr);
    answer
}

/// The packets as lines; a pack is one line, with or without side-band. The advertisement is left out.
fn packets(mut bytes: &[u8], has_advertisement: bool) -> Vec<String> {
    let (mut lines, mut skips, mut is_in_pack) = (Vec::new(), has_advertisement, false);
    while !bytes.is_empty() {
        if bytes.starts_with(b"PACK") {
            lines.push("PACK".to_owned());
            break;
        }
        let digits = std::str::from_utf8(&bytes[..4]).expect("a length");
        let length = usize::from_str_radix(digits, 16).expect("a length");
        let (packet, rest) = bytes.split_at(length.max(4));
        bytes = rest;
        match packet[4..].first() {
            None if skips => skips = length != 0,
            None if is_in_pack => is_in_pack = false,
            None => lines.push(digits.to_owned()),
            Some(_) if skips => {}
            Some(band @ (1 | 3)) if !is_in_pack && !packet[5..].starts_with(b"PACK") => {
                lines.push(format!(
                    "\\{band}{}",
                    String::from_utf8_lossy(&packet[5..]).trim_end_matches('\n')
                ));
            }
            Some(1..=3) => {
                if !std::mem::replace(&mut is_in_pack, true) {
                    lines.push("PACK".to_owned());
                }
            }
            Some(_) => lines.push(String::from_utf8_lossy(&packet[4..]).trim_end_matches('\n').to_owned()),
        }
    }
    lines
}
