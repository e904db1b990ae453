//! What all plots share: escaping, colours, and logarithmic axes.

/// Colours of pages and plots, in light and dark. Blue and orange can be told apart by everybody; shapes and labels
/// say the same.
pub const STYLE: &str = "\
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--muted:#57606a;--faint:#d8dee4;--ours:#0072b2;--peer:#b8460e}
@media(prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--muted:#9aa4af;--faint:#30363d;--ours:#56b4e9;--peer:#ff9e64}}
svg{background:var(--paper);font:12px system-ui,sans-serif}
svg text{fill:var(--ink)}svg .muted{fill:var(--muted)}svg .head{font-weight:bold}
svg .grid{stroke:var(--faint)}svg .one{stroke:var(--ink)}
svg .line{fill:none;stroke-width:2}svg .dashes{stroke-dasharray:6 3}svg .dots{stroke-dasharray:2 3}
svg .ours{stroke:var(--ours)}svg .peer{stroke:var(--peer)}
svg .dot{stroke:none}svg .dot.ours{fill:var(--ours)}svg .dot.peer{fill:var(--peer)}
svg .faster{fill:var(--ours)}svg .slower{fill:none;stroke:var(--peer);stroke-width:2;stroke-dasharray:4 2}
svg .goal{fill:none;stroke:var(--ink);stroke-width:2}
";

/// Text for HTML and SVG, in elements and in quoted attributes.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML has no other control characters.
            letter if letter.is_control() && !matches!(letter, '\t' | '\n') => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}

/// A plot of this size, with what it shows in words for those who do not see it.
pub fn plot(size: (f64, f64), title: &str, description: &str, body: &str) -> String {
    let (width, height) = size;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>{}</title>\n<desc>{}</desc>\n{body}</svg>\n",
        escaped(title),
        escaped(description),
    )
}

/// Powers of ten from first to last.
pub struct Decades {
    first: i32,
    last: i32,
}

impl Decades {
    /// The smallest range that contains all values.
    pub fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) =
            values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return Decades { first: 0, last: 1 };
        }
        let first = low.log10().floor() as i32;
        Decades { first, last: (high.log10().ceil() as i32).max(first + 1) }
    }

    /// Each power.
    pub fn each(&self) -> impl Iterator<Item = f64> {
        // Parsed from text: 0.01 and not 0.010000000000000002.
        (self.first..=self.last).map(|power| format!("1e{power}").parse().expect("a number"))
    }

    /// The position of a value between first and last, from 0 to 1.
    pub fn part(&self, value: f64) -> f64 {
        (value.log10() - f64::from(self.first)) / f64::from(self.last - self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_harmless() {
        let hostile = "</text><script>alert('x')</script>\" onload=\"&\u{0}";
        let safe = escaped(hostile);
        assert!(!safe.contains(['<', '>', '"', '\'', '\0']), "{safe}");
        let svg = plot((10.0, 10.0), hostile, hostile, "");
        assert!(!svg.contains("<script") && !svg.contains("alert('"), "{svg}");
    }

    #[test]
    fn axes_hold_all_values() {
        let decades = Decades::around([0.02, 3.0].into_iter());
        assert_eq!(decades.each().collect::<Vec<_>>(), [0.01, 0.1, 1.0, 10.0]);
        assert_eq!((decades.part(0.01), decades.part(10.0)), (0.0, 1.0));
        assert_eq!(Decades::around(std::iter::empty()).each().count(), 2);
        assert_eq!(Decades::around([1.0].into_iter()).each().collect::<Vec<_>>(), [1.0, 10.0]);
    }
}
