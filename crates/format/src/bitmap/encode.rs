//! Compresses sets; see [`super::ewah`] for the layout.

use super::Bits;

/// The longest run of a marker; then the most literals.
const MAX_RUN: u64 = u32::MAX as u64;
const MAX_LITERALS: u64 = (1 << 31) - 1;

/// A compressed set, while it is built or because it is smaller than [`Bits`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EwahBuf {
    /// Markers and literals; the first is a marker.
    words: Vec<u64>,
    last_marker: usize,
    /// The number of positions covered by the words: up to the last one in the set.
    bits: u32,
}

impl Default for EwahBuf {
    fn default() -> Self {
        EwahBuf { words: vec![0], last_marker: 0, bits: 0 }
    }
}

impl EwahBuf {
    /// Compresses a set.
    pub fn from_bits(bits: &Bits) -> Self {
        EwahBuf::from_words(bits.words().iter().copied())
    }

    /// Compresses a set of ascending positions; repeated positions count once.
    pub fn from_ascending(positions: impl IntoIterator<Item = u32>) -> Self {
        let mut set = EwahBuf::default();
        let (mut number, mut word) = (0u32, 0u64);
        for position in positions {
            assert!(position / 64 >= number, "position {position} comes too late");
            if position / 64 > number {
                set.push(word, number);
                set.push_zeros(u64::from(position / 64 - number - 1));
                (number, word) = (position / 64, 0);
            }
            word |= 1 << (position % 64);
        }
        set.push(word, number);
        set.finish()
    }

    fn from_words(words: impl Iterator<Item = u64>) -> Self {
        let mut set = EwahBuf::default();
        for (number, word) in (0u32..).zip(words) {
            set.push(word, number);
        }
        set.finish()
    }

    /// The bytes of the compressed words.
    pub fn compressed_bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Adds the set to `bits`, which must be long enough.
    pub fn or_into(&self, bits: &mut Bits) {
        let target = bits.words_mut();
        let (mut from, mut at) = (0, 0);
        while let Some(&marker) = self.words.get(from) {
            let (run, literals) = ((marker >> 1 & MAX_RUN) as usize, (marker >> 33) as usize);
            if marker & 1 == 1 {
                target[at..at + run].fill(u64::MAX);
            }
            at += run;
            for literal in &self.words[from + 1..from + 1 + literals] {
                target[at] |= literal;
                at += 1;
            }
            from += 1 + literals;
        }
    }

    /// Writes the set as it is stored in a file.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.bits.to_be_bytes());
        out.extend((self.words.len() as u32).to_be_bytes());
        self.words.iter().for_each(|word| out.extend(word.to_be_bytes()));
        out.extend((self.last_marker as u32).to_be_bytes());
    }

    /// Adds the next word, number `number`.
    #[inline]
    fn push(&mut self, word: u64, number: u32) {
        if word != 0 {
            self.bits = number * 64 + (64 - word.leading_zeros());
        }
        match word {
            0 => self.push_run(0, 1),
            u64::MAX => self.push_run(1, 1),
            literal => {
                if self.words[self.last_marker] >> 33 == MAX_LITERALS {
                    self.start_marker();
                }
                self.words[self.last_marker] += 1 << 33;
                self.words.push(literal);
            }
        }
    }

    #[inline]
    fn push_zeros(&mut self, count: u64) {
        if count > 0 {
            self.push_run(0, count);
        }
    }

    #[inline]
    fn push_run(&mut self, bit: u64, count: u64) {
        let marker = self.words[self.last_marker];
        let (run, has_literals) = (marker >> 1 & MAX_RUN, marker >> 33 > 0);
        if has_literals || run > 0 && marker & 1 != bit || run + count > MAX_RUN {
            self.start_marker();
        }
        let marker = &mut self.words[self.last_marker];
        *marker = (*marker | bit) + (count << 1);
    }

    fn start_marker(&mut self) {
        self.last_marker = self.words.len();
        self.words.push(0);
    }

    /// Drops trailing zeros, which do not change the set.
    fn finish(mut self) -> Self {
        let marker = self.words[self.last_marker];
        if marker >> 33 == 0 && marker & 1 == 0 {
            self.words[self.last_marker] = 0;
            if self.last_marker > 0 {
                self.words.pop();
                self.last_marker = self.marker_before(self.last_marker);
            }
        }
        self
    }

    /// The last marker before `end`, which is the position of a marker.
    fn marker_before(&self, end: usize) -> usize {
        let mut at = 0;
        loop {
            let next = at + 1 + (self.words[at] >> 33) as usize;
            if next >= end {
                return at;
            }
            at = next;
        }
    }
}

