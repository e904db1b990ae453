//! Colour names as terminal escape sequences (git-config, "Values": color).

use std::collections::BTreeSet;

/// Resets all colours and attributes.
pub const RESET: &[u8] = b"\x1b[m";

const NAMES: [&str; 8] = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/// Attributes and the codes that set them; code plus 20 clears them, except bold, which dim's clearing code
/// clears.
const ATTRIBUTES: [(&str, u8); 7] =
    [("bold", 1), ("dim", 2), ("italic", 3), ("ul", 4), ("blink", 5), ("reverse", 7), ("strike", 9)];

/// The escape sequence of a colour: foreground, background and attributes in any order. `None` if the text is
/// invalid.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    let mut colors: Vec<String> = Vec::new();
    let mut given = 0;
    let mut attributes = BTreeSet::new();
    let mut is_reset = false;
    for word in text.split_ascii_whitespace() {
        if word.eq_ignore_ascii_case("reset") {
            is_reset = true;
        } else if let Some(code) = color(word, given == 1) {
            given += 1;
            if given > 2 {
                return None;
            }
            colors.extend(code);
        } else {
            attributes.insert(attribute(word)?);
        }
    }
    // The reset comes first, as an empty code.
    let mut codes: Vec<String> = if is_reset { vec![String::new()] } else { Vec::new() };
    codes.extend(attributes.iter().map(u8::to_string));
    codes.extend(colors);
    Some(if codes.is_empty() { Vec::new() } else { format!("\x1b[{}m", codes.join(";")).into_bytes() })
}

/// The code of a colour; `Some(None)` for `normal`, which changes nothing.
fn color(word: &str, is_background: bool) -> Option<Option<String>> {
    let base = if is_background { 40 } else { 30 };
    let word = word.to_ascii_lowercase();
    if word == "normal" {
        return Some(None);
    }
    if word == "default" {
        return Some(Some((base + 9).to_string()));
    }
    let (name, bright) = match word.strip_prefix("bright") {
        Some(name) => (name, 60),
        None => (word.as_str(), 0),
    };
    if let Some(number) = NAMES.iter().position(|known| *known == name) {
        return Some(Some((base + bright + number).to_string()));
    }
    if let Some(hex) = word.strip_prefix('#') {
        let [red, green, blue] = rgb(hex)?;
        return Some(Some(format!("{};2;{red};{green};{blue}", base + 8)));
    }
    match word.parse::<i32>().ok()? {
        -1 => Some(None),
        number @ 0..=7 => Some(Some((base as i32 + number).to_string())),
        number @ 8..=15 => Some(Some((base as i32 + 60 + number - 8).to_string())),
        number @ 16..=255 => Some(Some(format!("{};5;{number}", base + 8))),
        _ => None,
    }
}

fn rgb(hex: &str) -> Option<[u8; 3]> {
    let step = match hex.len() {
        3 => 1,
        6 => 2,
        _ => return None,
    };
    let part = |at: usize| {
        let part = u8::from_str_radix(hex.get(at * step..(at + 1) * step)?, 16).ok()?;
        Some(if step == 1 { part * 17 } else { part })
    };
    Some([part(0)?, part(1)?, part(2)?])
}

fn attribute(word: &str) -> Option<u8> {
    let code = |name: &str| ATTRIBUTES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code);
    match word.strip_prefix("no") {
        Some(name) => Some(20 + code(name.strip_prefix('-').unwrap_or(name))?.max(2)),
        None => code(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors() {
        let check = |text, expect: Option<&str>| {
            let expect = expect.map(|codes| match codes {
                "none" => Vec::new(),
                codes => format!("\x1b[{codes}m").into_bytes(),
            });
            assert_eq!(parse(text), expect, "{text}")
        };
        check("red", Some("31"));
        check("Red", Some("31"));
        check("brightwhite", Some("97"));
        check("normal blue", Some("44"));
        check("default default", Some("39;49"));
        check("ul red blue bold", Some("1;4;31;44"));
        check("bold nobold", Some("1;22"));
        check("no-ul dim", Some("2;24"));
        check("reset", Some(""));
        check("reset bold", Some(";1"));
        check("16 8", Some("38;5;16;100"));
        check("#f08", Some("38;2;255;0;136"));
        check("-1", Some("none"));
        check("red blue green", None);
        check("256", None);
        check("BOLD", None);
        check("brightdefault", None);
        check("#ü8", None);
    }
}
