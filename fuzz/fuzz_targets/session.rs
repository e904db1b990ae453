//! Input: settings (1 byte, see `Settings`), size of pieces (1 byte), a script. A script is lines of text, so that the
//! fuzzer need not count bytes:
//!
//! - `0000`, `0001`, `0002` are those packets;
//! - a line that begins with `!` is bytes for the stream as they are, without the `!`;
//! - a line that begins with `?` is an answer that nobody asked for (by its next byte);
//! - any other is a packet with that line; `$x` in it is a whole object name made of `x`.
//!
//! The session is run with the stream in one go and in pieces; what comes out must be the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_object::{HashKind, ObjectId};
use packrace_protocol::Refusal;
use packrace_protocol::message::packfile_uris::PackfileUri;
use packrace_protocol::session::{
    Carriage, Features, HavesAnswer, Input, Output, RequestLimits, ServiceConfig, ShallowAnswer, fetch_v0,
    fetch_v2,
};
use packrace_protocol::wire::pkt_line::{MAX_PAYLOAD, write_data};

fuzz_target!(|input: &[u8]| {
    let [settings, piece, script @ ..] = input else { return };
    let settings = Settings(*settings);
    let steps = steps(script, settings.hash());
    let whole = run(settings, &steps, usize::MAX);
    assert_eq!(whole, run(settings, &steps, usize::from(*piece).max(1)));
});

#[derive(Clone, Copy)]
struct Settings(u8);

impl Settings {
    fn hash(self) -> HashKind {
        if self.0 & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 }
    }

    fn config(self) -> ServiceConfig {
        // Small enough to be reached.
        let mut limits = RequestLimits::default();
        (limits.wants, limits.haves, limits.shallow) = (8, 16, 4);
        (limits.options, limits.name_bytes) = (3, 100);
        ServiceConfig {
            agent: "fuzz/1".into(),
            session_id: (self.0 & 2 != 0).then(|| "1-2".into()),
            hash: self.hash(),
            advertise_unborn: self.0 & 4 != 0,
            allow_unborn: self.0 & 4 != 0,
            allow_tip: self.0 & 8 != 0,
            allow_reachable: self.0 & 8 != 0,
            allow_filter: self.0 & 8 != 0,
            is_shallow: self.0 & 16 != 0,
            features: self.features(),
            limits,
        }
    }

    fn features(self) -> Features {
        if self.0 & 128 == 0 {
            return Features::default();
        }
        Features {
            ref_in_want: true,
            sideband_all: true,
            packfile_uris: true,
            object_info: true,
            bundle_uri: true,
            promisor_remote: Some(b"name=a,url=b".to_vec()),
        }
    }

    fn session(self) -> Session {
        let carriage = if self.0 & 32 == 0 { Carriage::Stateful } else { Carriage::Stateless };
        if self.0 & 64 == 0 {
            Session::V2(Box::new(fetch_v2::Session::new(self.config(), carriage)))
        } else {
            Session::V0(Box::new(fetch_v0::Session::new(self.config(), carriage)))
        }
    }
}

enum Session {
    V0(Box<fetch_v0::Session>),
    V2(Box<fetch_v2::Session>),
}

impl Session {
    fn handle(&mut self, input: Input<'_>) -> Result<(), Refusal> {
        match self {
            Session::V0(session) => session.handle(input),
            Session::V2(session) => session.handle(input),
        }
    }

    fn poll_output(&mut self) -> Output {
        match self {
            Session::V0(session) => session.poll_output(),
            Session::V2(session) => session.poll_output(),
        }
    }
}

enum Step {
    Bytes(Vec<u8>),
    Unasked(u8),
}

fn steps(script: &[u8], hash: HashKind) -> Vec<Step> {
    let mut steps = vec![Step::Bytes(Vec::new())];
    for line in script.split(|byte| *byte == b'\n').take(200) {
        if let [b'?', which, ..] = line {
            steps.push(Step::Unasked(*which));
            steps.push(Step::Bytes(Vec::new()));
            continue;
        }
        let Some(Step::Bytes(stream)) = steps.last_mut() else { unreachable!("there always is one") };
        match line {
            b"0000" | b"0001" | b"0002" => stream.extend(line),
            [b'!', raw @ ..] => stream.extend(raw),
            line => {
                let line = with_names(line, hash);
                write_data(&line[..line.len().min(MAX_PAYLOAD)], stream);
            }
        }
    }
    steps
}

