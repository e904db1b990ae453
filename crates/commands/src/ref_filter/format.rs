//! Formats: literal text, `%%`, `%xx` and `%(atoms)`; some atoms open blocks that are processed as a whole
//! (git-for-each-ref, "FIELD NAMES": align and if).

use super::argument::{fatal, number, split_argument, unrecognized};
use super::atom::Atom;
use super::color;
use super::context::ParseContext;
use super::quote::Quoting;
use crate::call::fatal::Fatal;
use crate::text::columns::width;

/// A parsed format.
#[derive(Debug, Default)]
pub struct Format {
    pieces: Vec<FormatPiece>,
    /// Whether colours are still on at the end.
    needs_reset: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum FormatPiece {
    Literal(Vec<u8>),
    Value(Atom),
    Color(Vec<u8>),
    Align(Align),
    If(Test),
    Then,
    Else,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Align {
    width: usize,
    position: Position,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Left,
    Right,
    Middle,
}

/// The condition on the text between `%(if)` and `%(then)`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    HasText,
    Equals(Vec<u8>),
    NotEquals(Vec<u8>),
}

/// Appends the value of an atom.
pub type WriteValue<'a> = dyn FnMut(&Atom, &mut Vec<u8>) -> Result<(), Fatal> + 'a;

/// Why a format is invalid.
#[derive(Debug)]
pub enum FormatError {
    /// An unterminated atom: the text from its start.
    Malformed(Vec<u8>),
    Fatal(Fatal),
}

impl From<Fatal> for FormatError {
    fn from(fatal: Fatal) -> Self {
        FormatError::Fatal(fatal)
    }
}

impl Format {
    /// Parses a format. Without colours, `%(color:…)` is checked but prints nothing.
    pub fn parse(text: &[u8], has_color: bool, context: &mut ParseContext) -> Result<Self, FormatError> {
        let mut format = Format::default();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
            literal.extend_from_slice(&rest[..at]);
            let after = &rest[at + 1..];
            if after.first() == Some(&b'(') {
                let Some(end) = after.iter().position(|byte| *byte == b')') else {
                    return Err(FormatError::Malformed(rest[at..].to_vec()));
                };
                if !literal.is_empty() {
                    format.pieces.push(FormatPiece::Literal(std::mem::take(&mut literal)));
                }
                format.add(&after[1..end], has_color, context)?;
                rest = &after[end + 1..];
            } else if after.first() == Some(&b'%') {
                literal.push(b'%');
                rest = &after[1..];
            } else if let Some(byte) = hex_byte(after) {
                literal.push(byte);
                rest = &after[2..];
            } else {
                literal.push(b'%');
                rest = after;
            }
        }
        literal.extend_from_slice(rest);
        if !literal.is_empty() {
            format.pieces.push(FormatPiece::Literal(literal));
        }
        Ok(format)
    }

    fn add(&mut self, text: &[u8], has_color: bool, context: &mut ParseContext) -> Result<(), Fatal> {
        let piece = match Control::parse(text)? {
            Some(Control::Color(color)) => {
                if text.starts_with(b"color:") {
                    self.needs_reset = has_color && text != b"color:reset";
                }
                FormatPiece::Color(if has_color { color } else { Vec::new() })
            }
            Some(Control::Align(align)) => FormatPiece::Align(align),
            Some(Control::If(test)) => FormatPiece::If(test),
            Some(Control::Then) => FormatPiece::Then,
            Some(Control::Else) => FormatPiece::Else,
            Some(Control::End) => FormatPiece::End,
            None => FormatPiece::Value(Atom::parse(text, context)?),
        };
        self.pieces.push(piece);
        Ok(())
    }

    /// Whether an atom is a control atom, not a value.
    pub fn is_control(text: &[u8]) -> Result<bool, Fatal> {
        Ok(Control::parse(text)?.is_some())
    }

    /// The atoms whose values are needed.
    pub fn atoms(&self) -> impl Iterator<Item = &Atom> {
        self.pieces.iter().filter_map(|piece| match piece {
            FormatPiece::Value(atom) => Some(atom),
            _ => None,
        })
    }

