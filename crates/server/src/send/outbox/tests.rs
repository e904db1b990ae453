use packrace_os::Mapped;

use super::*;

const LARGE: Framing = Framing::Sideband { payload_bytes: sideband::LARGE_FRAME_PAYLOAD };
const FIVE: Option<Duration> = Some(Duration::from_secs(5));

/// Keeps what it gets, call by call.
#[derive(Default)]
struct Recorder {
    calls: Vec<Vec<u8>>,
    mapped_bytes: usize,
}

impl ClientSink for Recorder {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        let all: Vec<&[u8]> = batch.pieces().collect();
        assert_eq!(all.iter().map(|bytes| bytes.len()).sum::<usize>(), batch.len());
        self.mapped_bytes += batch.mapped_bytes();
        self.calls.push(all.concat());
        Ok(())
    }

    fn peer_gone(&mut self) -> bool {
        false
    }

    fn demote_to_background(&mut self) {}
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn numbered(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 % 251) as u8).collect()
}

/// Sends the segments, and checks that every frame but the last is full.
fn check(framing: Framing, segments: Vec<Segment>) -> Recorder {
    let payload: Vec<u8> = segments.iter().flat_map(|segment| segment.bytes().to_vec()).collect();
    let mut client = Recorder::default();
    let mut outbox = Outbox::new(&mut client, framing, FIVE, at(0));
    for segment in segments {
        outbox.pack(segment, at(0)).unwrap();
    }
    outbox.finish(at(0)).unwrap();
    let stream = client.calls.concat();
    let Framing::Sideband { payload_bytes } = framing else {
        assert_eq!(stream, payload);
        return client;
    };
    let frames: Vec<&[u8]> = payload.chunks(payload_bytes).collect();
    let mut expect = Vec::new();
    for frame in frames {
        expect.extend_from_slice(format!("{:04x}\x01", frame.len() + 5).as_bytes());
        expect.extend_from_slice(frame);
    }
    expect.extend_from_slice(b"0000");
    assert!(stream == expect, "{} bytes, expected {}", stream.len(), expect.len());
    client
}

#[test]
fn any_cutting_into_segments_gives_the_same_full_frames() {
    let bytes = numbered(3 * sideband::LARGE_FRAME_PAYLOAD + 1000);
    let map = Mapped::from(bytes.clone());
    for length in [1_000, 4_096, 65_514, 65_515, 65_516, 200_000] {
        let mapped = (0..bytes.len()).step_by(length);
        let mapped = mapped.map(|start| Segment::Mapped(map.clone(), start..bytes.len().min(start + length)));
        check(LARGE, mapped.clone().collect());
        check(LARGE, bytes.chunks(length).map(|chunk| Segment::Owned(chunk.to_vec())).collect());
        let mixed = mapped.enumerate().map(|(n, segment)| match n % 2 {
            0 => segment,
            _ => Segment::Owned(segment.bytes().to_vec()),
        });
        let mixed: Vec<_> = mixed.collect();
        check(LARGE, mixed.clone());
        check(Framing::Sideband { payload_bytes: 995 }, mixed.clone());
        check(Framing::Raw, mixed);
    }
    check(LARGE, Vec::new());
}

#[test]
fn sixteen_frames_are_one_call_and_large_ranges_are_not_copied() {
    let bytes = numbered(33 * sideband::LARGE_FRAME_PAYLOAD);
    let length = bytes.len();
    let client = check(LARGE, vec![Segment::Mapped(Mapped::from(bytes), 0..length)]);
    let sixteen = 16 * (sideband::LARGE_FRAME_PAYLOAD + sideband::FRAME_HEADER_BYTES);
    assert_eq!(client.calls.iter().map(Vec::len).collect::<Vec<_>>(), [sixteen, sixteen, 65_520 + 4]);
    assert_eq!(client.mapped_bytes, length);
}

/// What the packets of band 1 hold.
fn data_of(mut stream: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    while let Some((header, rest)) = stream.split_at_checked(4) {
        let length = usize::from_str_radix(str::from_utf8(header).unwrap(), 16).unwrap();
        let (packet, rest) = rest.split_at(length.saturating_sub(4));
        data.extend_from_slice(packet.strip_prefix(b"\x01").unwrap_or_default());
        stream = rest;
    }
    data
}

