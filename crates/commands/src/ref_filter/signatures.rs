//! Signatures of commits, for `%(signature)`.

use std::path::Path;

use packrace_object::{HashKind, ObjectId};
use packrace_os::child::Confinement;
use packrace_server::signature::{Signature, SignatureChecker, Trust};
use packrace_store::Repository;

use super::atom::SignaturePart;
use crate::call::Call;
use crate::call::printable::harmless;

/// Verifies signatures; several fields of one commit cost one run of the program.
#[derive(Default)]
pub struct Signatures {
    last: Option<(ObjectId, Signature)>,
}

impl Signatures {
    /// Appends a part of what is known of the signature of a commit.
    pub fn write(
        &mut self,
        call: &Call,
        repository: &Repository,
        (id, commit): (ObjectId, &[u8]),
        part: SignaturePart,
        out: &mut Vec<u8>,
    ) {
        if self.last.as_ref().is_none_or(|(last, _)| *last != id) {
            self.last = Some((id, verify(call, repository, commit)));
        }
        let Some((_, found)) = &self.last else { return };
        let is_trusted = !matches!(found.trust, Trust::Undefined | Trust::Never);
        let grade = match found.status.unwrap_or('N') {
            'G' if !is_trusted => 'U',
            grade => grade,
        };
        let grade = grade.to_string();
        let text: &str = match part {
            SignaturePart::Report => found.report.as_str(),
            SignaturePart::Grade => grade.as_str(),
            SignaturePart::Signer => found.signer.as_str(),
            SignaturePart::Key => found.key.as_str(),
            SignaturePart::Fingerprint => found.fingerprint.as_str(),
            SignaturePart::PrimaryFingerprint => found.primary_fingerprint.as_str(),
            SignaturePart::Trust => found.trust.name(),
        };
        out.extend_from_slice(text.as_bytes());
    }
}

fn verify(call: &Call, repository: &Repository, commit: &[u8]) -> Signature {
    let Some((signed, signature)) = split(commit, repository.hash_kind()) else {
        return Signature::default();
    };
    let checker = SignatureChecker {
        config: repository.config(),
        directory: Path::new("."),
        temporary_dir: &call.environment.temporary_dir,
        confinement: &Confinement::default(),
        on_error: &|kind, text| error_line!(call, "{kind}: {}", harmless(text)),
    };
    checker.check(&signed, &signature)
}

/// What is signed, and the signature (gitformat-signature, "Commit signatures"). Signatures for other hashes are not
/// signed either.
fn split(commit: &[u8], hash: HashKind) -> Option<(Vec<u8>, Vec<u8>)> {
    let own: &[u8] = if hash == HashKind::Sha1 { b"gpgsig " } else { b"gpgsig-sha256 " };
    let head_bytes = commit.windows(2).position(|pair| pair == b"\n\n").map_or(commit.len(), |at| at + 1);
    let (mut signed, mut signature) = (Vec::new(), Vec::new());
    let (mut is_signature, mut is_own) = (false, false);
    for line in commit[..head_bytes].split_inclusive(|byte| *byte == b'\n') {
        if !line.starts_with(b" ") {
            is_own = line.starts_with(own);
            is_signature = is_own || line.starts_with(b"gpgsig ") || line.starts_with(b"gpgsig-sha256 ");
        }
        match (is_own, is_signature) {
            (true, _) => signature.extend_from_slice(line.strip_prefix(own).unwrap_or(&line[1..])),
            (false, true) => {}
            (false, false) => signed.extend_from_slice(line),
        }
    }
    signed.extend_from_slice(&commit[head_bytes..]);
    (!signature.is_empty()).then_some((signed, signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed() {
        let check = |commit: &str, hash, signed: &str, signature: &str| {
            let expect = (!signature.is_empty()).then(|| (signed.into(), signature.into()));
            assert_eq!(split(commit.as_bytes(), hash), expect, "{commit}");
        };
        let commit = "tree 1\ngpgsig a\n \n b\ngpgsig-sha256 c\n d\nencoding x\n\ngpgsig e\n";
        let signed = "tree 1\nencoding x\n\ngpgsig e\n";
        check(commit, HashKind::Sha1, signed, "a\n\nb\n");
        check(commit, HashKind::Sha256, signed, "c\nd\n");
        check("tree 1\n\ngpgsig e\n", HashKind::Sha1, "", "");
        check("gpgsig a", HashKind::Sha1, "", "a");
    }
}