    /// Appends the formatted text of one ref to `out`. `value` appends the value of an atom.
    pub fn write(
        &self,
        quoting: Quoting,
        out: &mut Vec<u8>,
        value: &mut WriteValue<'_>,
    ) -> Result<(), Fatal> {
        let mut frames = Frames { open: Vec::new(), out, quoting, scratch: Vec::new() };
        for piece in &self.pieces {
            match piece {
                FormatPiece::Literal(text) => frames.target().extend_from_slice(text),
                FormatPiece::Color(color) => frames.add_value(|text| {
                    text.extend_from_slice(color);
                    Ok(())
                })?,
                FormatPiece::Value(atom) => frames.add_value(|text| value(atom, text))?,
                FormatPiece::Align(align) => {
                    frames.open.push(Frame { text: Vec::new(), kind: FrameKind::Align(*align) })
                }
                FormatPiece::If(test) => {
                    let kind = FrameKind::If { test: test.clone(), is_true: None, then: None };
                    frames.open.push(Frame { text: Vec::new(), kind });
                }
                FormatPiece::Then => frames.then()?,
                FormatPiece::Else => frames.otherwise()?,
                FormatPiece::End => frames.end()?,
            }
        }
        if self.needs_reset {
            frames.add_value(|text| {
                text.extend_from_slice(color::RESET);
                Ok(())
            })?;
        }
        match frames.open.is_empty() {
            true => Ok(()),
            false => Err(Fatal::new("format: %(end) atom missing")),
        }
    }
}

/// The open blocks.
struct Frames<'a> {
    open: Vec<Frame>,
    out: &'a mut Vec<u8>,
    quoting: Quoting,
    scratch: Vec<u8>,
}

struct Frame {
    text: Vec<u8>,
    kind: FrameKind,
}

enum FrameKind {
    Align(Align),
    If {
        test: Test,
        /// Known after `%(then)`.
        is_true: Option<bool>,
        /// The text before `%(else)`.
        then: Option<Vec<u8>>,
    },
}

impl Frames<'_> {
    fn target(&mut self) -> &mut Vec<u8> {
        match self.open.last_mut() {
            Some(frame) => &mut frame.text,
            None => self.out,
        }
    }

    /// Quotes single values only outside of blocks: a block is quoted as a whole.
    fn add_value(&mut self, value: impl FnOnce(&mut Vec<u8>) -> Result<(), Fatal>) -> Result<(), Fatal> {
        if self.quoting == Quoting::None || !self.open.is_empty() {
            return value(self.target());
        }
        self.scratch.clear();
        value(&mut self.scratch)?;
        self.quoting.write(&self.scratch, self.out);
        Ok(())
    }

    fn then(&mut self) -> Result<(), Fatal> {
        let alone = || Fatal::new("format: %(then) atom used without a %(if) atom");
        let frame = self.open.last_mut().ok_or_else(alone)?;
        let FrameKind::If { test, is_true, .. } = &mut frame.kind else { return Err(alone()) };
        if is_true.is_some() {
            return Err(Fatal::new("format: %(then) atom used more than once"));
        }
        *is_true = Some(match test {
            Test::HasText => frame.text.iter().any(|byte| !is_space(*byte)),
            Test::Equals(other) => frame.text == *other,
            Test::NotEquals(other) => frame.text != *other,
        });
        frame.text.clear();
        Ok(())
    }

    fn otherwise(&mut self) -> Result<(), Fatal> {
        let alone = || Fatal::new("format: %(else) atom used without a %(if) atom");
        let frame = self.open.last_mut().ok_or_else(alone)?;
        let FrameKind::If { is_true, then, .. } = &mut frame.kind else { return Err(alone()) };
        if is_true.is_none() {
            return Err(Fatal::new("format: %(else) atom used without a %(then) atom"));
        }
        if then.is_some() {
            return Err(Fatal::new("format: %(else) atom used more than once"));
        }
        *then = Some(std::mem::take(&mut frame.text));
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fatal> {
        let alone = || Fatal::new("format: %(end) atom used without corresponding atom");
        let Frame { text, kind } = self.open.pop().ok_or_else(alone)?;
        let text = match kind {
            FrameKind::Align(align) => align.apply(&text),
            FrameKind::If { is_true: None, .. } => {
                return Err(Fatal::new("format: %(if) atom used without a %(then) atom"));
            }
            FrameKind::If { is_true: Some(true), then, .. } => then.unwrap_or(text),
            FrameKind::If { is_true: Some(false), then: Some(_), .. } => text,
            FrameKind::If { is_true: Some(false), then: None, .. } => Vec::new(),
        };
        match self.open.is_empty() {
            true => self.quoting.write(&text, self.out),
            false => self.target().extend_from_slice(&text),
        }
        Ok(())
    }
}

