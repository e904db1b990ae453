//! Small plots as SVG, which take their colours from the style of the page.

use std::fmt::Write as _;

use super::html::escaped;

/// The area inside of a plot, in units of the SVG.
const LEFT: f64 = 72.0;
const RIGHT: f64 = 534.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 128.0;

/// One line of a plot.
pub(super) struct Series {
    /// The class with its colour.
    pub(super) class: &'static str,
    /// The oldest first.
    pub(super) values: Vec<f64>,
    /// Whether the area below the line is filled.
    pub(super) is_filled: bool,
}

/// The content of a plot.
pub(super) struct Plot {
    /// Its description for people who cannot see it.
    pub(super) label: String,
    pub(super) series: Vec<Series>,
    /// How many values fit in the width; the newest is at the right end.
    pub(super) slots: usize,
    /// The labels of the time axis, at equal distances, the last at the right end.
    pub(super) times: Vec<String>,
    /// The least upper end of the value axis.
    pub(super) least_top: f64,
    /// A step of the axis is a multiple of a power of this: 2 for bytes, 10 for counts.
    pub(super) base: Base,
    /// Formats a value.
    pub(super) write: fn(f64) -> String,
}

/// Which numbers are round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// Powers of two.
    Two,
    /// 1, 2 and 5 times powers of ten; whole numbers.
    Ten,
}

impl Plot {
    pub(super) fn render(&self, out: &mut String) {
        let shown = self.series.iter().flat_map(|series| self.shown(series));
        let most = shown.fold(self.least_top, |most, value| most.max(*value));
        let step = round_step(most / 4.0, self.base);
        let lines = (most / step).ceil().max(1.0);
        let top = step * lines;
        let y = |value: f64| BOTTOM - (value / top) * (BOTTOM - TOP);
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "<svg class=\"plot\" viewBox=\"0 0 540 150\" role=\"img\" aria-label=\"{}\">",
            escaped(&self.label)
        );
        for line in 0..=lines as u32 {
            let value = step * f64::from(line);
            let at = y(value);
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                escaped(&(self.write)(value))
            );
        }
        for (number, time) in self.times.iter().enumerate() {
            let share = number as f64 / (self.times.len() - 1).max(1) as f64;
            let at = LEFT + share * (RIGHT - LEFT);
            let anchor = match number {
                0 => "start",
                last if last + 1 == self.times.len() => "end",
                _ => "middle",
            };
            let time = escaped(time);
            let _ = write!(out, "<text x=\"{at:.1}\" y=\"146\" text-anchor=\"{anchor}\">{time}</text>");
        }
        for series in &self.series {
            self.render_series(series, &y, out);
        }
        out.push_str("</svg>");
    }

    /// The newest values that fit.
    fn shown<'a>(&self, series: &'a Series) -> &'a [f64] {
        &series.values[series.values.len().saturating_sub(self.slots)..]
    }

    fn render_series(&self, series: &Series, y: &dyn Fn(f64) -> f64, out: &mut String) {
        let values = self.shown(series);
        if values.is_empty() {
            return;
        }
        let width = (RIGHT - LEFT) / (self.slots - 1).max(1) as f64;
        let first = RIGHT - width * (values.len() - 1) as f64;
        let mut line = String::new();
        for (number, value) in values.iter().enumerate() {
            let command = if number == 0 { 'M' } else { 'L' };
            let _ = write!(line, "{command}{:.1} {:.1}", first + width * number as f64, y(*value));
        }
        if series.is_filled {
            let class = series.class;
            let _ = write!(
                out,
                "<path class=\"{class} area\" d=\"{line}L{RIGHT} {BOTTOM}L{first:.1} {BOTTOM}Z\"/>"
            );
        }
        let _ = write!(out, "<path class=\"{} line\" d=\"{line}\"/>", series.class);
    }
}

/// A round step that is not less than `least`.
fn round_step(least: f64, base: Base) -> f64 {
    match base {
        Base::Two => least.max(1.0).log2().ceil().exp2(),
        Base::Ten => {
            let power = 10f64.powf(least.max(1.0).log10().floor());
            let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= least);
            times.unwrap_or(10.0) * power
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        let check =
            |least, base, expect: f64| assert_eq!(round_step(least, base), expect, "{least} {base:?}");
        check(0.0, Base::Two, 1.0);
        check(1024.0, Base::Two, 1024.0);
        check(1025.0, Base::Two, 2048.0);
        check(0.25, Base::Ten, 1.0);
        check(1.1, Base::Ten, 2.0);
        check(3.0, Base::Ten, 5.0);
        check(70.0, Base::Ten, 100.0);
        check(100.0, Base::Ten, 100.0);
    }

    #[test]
    fn the_newest_value_is_at_the_right_end() {
        let render = |values: &[f64]| {
            let series = vec![Series { class: "a", values: values.to_vec(), is_filled: true }];
            let times = vec!["before".into(), "now".into()];
            let write = |value: f64| format!("{value}<");
            let label = "\"".to_owned();
            let mut out = String::new();
            Plot { label, series, slots: 3, times, least_top: 4.0, base: Base::Ten, write }.render(&mut out);
            out
        };
        let svg = render(&[9.0, 1.0, 2.0, 4.0]);
        assert!(svg.contains("d=\"M72.0 98.5L303.0 69.0L534.0 10.0\""), "{svg}");
        assert!(svg.contains("L534 128L72.0 128Z"), "{svg}");
        assert!(svg.contains(">4&lt;<") && svg.contains("aria-label=\"&quot;\""), "{svg}");
        assert!(!render(&[]).contains("line"));
        assert!(render(&[1.0]).contains("d=\"M534.0 98.5\""));
    }
}