fn with_names(line: &[u8], hash: HashKind) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = line.iter();
    while let Some(byte) = rest.next() {
        match (byte, rest.as_slice()) {
            (b'$', [name, ..]) => {
                out.extend(std::iter::repeat_n(*name, hash.len_in_hex()));
                rest.next();
            }
            _ => out.push(*byte),
        }
    }
    out
}

/// All that came out: bytes as one run, questions in between.
#[derive(Debug, PartialEq)]
enum Event {
    Bytes(Vec<u8>),
    Question(Output),
    Refused(String),
}

fn run(settings: Settings, steps: &[Step], piece: usize) -> Vec<Event> {
    let mut session = settings.session();
    let mut events = Vec::new();
    for step in steps {
        let ended = match step {
            Step::Unasked(which) => give(&mut session, unasked(*which), &mut events),
            Step::Bytes(bytes) => {
                let mut pieces = bytes.chunks(piece.min(bytes.len()).max(1));
                pieces.any(|piece| give(&mut session, Input::Bytes(piece), &mut events))
            }
        };
        if ended {
            return events;
        }
    }
    give(&mut session, Input::Eof, &mut events);
    events
}

/// Gives an input and answers all that is asked then; true if the session has ended.
fn give(session: &mut Session, input: Input<'_>, events: &mut Vec<Event>) -> bool {
    let mut result = session.handle(input);
    loop {
        let output = session.poll_output();
        let is_last = matches!(output, Output::NeedInput | Output::Done);
        let ended = output == Output::Done;
        let answer = answer(&output);
        match output {
            Output::Write(bytes) => match events.last_mut() {
                Some(Event::Bytes(run)) => run.extend(bytes),
                _ => events.push(Event::Bytes(bytes)),
            },
            Output::NeedInput | Output::Done => {}
            question => events.push(Event::Question(question)),
        }
        if let (Some(answer), Ok(())) = (answer, &result) {
            result = session.handle(answer);
        }
        if is_last {
            if let Err(refusal) = &result {
                events.push(Event::Refused(refusal.message().to_string()));
                assert!(ended, "a refusal ends the session");
            }
            assert!(events.len() < 10_000, "the session comes to an end");
            return ended;
        }
    }
}

/// Answers that depend on nothing but the question.
fn answer(output: &Output) -> Option<Input<'static>> {
    match output {
        Output::NeedRefs(_) => Some(Input::RefsSent),
        Output::CheckWants(_) => Some(Input::WantsGranted),
        Output::CheckHaves(haves) => {
            let known: Vec<bool> = haves.iter().map(|id| id.first_byte() & 1 == 0).collect();
            let implied = haves.iter().map(|id| id.first_byte() & 4 != 0).collect();
            let enough = haves.iter().map(|id| id.first_byte() & 2 != 0).collect();
            Some(Input::HavesChecked(HavesAnswer { known, implied, enough }))
        }
        Output::ResolveShallow(request) => {
            let shallow: Vec<ObjectId> = request.wants.iter().take(3).copied().collect();
            let unshallow = request.client_shallow.clone();
            Some(Input::ShallowResolved(ShallowAnswer { shallow, unshallow }))
        }
        Output::ResolveRefs(names) => {
            let id = |name: &Vec<u8>| ObjectId::from_hex(&[b'a' + name.len() as u8 % 6; 40]).ok();
            Some(Input::RefsResolved(names.iter().filter_map(id).collect()))
        }
        Output::NeedObjectInfo(_) => Some(Input::ObjectInfoSent),
        Output::NeedBundles => Some(Input::BundlesFound(vec![(b"bundle.version".to_vec(), b"1".to_vec())])),
        Output::ChooseUris(request) => {
            let uri = PackfileUri { pack_hash: vec![b'7'; 40], uri: request.uri_protocols.clone() };
            Some(Input::UrisChosen(if uri.fits() { vec![uri] } else { vec![] }))
        }
        Output::NeedPack(_) => Some(Input::PackSent),
        Output::CheckFilter(_)
        | Output::ClientShallow(_)
        | Output::ClientSession(_)
        | Output::UnknownPromisor(_)
        | Output::Write(_)
        | Output::NeedInput
        | Output::Done => None,
    }
}

fn unasked(which: u8) -> Input<'static> {
    match which % 9 {
        0 => Input::RefsSent,
        1 => Input::WantsGranted,
        2 => Input::HavesChecked(HavesAnswer { known: vec![true; 3], ..HavesAnswer::default() }),
        3 => Input::ShallowResolved(ShallowAnswer::default()),
        4 => Input::PackSent,
        5 => Input::RefsResolved(vec![]),
        6 => Input::ObjectInfoSent,
        7 => Input::UrisChosen(vec![]),
        _ => Input::Eof,
    }
}
