//! The repository of the transcripts, just large enough to answer a session's questions.

use packrace_object::{HashKind, ObjectId, StoredId};

use crate::message::packfile_uris::PackfileUri;
use crate::message::{ls_refs, object_info};
use crate::refusal::Refusal;
use crate::session::{
    Carriage, Deepen, Features, HavesAnswer, Input, Output, PackRequest, RefsRequest, RequestLimits,
    ServiceConfig, ShallowAnswer, ShallowRequest, fetch_v0, fetch_v2,
};
use crate::wire::pkt_line::{Decoder, PktLine, text, write_data};

/// One request and its answer.
#[derive(Debug, Default)]
pub struct Script {
    pub name: String,
    pub version: u8,
    pub is_stateless: bool,
    /// Packets, with ids as names in braces.
    pub packets: Vec<String>,
    pub raw: String,
    pub answer: Vec<String>,
}

impl Script {
    pub fn parse_all(transcripts: &str) -> Vec<Script> {
        let mut scripts: Vec<Script> = Vec::new();
        for line in transcripts.lines() {
            let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
            if mark == "##" {
                scripts.push(Script { name: rest.to_owned(), ..Script::default() });
            }
            let Some(script) = scripts.last_mut() else { continue };
            match mark {
                "v0" | "v1" | "v2" => {
                    script.version = mark[1..].parse().unwrap();
                    script.is_stateless = rest == "stateless";
                    script.name.push_str(&format!(" ({line})"));
                }
                ">" => script.packets.push(rest.replace("\\n", "\n")),
                "=" => script.raw.push_str(rest),
                "<" | "!" => script.answer.push(line.to_owned()),
                _ => assert!(line.is_empty() || mark == "##", "{line}"),
            }
        }
        scripts
    }

    pub fn bytes(&self, model: &Model) -> Vec<u8> {
        let packets: Vec<String> = self.packets.iter().map(|line| model.with_ids(line)).collect();
        let mut bytes = Model::packets(&packets.iter().map(String::as_str).collect::<Vec<_>>());
        bytes.extend_from_slice(self.raw.as_bytes());
        bytes
    }

    pub fn session(&self, model: &Model) -> AnySession {
        let carriage = if self.is_stateless { Carriage::Stateless } else { Carriage::Stateful };
        if self.version == 2 {
            AnySession::V2(Box::new(fetch_v2::Session::new(model.config(), carriage)))
        } else {
            AnySession::V0(Box::new(fetch_v0::Session::new(model.config(), carriage)))
        }
    }
}

pub enum AnySession {
    V0(Box<fetch_v0::Session>),
    V2(Box<fetch_v2::Session>),
}

impl AnySession {
    pub fn handle(&mut self, input: Input<'_>) -> Result<(), Refusal> {
        match self {
            AnySession::V0(session) => session.handle(input),
            AnySession::V2(session) => session.handle(input),
        }
    }

    /// The message that tells the client of a refusal.
    fn wire(&self, refusal: &Refusal) -> Option<Vec<u8>> {
        match self {
            AnySession::V0(_) => refusal.wire(),
            AnySession::V2(session) => session.wire(refusal),
        }
    }

    pub fn poll_output(&mut self) -> Output {
        match self {
            AnySession::V0(session) => session.poll_output(),
            AnySession::V2(session) => session.poll_output(),
        }
    }
}

/// The state that a caller keeps during one negotiation.
#[derive(Default)]
pub struct Memory {
    wants: Vec<ObjectId>,
    common: Vec<u8>,
}

/// Commits `first` to 5 in a line.
pub struct Model {
    pub hash: HashKind,
    pub first: u8,
    pub limits: RequestLimits,
    pub allow_filter: bool,
    pub features: Features,
}

impl Default for Model {
    fn default() -> Self {
        let features = Features::default();
        Model {
            hash: HashKind::Sha1,
            first: 1,
            limits: RequestLimits::default(),
            allow_filter: false,
            features,
        }
    }
}

