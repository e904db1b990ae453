//! Bars of ratios on a logarithmic axis: to the left of 1 × is faster than the peer, to the right slower.

use std::fmt::Write as _;

use super::svg::{Decades, escaped, plot};
use crate::goals::rounded;

/// Width of the plot, of its labels, and of its axis.
const WIDTH: f64 = 1080.0;
const AXIS_AT: f64 = 430.0;
const AXIS: f64 = 350.0;

/// Height of a bar with its space, and of the axis above all.
const STEP: f64 = 20.0;
const TOP: f64 = 44.0;

/// One bar.
pub struct Bar {
    /// What it is of.
    pub label: String,
    /// Which run.
    pub note: String,
    /// The ratio to the peer.
    pub ratio: f64,
    /// The largest ratio that is wanted, and whether that is held.
    pub goal: Option<(f64, bool)>,
}

/// The plot of all bars; `None` if there are none.
pub fn svg(title: &str, bars: &[Bar]) -> Option<String> {
    let bars: Vec<&Bar> = bars.iter().filter(|bar| bar.ratio.is_finite() && bar.ratio > 0.0).collect();
    if bars.is_empty() {
        return None;
    }
    let goals = bars.iter().filter_map(|bar| Some(bar.goal?.0));
    let decades = Decades::around(bars.iter().map(|bar| bar.ratio).chain(goals).chain([1.0]));
    let x = |value: f64| AXIS_AT + AXIS * decades.part(value);
    let height = TOP + STEP * bars.len() as f64 + 10.0;
    let mut body = String::new();
    for value in decades.each() {
        let class = if value == 1.0 { "one" } else { "grid" };
        let _ = writeln!(
            body,
            "<path class=\"{class}\" d=\"M{0:.1} {1}V{2}\"/><text x=\"{0:.1}\" y=\"{3}\" text-anchor=\"middle\">{4} ×</text>",
            x(value),
            TOP - 6.0,
            height - 6.0,
            TOP - 10.0,
            rounded(value)
        );
    }
    let _ = writeln!(
        body,
        "<text class=\"muted\" x=\"{:.1}\" y=\"14\" text-anchor=\"end\">← faster than the peer</text>\
         <text class=\"muted\" x=\"{:.1}\" y=\"14\">slower →</text>",
        x(1.0) - 8.0,
        x(1.0) + 8.0
    );
    let mut before = "";
    for (at, bar) in bars.iter().enumerate() {
        let label = if bar.label == before { "" } else { &bar.label };
        body.push_str(&drawn(bar, label, TOP + STEP * at as f64, &x));
        before = &bar.label;
    }
    let faster = bars.iter().filter(|bar| bar.ratio <= 1.0).count();
    let description = format!(
        "{} bars: packrace beside its peer, {faster} faster (solid, left of 1 ×), {} slower (dashed, right of it). A bracket is the goal.",
        bars.len(),
        bars.len() - faster
    );
    Some(plot((WIDTH, height), title, &description, &body))
}

fn drawn(bar: &Bar, label: &str, top: f64, x: &impl Fn(f64) -> f64) -> String {
    let (end, one) = (x(bar.ratio), x(1.0));
    let class = if bar.ratio <= 1.0 { "faster" } else { "slower" };
    let mut text = format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n<rect class=\"{class}\" x=\"{:.1}\" y=\"{}\" width=\"{:.1}\" height=\"11\"/>\n",
        AXIS_AT - 8.0,
        top + 11.0,
        escaped(label),
        end.min(one),
        top + 1.5,
        (end - one).abs().max(1.0),
    );
    let mut said = format!("{} ×", rounded(bar.ratio));
    if let Some((goal, is_held)) = bar.goal {
        // Open to the side where ratios are within the goal.
        let _ = writeln!(text, "<path class=\"goal\" d=\"M{0:.1} {1}h4v15h-4\"/>", x(goal) - 4.0, top - 0.5);
        said.push_str(if is_held { " ✓" } else { " ✗ missed" });
    }
    let _ = writeln!(
        text,
        "<text x=\"{0}\" y=\"{1}\">{said} <tspan class=\"muted\">{2}</tspan></text>",
        AXIS_AT + AXIS + 12.0,
        top + 11.0,
        escaped(&bar.note)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_as_plain_as_wins() {
        let bar = |ratio, goal| Bar { label: "<b>".to_string(), note: "n&m".to_string(), ratio, goal };
        let svg =
            svg("t", &[bar(0.1, Some((0.2, true))), bar(10.0, Some((1.0, false))), bar(f64::NAN, None)]);
        let svg = svg.unwrap();
        // One, a tenth and ten: the axis has two decades, and one in the middle.
        assert!(svg.contains("class=\"faster\" x=\"430.0\" y=\"45.5\" width=\"175.0\""), "{svg}");
        assert!(svg.contains("class=\"slower\" x=\"605.0\" y=\"65.5\" width=\"175.0\""), "{svg}");
        assert!(svg.contains(">0.1 × ✓ ") && svg.contains(">10 × ✗ missed "), "{svg}");
        assert!(svg.contains("&lt;b&gt;") && svg.contains("n&amp;m") && !svg.contains("<b>"), "{svg}");
        assert_eq!(svg.matches("class=\"goal\"").count(), 2);
        assert!(super::svg("t", &[]).is_none());
    }
}