/// The number of words of the difference of two sets; `None` once it is known to be at least `below`.
pub(super) fn words_of_difference(a: &Bits, b: &Bits, below: usize) -> Option<usize> {
    // A marker per change from literals to a run or between runs, and a word per literal.
    let (mut words, mut state) = (1, EncoderState::Start);
    for (a, b) in a.words().iter().zip(b.words()) {
        match (a ^ b, state) {
            (0, EncoderState::Run(false)) | (u64::MAX, EncoderState::Run(true)) => {}
            (0, EncoderState::Start) => state = EncoderState::Run(false),
            (u64::MAX, EncoderState::Start) => state = EncoderState::Run(true),
            (run @ (0 | u64::MAX), _) => {
                words += 1;
                state = EncoderState::Run(run != 0);
            }
            _ => {
                words += 1;
                state = EncoderState::Literals;
                if words >= below {
                    return None;
                }
            }
        }
    }
    (words < below).then_some(words)
}

#[derive(Clone, Copy)]
enum EncoderState {
    Start,
    Run(bool),
    Literals,
}

/// The difference of two sets of the same length, compressed.
pub(super) fn difference(a: &Bits, b: &Bits) -> EwahBuf {
    EwahBuf::from_words(a.words().iter().zip(b.words()).map(|(a, b)| a ^ b))
}

#[cfg(test)]
mod tests {
    use super::super::Ewah;
    use super::*;

    fn marker(bit: u64, run: u64, literals: u64) -> u64 {
        bit | run << 1 | literals << 33
    }

    /// Compresses `positions` in every way and compares with `expect`, then reads them back.
    fn check(len: u32, positions: impl Iterator<Item = u32> + Clone, expect: Option<&[u64]>) {
        let mut bits = Bits::new(len);
        positions.clone().for_each(|position| {
            bits.set(position);
        });
        let set = EwahBuf::from_bits(&bits);
        assert_eq!(set, EwahBuf::from_ascending(positions.clone()));
        let none = Bits::new(len);
        assert_eq!(set, difference(&none, &bits));
        if let Some(expect) = expect {
            assert_eq!(set.words, expect);
        }
        assert_eq!(set.bits, positions.max().map_or(0, |last| last + 1));
        let words = words_of_difference(&bits, &none, usize::MAX).unwrap();
        assert!((set.words.len()..=set.words.len() + 1).contains(&words), "{words}");
        let mut again = Bits::new(len);
        set.or_into(&mut again);
        assert_eq!(again, bits);
        let mut file = Vec::new();
        set.write(&mut file);
        let (read, end) = Ewah::parse(&file, 0, file.len()).unwrap();
        assert_eq!(end, file.len());
        assert_eq!(read.to_bits(len).unwrap(), bits);
        let last = u32::from_be_bytes(*file.last_chunk().unwrap()) as usize;
        assert_eq!(last, if set.words.len() > 1 { set.marker_before(set.words.len()) } else { 0 });
    }

    #[test]
    fn sets() {
        check(0, [].into_iter(), Some(&[0]));
        check(500, [].into_iter(), Some(&[0]));
        check(500, [0].into_iter(), Some(&[marker(0, 0, 1), 1]));
        check(500, [499, 499].into_iter(), Some(&[marker(0, 7, 1), 1 << (499 - 448)]));
        check(500, 0..500, Some(&[marker(1, 7, 1), (1 << 52) - 1]));
        check(512, 0..512, Some(&[marker(1, 8, 0)]));
        check(512, 64..128, Some(&[marker(0, 1, 0), marker(1, 1, 0)]));
        check(512, (0..64).chain(192..256), Some(&[marker(1, 1, 0), marker(0, 2, 0), marker(1, 1, 0)]));
        check(512, (0..65).chain(128..192), Some(&[marker(1, 1, 1), 1, marker(1, 1, 0)]));
        check(512, [3, 70].into_iter(), Some(&[marker(0, 0, 2), 8, 64]));
        check(512, [3, 200].into_iter(), Some(&[marker(0, 0, 1), 8, marker(0, 2, 1), 1 << 8]));
        for step in [1, 2, 3, 63, 64, 65, 129, 700] {
            check(10_000, (step..9_000).step_by(step as usize), None);
            check(10_000, (0..9_000).filter(|n| n / step % 2 == 0), None);
        }
    }
}
