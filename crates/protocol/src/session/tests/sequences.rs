//! Damaged scripts, and inputs in any order: an error or an answer, never a panic, and no memory beyond the input.

use super::model::{AnySession, Model, Script};
use crate::session::{Features, HavesAnswer, Input, Output, ShallowAnswer};

fn scripts() -> Vec<Script> {
    let mut scripts = Script::parse_all(include_str!("stock_v0.txt"));
    scripts.extend(Script::parse_all(include_str!("stock_v2.txt")));
    scripts.extend(Script::parse_all(include_str!("stock_features.txt")));
    scripts
}

fn model() -> Model {
    let features =
        Features { promisor_remote: Some(b"name=a,url=b".to_vec()), ..Model::with_features().features };
    Model { features, ..Model::default() }
}

#[test]
fn every_beginning_of_every_script() {
    let model = model();
    for script in scripts() {
        let bytes = script.bytes(&model);
        for end in 0..bytes.len() {
            let whole = model.converse(script.session(&model), &bytes[..end], usize::MAX);
            let pieces = model.converse(script.session(&model), &bytes[..end], 1);
            assert_eq!(whole, pieces, "{} up to {end}", script.name);
        }
    }
}

#[test]
fn every_script_with_one_byte_changed() {
    let model = model();
    for script in scripts() {
        let bytes = script.bytes(&model);
        for at in 0..bytes.len() {
            for flip in [0x01, 0x10, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let whole = model.converse(script.session(&model), &damaged, usize::MAX);
                let pieces = model.converse(script.session(&model), &damaged, 7);
                assert_eq!(whole, pieces, "{} with {flip:#x} at {at}", script.name);
            }
        }
    }
}

/// Random numbers that are equal in every run: xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

#[test]
fn any_input_at_any_time() {
    let model = model();
    let scripts = scripts();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut refused, mut packs) = (0, 0);
    for _ in 0..4000 {
        let script = &scripts[random.below(scripts.len())];
        let mut session = script.session(&model);
        let (sent, is_refused) = one_sequence(&mut random, script.bytes(&model), &model, &mut session);
        packs += sent;
        refused += usize::from(is_refused);
        // Regardless of earlier inputs: this must not panic either.
        let _ = session.handle(Input::Eof);
        let _ = session.poll_output();
    }
    assert!(refused > 1000 && packs > 1000, "{refused} refused, {packs} packs");
}

/// Mostly answers questions, sometimes gives unrequested input. Returns how many packs were requested.
fn one_sequence(
    random: &mut Random,
    bytes: Vec<u8>,
    model: &Model,
    session: &mut AnySession,
) -> (usize, bool) {
    let (mut packs, mut said, mut memory) = (0, Vec::new(), Default::default());
    let mut rest = bytes.as_slice();
    for _ in 0..60 {
        let output = session.poll_output();
        if matches!(
            output,
            Output::Write(_)
                | Output::ClientShallow(_)
                | Output::ClientSession(_)
                | Output::UnknownPromisor(_)
        ) {
            continue;
        }
        packs += usize::from(matches!(output, Output::NeedPack(_)));
        let input = match (random.below(100), output) {
            (0, _) => Input::Eof,
            (1, _) => Input::RefsSent,
            (2, _) => Input::WantsGranted,
            (3, _) => Input::HavesChecked(HavesAnswer { known: vec![true], ..HavesAnswer::default() }),
            (4, _) => Input::ShallowResolved(ShallowAnswer::default()),
            (5, _) => Input::PackSent,
            (6, _) => Input::RefsResolved(vec![model.id("c5")]),
            (7, _) => Input::ObjectInfoSent,
            (8, _) => Input::UrisChosen(Vec::new()),
            (9, _) | (_, Output::NeedInput | Output::Done) => {
                let (piece, later) = rest.split_at(random.below(200).min(rest.len()));
                rest = if later.is_empty() { &bytes } else { later };
                Input::Bytes(piece)
            }
            (_, Output::NeedPack(_)) => Input::PackSent,
            (_, question) => match model.answer(question, &mut memory, &mut said) {
                Ok(input) => input,
                Err(_) => return (packs, true),
            },
        };
        if session.handle(input).is_err() {
            return (packs, true);
        }
    }
    (packs, false)
}

#[test]
fn an_ended_session_keeps_no_bytes() {
    let model = Model::default();
    for text in ["## a\nv0 stateless\n> foo\n", "## b\nv2 stateless\n> foo\n"] {
        let script = &Script::parse_all(text)[0];
        let mut session = script.session(&model);
        session.handle(Input::Bytes(&script.bytes(&model))).unwrap_err();
        for _ in 0..3 {
            assert_eq!(session.handle(Input::Bytes(b"0000")), Ok(()));
            assert_eq!(session.poll_output(), Output::Done);
        }
        session.handle(Input::PackSent).unwrap_err();
    }
}
