//! Sorts names by version: runs of digits are compared as numbers (strverscmp(3)), and prerelease suffixes
//! sort before the release (git-config, `versionsort.suffix`).

use std::cmp::Ordering;

/// The suffixes, in order.
#[derive(Debug, Clone, Default)]
pub struct Versions {
    pub suffixes: Vec<Vec<u8>>,
}

impl Versions {
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let at = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        if at == a.len() && at == b.len() {
            return Ordering::Equal;
        }
        self.by_suffix(a, b, at).unwrap_or_else(|| by_number(a, b, at))
    }

    /// Compares by suffixes that overlap the first difference.
    fn by_suffix(&self, a: &[u8], b: &[u8], at: usize) -> Option<Ordering> {
        let (of_a, of_b) = (self.suffix(a, at), self.suffix(b, at));
        let release = self.suffixes.iter().position(|suffix| suffix.is_empty());
        match (of_a, of_b) {
            (None, None) => None,
            (Some(of_a), Some(of_b)) if of_a == of_b => None,
            (Some(of_a), Some(of_b)) => Some(of_a.cmp(&of_b)),
            // Without an empty suffix in the list, every suffix sorts before the release.
            (Some(of_a), None) => Some(release.map_or(Ordering::Less, |release| of_a.cmp(&release))),
            (None, Some(of_b)) => Some(release.map_or(Ordering::Greater, |release| release.cmp(&of_b))),
        }
    }

    /// The index of the suffix that starts earliest, then the longest; it must not end before the difference.
    fn suffix(&self, name: &[u8], at: usize) -> Option<usize> {
        let mut best: Option<(usize, usize, usize)> = None;
        for (number, suffix) in self.suffixes.iter().enumerate().filter(|(_, suffix)| !suffix.is_empty()) {
            let first = at.saturating_sub(suffix.len());
            let found = (first..=at).find(|start| name[*start..].starts_with(suffix));
            let Some(start) = found else { continue };
            let is_better = best.is_none_or(|(best_start, length, _)| {
                start < best_start || (start == best_start && suffix.len() > length)
            });
            if is_better {
                best = Some((start, suffix.len(), number));
            }
        }
        best.map(|(_, _, number)| number)
    }
}

/// Compares the runs of digits around the first difference; a run with a leading zero is a fraction.
fn by_number(a: &[u8], b: &[u8], at: usize) -> Ordering {
    let digits = |name: &[u8]| name[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (of_a, of_b) = (digits(a), digits(b));
    let common = a[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let common = &a[at - common..at];
    let plain = a.get(at).cmp(&b.get(at));
    if common.iter().all(|byte| *byte == b'0') && !common.is_empty() {
        // Among fractions of zeros, more zeros sort first: 000, 00, 01, 0.
        return match (of_a > 0, of_b > 0) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => plain,
        };
    }
    let is_fraction = match common.first() {
        Some(first) => *first == b'0',
        None => of_a == 0 || of_b == 0 || a[at] == b'0' || b[at] == b'0',
    };
    if is_fraction { plain } else { of_a.cmp(&of_b).then(plain) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted() {
        let check = |suffixes: &[&str], names: &[&str]| {
            let suffixes = suffixes.iter().map(|text| text.as_bytes().to_vec()).collect();
            let versions = Versions { suffixes };
            for (at, a) in names.iter().enumerate() {
                for (other, b) in names.iter().enumerate() {
                    let found = versions.compare(a.as_bytes(), b.as_bytes());
                    assert_eq!(found, at.cmp(&other), "{a} {b}");
                }
            }
        };
        check(&[], &["000", "00", "01", "010", "09", "0", "1", "9", "10"]);
        check(&[], &["v1", "v1.2", "v1.2-rc1", "v1.2-rc2", "v1.2-rc10", "v1.10", "v1a", "v12"]);
        check(&["-rc"], &["v1", "v1.2-rc1", "v1.2-rc2", "v1.2", "v1.2-x", "v1.10"]);
        check(&["-rc", "", "-x"], &["v1.2-rc1", "v1.2-rc2", "v1.2", "v1.2-x", "v1.10"]);
        check(&["-pre", "-prerelease"], &["v1.2-pre1", "v1.2-prerelease1", "v1.2"]);
    }
}
