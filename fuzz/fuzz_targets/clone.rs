//! Input: size of pieces (1 byte), number of answers (1 byte), then answers of a server, each with its length (2) before it.
//! They are heard whole and in pieces; both bring the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_protocol::message::fetch_request::FetchRequest;
use packrace_protocol::session::RefsRequest;
use packrace_protocol::session::fetch_client::{Event, FetchClient, FetchLimits};

fuzz_target!(|input: &[u8]| {
    let [piece, number, rest @ ..] = input else { return };
    let mut answers = Vec::new();
    let mut rest = rest;
    for _ in 0..(*number).min(4) {
        let [high, low, after @ ..] = rest else { break };
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (answer, after) = after.split_at(length);
        answers.push(answer);
        rest = after;
    }
    answers.push(rest);
    let whole = hear(&answers, usize::MAX);
    assert_eq!(whole, hear(&answers, usize::from(*piece).max(1)));
});

#[derive(Debug, Default, PartialEq)]
struct HeardAnswer {
    events: Vec<&'static str>,
    pack: Vec<u8>,
    text: Vec<u8>,
    refs: Vec<Vec<u8>>,
    error: Option<String>,
}

fn hear(answers: &[&[u8]], step: usize) -> HeardAnswer {
    let mut limits = FetchLimits::default();
    (limits.capabilities, limits.refs, limits.name_bytes) = (20, 20, 400);
    let mut client = FetchClient::new("fuzz/1", limits);
    let mut heard = HeardAnswer::default();
    for (number, answer) in answers.iter().enumerate() {
        let mut is_over = false;
        for chunk in answer.chunks(step.min(answer.len()).max(1)) {
            let mut at = 0;
            while at < chunk.len() && !is_over {
                let before = at;
                match client.next(chunk, &mut at) {
                    Ok(Some(Event::Data(range))) => heard.pack.extend_from_slice(&chunk[range]),
                    Ok(Some(Event::Progress(range))) => heard.text.extend_from_slice(&chunk[range]),
                    Ok(Some(event)) => {
                        is_over = true;
                        heard.events.push(match event {
                            Event::Advertised => "advertised",
                            Event::RefsListed => "listed",
                            _ => "ended",
                        });
                    }
                    Ok(None) => assert_eq!(at, chunk.len(), "all is taken"),
                    Err(error) => {
                        heard.error = Some(error.to_string());
                        return heard;
                    }
                }
                assert!(at <= chunk.len() && (at > before || is_over), "it goes on");
            }
        }
        if !is_over {
            heard.error = Some(client.ended().to_string());
            return heard;
        }
        match number {
            0 => drop(client.ls_refs(&RefsRequest::default())),
            1 => {
                let refs = client.take_refs();
                assert!(refs.len() <= limits.refs);
                heard.refs.extend(refs.iter().map(|listed| listed.name.to_vec()));
                drop(client.fetch(&FetchRequest::default()));
            }
            _ => return heard,
        }
    }
    heard
}