impl Align {
    fn parse(argument: Option<&[u8]>) -> Result<Self, Fatal> {
        let expected = || Fatal::new("expected format: %(align:<width>,<position>)");
        let argument = argument.ok_or_else(expected)?;
        let (mut width, mut position) = (None, Position::Left);
        for word in argument.split(|byte| *byte == b',') {
            if let Some(text) = word.strip_prefix(b"position=") {
                position = Position::parse(text).ok_or_else(|| fatal("unrecognized position:", text))?;
            } else if let Some(text) = word.strip_prefix(b"width=") {
                let found = number(text).and_then(|width| usize::try_from(width).ok());
                width = Some(found.ok_or_else(|| fatal("unrecognized width:", text))?);
            } else if let Some(found) = number(word).and_then(|width| usize::try_from(width).ok()) {
                width = Some(found);
            } else {
                position = Position::parse(word).ok_or_else(|| unrecognized("align", word))?;
            }
        }
        let none = || Fatal::new("positive width expected with the %(align) atom");
        Ok(Align { width: width.ok_or_else(none)?, position })
    }

    fn apply(self, text: &[u8]) -> Vec<u8> {
        let missing = self.width.saturating_sub(width(text));
        let before = match self.position {
            Position::Left => 0,
            Position::Right => missing,
            Position::Middle => missing / 2,
        };
        [&b" ".repeat(before), text, &b" ".repeat(missing - before)].concat()
    }
}

impl Position {
    fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"left" => Some(Position::Left),
            b"right" => Some(Position::Right),
            b"middle" => Some(Position::Middle),
            _ => None,
        }
    }
}

/// An atom that is no value.
enum Control {
    Color(Vec<u8>),
    Align(Align),
    If(Test),
    Then,
    Else,
    End,
}

impl Control {
    fn parse(text: &[u8]) -> Result<Option<Self>, Fatal> {
        let plain = text.strip_prefix(b"*").unwrap_or(text);
        let (name, argument) = split_argument(plain);
        Ok(Some(match name {
            b"color" => {
                let text = argument.ok_or_else(|| Fatal::new("expected format: %(color:<color>)"))?;
                let shown = String::from_utf8_lossy(text);
                Control::Color(color::parse(&shown).ok_or_else(|| {
                    let unrecognized = Fatal::new(format!("unrecognized color: %(color:{shown})"));
                    unrecognized.after(format!("error: invalid color value: {shown}\n"))
                })?)
            }
            b"align" => Control::Align(Align::parse(argument)?),
            b"if" => Control::If(Test::parse(argument)?),
            b"then" => Control::Then,
            b"else" => Control::Else,
            b"end" => Control::End,
            _ => return Ok(None),
        }))
    }
}

impl Test {
    fn parse(argument: Option<&[u8]>) -> Result<Self, Fatal> {
        let Some(argument) = argument else { return Ok(Test::HasText) };
        match (argument.strip_prefix(b"equals="), argument.strip_prefix(b"notequals=")) {
            (Some(text), _) => Ok(Test::Equals(text.to_vec())),
            (_, Some(text)) => Ok(Test::NotEquals(text.to_vec())),
            _ => Err(unrecognized("if", argument)),
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn hex_byte(text: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    Some(digit(text.first()?)? * 16 + digit(text.get(1)?)?)
}
