//! The two messages of Leurent and Peyrin, "SHA-1 is a Shambles" (2020), which share one SHA-1:
//! `data/sha-mbles-*.bin`, as the authors published them. No such pair is known for contents after the header
//! of an object.

use packrace_object::{CollisionAttack, HashKind, ObjectHasher, TrailerHasher};

const MESSAGES: [&[u8]; 2] = [include_bytes!("data/sha-mbles-1.bin"), include_bytes!("data/sha-mbles-2.bin")];

fn named(hash: HashKind, pieces: &[&[u8]]) -> Result<packrace_object::ObjectId, CollisionAttack> {
    let mut hasher = ObjectHasher::of_stream(hash);
    pieces.iter().for_each(|piece| hasher.update(piece));
    hasher.finish()
}

#[test]
fn an_attack_is_found_wherever_pieces_end() {
    assert_ne!(MESSAGES[0], MESSAGES[1]);
    for message in MESSAGES {
        assert_eq!(named(HashKind::Sha1, &[message]), Err(CollisionAttack));
        assert_eq!(named(HashKind::Sha1, &[message, b"and more"]), Err(CollisionAttack));
        for at in [0, 1, 63, 64, 65, 639] {
            let (before, after) = message.split_at(at);
            assert_eq!(named(HashKind::Sha1, &[before, after]), Err(CollisionAttack), "in two at {at}");
        }
        assert!(named(HashKind::Sha256, &[message]).is_ok());
        // After other bytes, the message is not an attack.
        assert!(named(HashKind::Sha1, &[b"blob 640\0", message]).is_ok());
    }
}

#[test]
fn hashing_without_detection_does_not_tell_them_apart() {
    let [one, other] = MESSAGES.map(|message| {
        let mut hasher = TrailerHasher::new(HashKind::Sha1);
        hasher.update(message);
        hasher.finish()
    });
    assert_eq!(one, other);
}