impl Model {
    /// The features that the transcript files with features have turned on.
    pub fn with_features() -> Self {
        let features = Features {
            ref_in_want: true,
            sideband_all: true,
            packfile_uris: true,
            object_info: true,
            bundle_uri: true,
            promisor_remote: None,
        };
        Model { features, ..Model::default() }
    }

    pub fn config(&self) -> ServiceConfig {
        ServiceConfig {
            allow_filter: self.allow_filter,
            is_shallow: self.first > 1,
            features: self.features.clone(),
            limits: self.limits,
            ..ServiceConfig::new("model", self.hash)
        }
    }

    /// Packets with these lines; `0000` to `0002` are the special packets.
    pub fn packets(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            match *line {
                "0000" | "0001" | "0002" => bytes.extend_from_slice(line.as_bytes()),
                line => write_data(line.as_bytes(), &mut bytes),
            }
        }
        bytes
    }

    /// Feeds the script in pieces of several sizes; the answer must be the same.
    pub fn play(&self, script: &Script) -> Vec<String> {
        let bytes = script.bytes(self);
        let whole = self.converse(script.session(self), &bytes, usize::MAX);
        for step in [1, 3] {
            assert_eq!(self.converse(script.session(self), &bytes, step), whole, "{} by {step}", script.name);
        }
        whole
    }

    /// The session's questions once it has the whole request.
    pub fn requests(
        &self,
        session: &mut AnySession,
        bytes: &[u8],
    ) -> (Option<ShallowRequest>, Option<PackRequest>) {
        let (mut shallow, mut memory) = (None, Memory::default());
        session.handle(Input::Bytes(bytes)).unwrap();
        loop {
            match session.poll_output() {
                Output::Write(_)
                | Output::CheckFilter(_)
                | Output::ClientShallow(_)
                | Output::ClientSession(_)
                | Output::UnknownPromisor(_) => {}
                Output::NeedPack(request) => return (shallow, Some(request)),
                Output::NeedInput | Output::Done => return (shallow, None),
                question => {
                    if let Output::ResolveShallow(request) = &question {
                        shallow = Some(request.clone());
                    }
                    let input = self.answer(question, &mut memory, &mut Vec::new()).unwrap();
                    session.handle(input).unwrap();
                }
            }
        }
    }

    fn is_plausible(&self, request: &PackRequest) -> bool {
        let is_known = |id| self.number(id).is_some();
        request.wants.iter().all(is_known) && request.haves.iter().all(is_known)
    }

    /// The whole conversation, one packet per line; `!` marks the refusal.
    pub fn converse(&self, mut session: AnySession, bytes: &[u8], step: usize) -> Vec<String> {
        let mut said = Vec::new();
        let mut answer = Vec::new();
        let mut memory = Memory::default();
        let mut pieces = bytes.chunks(step.min(bytes.len().max(1)));
        let refusal = loop {
            let refused = match session.poll_output() {
                Output::Write(bytes) => {
                    assert!(!bytes.is_empty());
                    said.extend_from_slice(&bytes);
                    Ok(())
                }
                Output::NeedInput => match pieces.next() {
                    Some(piece) => session.handle(Input::Bytes(piece)),
                    None => session.handle(Input::Eof),
                },
                Output::NeedPack(request) => {
                    assert!(self.is_plausible(&request));
                    write_data(b"PACK", &mut said);
                    session.handle(Input::PackSent)
                }
                Output::ClientShallow(_) | Output::ClientSession(_) | Output::UnknownPromisor(_) => Ok(()),
                Output::CheckFilter(spec) => {
                    assert_eq!(spec, b"blob:none");
                    Ok(())
                }
                Output::Done => break None,
                question => {
                    self.answer(question, &mut memory, &mut said).and_then(|input| session.handle(input))
                }
            };
            if let Err(refusal) = refused {
                while let Output::Write(bytes) = session.poll_output() {
                    said.extend_from_slice(&bytes);
                }
                break Some(refusal);
            }
        };
        let mut decoder = Decoder::default();
        decoder.push(&said);
        while let Some(packet) = decoder.next().unwrap() {
            answer.push(match packet {
                PktLine::Data(data) => {
                    format!("< {}", shown(&self.without_ids(&String::from_utf8_lossy(text(data)))))
                }
                PktLine::Flush => "< 0000".into(),
                PktLine::Delim => "< 0001".into(),
                PktLine::ResponseEnd => "< 0002".into(),
            });
        }
        if let Some(refusal) = refusal {
            if let Some(wire) = session.wire(&refusal) {
                let line = shown(&String::from_utf8_lossy(&wire[4..]));
                let words = line.strip_prefix("ERR ").or(line.strip_prefix("\\3")).expect("one or the other");
                if words != refusal.message() {
                    answer.push(format!("< {}", self.without_ids(&line)));
                }
            }
            answer.push(format!("! {}", self.without_ids(refusal.message())));
        }
        answer
    }

    /// The answers of a caller with this repository.
    pub fn answer(
        &self,
        question: Output,
        memory: &mut Memory,
        said: &mut Vec<u8>,
    ) -> Result<Input<'static>, Refusal> {
        match question {
            Output::NeedRefs(request) => {
                self.write_refs(&request, said);
                Ok(Input::RefsSent)
            }
            Output::ResolveRefs(names) => self.resolve(&names).map(Input::RefsResolved),
            Output::NeedObjectInfo(request) => {
                object_info::write_attributes(said, &request);
                for id in &request.ids {
                    object_info::write_object(said, id, &request, self.size(id));
                }
                Ok(Input::ObjectInfoSent)
            }
            Output::NeedBundles => {
                let bundles = [
                    ("bundle.version", "1"),
                    ("bundle.mode", "all"),
                    ("bundle.Day.uri", "https://bundles.example/day?a=b"),
                ];
                let bytes = |text: &str| text.as_bytes().to_vec();
                Ok(Input::BundlesFound(bundles.map(|(key, value)| (bytes(key), bytes(value))).to_vec()))
            }
            Output::ChooseUris(request) => Ok(Input::UrisChosen(self.choose(&request))),
            Output::CheckWants(wants) => match wants.iter().find(|want| self.number(want).is_none()) {
                Some(want) => Err(Refusal::not_our_ref(want)),
                None => {
                    *memory = Memory { wants, common: Vec::new() };
                    Ok(Input::WantsGranted)
                }
            },
            Output::CheckHaves(haves) => Ok(Input::HavesChecked(self.check_haves(&haves, memory))),
            Output::ResolveShallow(request) => Ok(Input::ShallowResolved(self.shallow(&request))),
            other => panic!("{other:?} is no question"),
        }
    }

    /// Sizes as in the repository that stock git answered from.
    fn size(&self, id: &ObjectId) -> Option<u64> {
        let is_tag = *id == self.id("t1");
        self.number(id).map(|number| if is_tag { 129 } else { 218 - 48 * u64::from(number == 1) })
    }

    fn resolve(&self, names: &[Vec<u8>]) -> Result<Vec<ObjectId>, Refusal> {
        let resolve = |name: &Vec<u8>| match name.as_slice() {
            b"HEAD" | b"refs/heads/main" => Ok(self.id("c5")),
            b"refs/heads/old" => Ok(self.id("c2")),
            b"refs/tags/v1" => Ok(self.id("t1")),
            _ => Err(Refusal::unknown_ref(name)),
        };
        names.iter().map(resolve).collect()
    }

    fn choose(&self, request: &PackRequest) -> Vec<PackfileUri> {
        let uris = ["https://a.example/1.pack", "http://b.example/2.pack"];
        let uris = uris.map(|uri| PackfileUri { pack_hash: vec![b'7'; 40], uri: uri.as_bytes().to_vec() });
        uris.into_iter().filter(|uri| uri.is_of(&request.uri_protocols)).collect()
    }

    fn check_haves(&self, haves: &[ObjectId], memory: &mut Memory) -> HavesAnswer {
        let mut answer = HavesAnswer::default();
        for have in haves {
            let number = self.number(have);
            answer.known.push(number.is_some());
            answer.implied.push(number.is_some_and(|number| memory.common.contains(&number)));
            memory.common.extend(number);
            let is_met = |want| memory.common.iter().any(|number| Some(*number) <= self.number(want));
            answer.enough.push(!memory.common.is_empty() && memory.wants.iter().all(is_met));
        }
        answer
    }

    fn shallow(&self, request: &ShallowRequest) -> ShallowAnswer {
        let newest = request.wants.iter().filter_map(|id| self.number(id)).max().unwrap_or(0);
        let cut: Vec<u8> = request.client_shallow.iter().filter_map(|id| self.number(id)).collect();
        let oldest = match &request.deepen {
            None => self.first,
            Some(Deepen::Depth(depth)) => newest.saturating_sub(depth.saturating_sub(1).min(100) as u8),
            Some(Deepen::Relative(depth)) => {
                cut.iter().min().unwrap_or(&newest).saturating_sub((*depth).min(100) as u8)
            }
            Some(Deepen::Since { seconds, not }) => {
                let since =
                    seconds.map_or(1, |seconds| seconds.saturating_sub(1_700_000_000).clamp(0, 9) as u8);
                since.max(if not.is_empty() { 0 } else { 3 })
            }
        };
        let is_cut = oldest > 1 && (request.deepen.is_some() || self.first > 1);
        let shallow = is_cut.then_some(oldest).filter(|number| !cut.contains(number));
        let is_deeper = |number: &u8| request.deepen.is_some() && *number > oldest;
        ShallowAnswer {
            shallow: shallow.map(|number| self.id(&format!("c{number}"))).into_iter().collect(),
            unshallow: cut
                .into_iter()
                .filter(is_deeper)
                .map(|number| self.id(&format!("c{number}")))
                .collect(),
        }
    }

    fn write_refs(&self, request: &RefsRequest, said: &mut Vec<u8>) {
        for (id, name) in
            [("c5", "HEAD"), ("c5", "refs/heads/main"), ("c2", "refs/heads/old"), ("t1", "refs/tags/v1")]
        {
            let is_asked = request.prefixes.is_empty()
                || request.prefixes.iter().any(|prefix| name.as_bytes().starts_with(prefix));
            if !is_asked {
                continue;
            }
            let target = (name == "HEAD" && request.symrefs).then_some(b"refs/heads/main".as_slice());
            let peeled = (id == "t1" && request.peel).then(|| self.id("c5"));
            let id = self.id(id);
            let peeled = peeled.as_ref().map(StoredId::from);
            ls_refs::write_ref(said, StoredId::from(&id), name.as_bytes(), target, peeled);
        }
    }

    /// The number of the commit that an id is or peels to.
    fn number(&self, id: &ObjectId) -> Option<u8> {
        let numbered = (self.first..=5).find(|number| self.id(&format!("c{number}")) == *id);
        numbered.or_else(|| (*id == self.id("t1")).then_some(5))
    }

    pub fn id(&self, name: &str) -> ObjectId {
        // Names become hex: `u1` is f1f1…, `t1` is d1d1….
        let pair = name.replace('u', "f").replace('t', "d");
        let hex = pair.repeat(self.hash.len_in_hex() / 2);
        ObjectId::from_hex(hex.as_bytes()).unwrap()
    }

    fn with_ids(&self, line: &str) -> String {
        NAMES.iter().fold(line.to_owned(), |line, name| {
            line.replace(&format!("{{{name}}}"), &self.id(name).to_string())
        })
    }

    fn without_ids(&self, line: &str) -> String {
        NAMES.iter().fold(line.to_owned(), |line, name| {
            line.replace(&self.id(name).to_string(), &format!("{{{name}}}"))
        })
    }
}

/// Band bytes in the form that transcripts use.
fn shown(line: &str) -> String {
    line.replace('\x01', "\\1").replace('\x03', "\\3")
}

const NAMES: [&str; 9] = ["c1", "c2", "c3", "c4", "c5", "t1", "u1", "u2", "u3"];
