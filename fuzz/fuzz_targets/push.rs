//! Input: settings (1 byte), size of pieces (1 byte), a script as of the target `session`, with `|` for the NUL before
//! capabilities. A push is read in one go and in pieces, with its certificate and its options, and answered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_object::HashKind;
use packrace_protocol::message::push_report::{PushReport, RefOutcome, RefReport};
use packrace_protocol::session::push::{
    PushConfig, PushInput, PushLimits, PushOutput, PushRequest, PushSession,
};
use packrace_protocol::wire::pkt_line::{MAX_PAYLOAD, write_data};

fuzz_target!(|input: &[u8]| {
    let [settings, piece, script @ ..] = input else { return };
    let hash = if settings & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    // Small enough to be reached.
    let mut limits = PushLimits::default();
    (limits.commands, limits.name_bytes, limits.shallow) = (6, 100, 3);
    (limits.options, limits.option_bytes, limits.certificate_bytes) = (3, 60, 2000);
    let config = PushConfig { hash, atomic: settings & 2 != 0, push_options: settings & 4 != 0, limits };
    let stream = stream(script, hash);
    let whole = run(config, &stream, usize::MAX);
    assert_eq!(whole, run(config, &stream, usize::from(*piece).max(1)));
});

fn stream(script: &[u8], hash: HashKind) -> Vec<u8> {
    let mut stream = Vec::new();
    for line in script.split(|byte| *byte == b'\n').take(100) {
        match line {
            b"0000" | b"0001" | b"0002" => stream.extend(line),
            [b'!', raw @ ..] => stream.extend(raw),
            line => {
                let mut packet = Vec::new();
                let mut rest = line.iter();
                while let Some(byte) = rest.next() {
                    match (byte, rest.as_slice()) {
                        (b'$', [name, ..]) => {
                            packet.extend(std::iter::repeat_n(*name, hash.len_in_hex()));
                            rest.next();
                        }
                        (b'|', _) => packet.push(0),
                        // Lines of a certificate have theirs.
                        (b'~', _) => packet.push(b'\n'),
                        _ => packet.push(*byte),
                    }
                }
                packet.truncate(MAX_PAYLOAD);
                write_data(&packet, &mut stream);
            }
        }
    }
    stream
}

/// What was pushed, the bytes behind it, what was answered, and why it was refused.
type PushTranscript = (Option<PushRequest>, Vec<u8>, Vec<u8>, Option<String>);

fn run(config: PushConfig, stream: &[u8], piece: usize) -> PushTranscript {
    let mut session = PushSession::new(config);
    let mut pieces = stream.chunks(piece.min(stream.len()).max(1));
    let (mut heard, mut last): (PushTranscript, &[u8]) = Default::default();
    loop {
        let result = match session.poll_output() {
            PushOutput::NeedInput => match pieces.next() {
                Some(piece) => {
                    last = piece;
                    session.handle(PushInput::Bytes(piece))
                }
                None => session.handle(PushInput::Eof),
            },
            PushOutput::Push(request) => {
                check(&request, config);
                if request.has_pack() {
                    let PushOutput::PackBytes(range) = session.poll_output() else {
                        panic!("the pack follows")
                    };
                    heard.1.extend_from_slice(&last[range]);
                    heard.1.extend(pieces.by_ref().flatten());
                }
                let refs = request.commands.iter().map(|command| RefReport {
                    name: command.name.clone(),
                    outcome: RefOutcome::Rejected(b"no".to_vec()),
                });
                let report = PushReport { unpack_error: None, refs: refs.collect() };
                heard.0 = Some(*request);
                session.handle(PushInput::Finished(&report))
            }
            PushOutput::PackBytes(_) => panic!("a pack without a push"),
            PushOutput::Write(bytes) => {
                heard.2.extend(bytes);
                Ok(())
            }
            PushOutput::Done => return heard,
        };
        if let Err(refusal) = result {
            let told = session.wire(&refusal);
            heard.2.extend(told.unwrap_or_default());
            heard.3 = Some(refusal.message().to_owned());
            assert_eq!(session.poll_output(), PushOutput::Done);
            return heard;
        }
    }
}

fn check(request: &PushRequest, config: PushConfig) {
    let limits = config.limits;
    assert!(!request.commands.is_empty() && request.commands.len() <= limits.commands);
    // Hooks get both where no NUL can be.
    let options = request.options.iter().flatten();
    let words = options.chain(request.commands.iter().map(|command| &command.name));
    words.for_each(|word| assert!(!word.contains(&0)));
    assert!(request.options.iter().flatten().map(Vec::len).sum::<usize>() <= limits.option_bytes);
    if let Some(certificate) = &request.certificate {
        assert!(certificate.signature_at <= certificate.text.len());
        for name in ["nonce", "pusher", "push-option"] {
            certificate.headers(name).for_each(|value| assert!(!value.contains(&b'\n')));
        }
    }
}