#[test]
fn no_batch_is_larger_than_a_setting_allows() {
    let bytes = numbered(300_000);
    let map = Mapped::from(bytes.clone());
    for max_bytes in [4_080, 65_504, 65_520, 65_525, 200_000] {
        for framing in [Framing::Raw, Framing::Sideband { payload_bytes: 995 }, LARGE] {
            let mut client = Recorder::default();
            let mut outbox = Outbox::new(&mut client, framing, FIVE, at(0)).with_batch_bytes(max_bytes);
            for start in (0..bytes.len()).step_by(7_000) {
                let range = start..bytes.len().min(start + 7_000);
                outbox.pack(Segment::Mapped(map.clone(), range), at(1)).unwrap();
                outbox.progress(&[b'p'; 900], at(1)).unwrap();
            }
            outbox.finish(at(2)).unwrap();
            let lengths: Vec<usize> = client.calls.iter().map(Vec::len).collect();
            assert!(
                lengths.iter().all(|length| *length <= max_bytes),
                "{max_bytes} {framing:?}: {lengths:?}"
            );
            let stream = client.calls.concat();
            let received = match framing {
                Framing::Raw => stream,
                Framing::Sideband { .. } => data_of(&stream),
            };
            assert!(received == bytes, "{max_bytes} {framing:?}");
        }
    }
}

#[test]
fn silence_is_broken_by_a_keepalive_after_the_interval_only() {
    let mut client = Recorder::default();
    let mut outbox = Outbox::new(&mut client, LARGE, FIVE, at(10));
    outbox.tick(at(14)).unwrap();
    assert_eq!(outbox.next_tick(), Some(at(15)));
    outbox.tick(at(15)).unwrap();
    assert_eq!(outbox.next_tick(), Some(at(20)));
    outbox.tick(at(19)).unwrap();
    outbox.tick(at(21)).unwrap();
    assert_eq!(outbox.keepalives_sent(), 2);
    assert_eq!(client.calls, [b"0005\x01", b"0005\x01"]);
}

#[test]
fn held_bytes_go_before_a_keepalive() {
    let mut client = Recorder::default();
    let mut outbox = Outbox::new(&mut client, LARGE, FIVE, at(0));
    outbox.pack(Segment::Owned(b"PACK".to_vec()), at(1)).unwrap();
    outbox.tick(at(4)).unwrap();
    outbox.tick(at(5)).unwrap();
    outbox.tick(at(10)).unwrap();
    outbox.pack(Segment::Owned(b"rest".to_vec()), at(11)).unwrap();
    outbox.finish(at(11)).unwrap();
    assert_eq!(client.calls, [&b"0009\x01PACK"[..], b"0005\x01", b"0009\x01rest0000"]);
}

#[test]
fn data_and_progress_put_the_keepalive_off() {
    let mut client = Recorder::default();
    let mut outbox = Outbox::new(&mut client, LARGE, FIVE, at(0));
    outbox.progress(b"Counting\r", at(4)).unwrap();
    outbox.tick(at(8)).unwrap();
    assert_eq!(outbox.next_tick(), Some(at(9)));
    outbox.tick(at(9)).unwrap();
    assert_eq!(client.calls, [&b"000e\x02Counting\r"[..], b"0005\x01"]);
}

#[test]
fn progress_overtakes_the_frame_that_is_open() {
    let bytes = numbered(sideband::LARGE_FRAME_PAYLOAD);
    let map = Mapped::from(bytes.clone());
    let mut client = Recorder::default();
    let mut outbox = Outbox::new(&mut client, LARGE, FIVE, at(0));
    outbox.pack(Segment::Owned(bytes[..10].to_vec()), at(0)).unwrap();
    outbox.pack(Segment::Mapped(map, 10..bytes.len() - 20), at(0)).unwrap();
    outbox.progress(b"Counting\r", at(0)).unwrap();
    outbox.pack(Segment::Owned(bytes[bytes.len() - 20..].to_vec()), at(0)).unwrap();
    outbox.finish(at(0)).unwrap();
    assert_eq!(client.calls[0], b"000e\x02Counting\r");
    assert_eq!(client.calls[1..].concat(), [b"fff0\x01", &bytes[..], b"0000"].concat());
}

#[test]
fn zero_turns_keepalives_off() {
    let mut client = Recorder::default();
    let mut outbox = Outbox::new(&mut client, LARGE, None, at(0));
    assert_eq!(outbox.next_tick(), None);
    outbox.tick(at(1_000)).unwrap();
    let mut raw_client = Recorder::default();
    let mut raw = Outbox::new(&mut raw_client, Framing::Raw, FIVE, at(0));
    raw.tick(at(1_000)).unwrap();
    assert!(client.calls.is_empty() && raw_client.calls.is_empty());
}

#[test]
fn failure_is_told_in_band_3_and_no_flush_follows() {
    let mut client = Recorder::default();
    let mut outbox = Outbox::new(&mut client, LARGE, FIVE, at(0));
    outbox.pack(Segment::Owned(b"PACK".to_vec()), at(0)).unwrap();
    outbox.fail(b"aborting", at(1)).unwrap();
    assert_eq!(client.calls, [b"0009\x01PACK000d\x03aborting"]);
    let mut raw_client = Recorder::default();
    let mut raw = Outbox::new(&mut raw_client, Framing::Raw, FIVE, at(0));
    raw.pack(Segment::Owned(b"PACK".to_vec()), at(0)).unwrap();
    raw.fail(b"aborting", at(1)).unwrap();
    assert_eq!(raw_client.calls, [b"PACK"]);
}
