//! Just enough of PNG (W3C, "Portable Network Graphics") to look at a screenshot: eight bits a channel, no interlace.

use std::collections::HashMap;
use std::io::Read as _;

/// A picture, three bytes a pixel.
pub struct Image {
    pub width: usize,
    pub height: usize,
    pixels: Vec<[u8; 3]>,
}

impl Image {
    /// Takes a file apart.
    pub fn read(file: &[u8]) -> Self {
        let mut rest = file.strip_prefix(b"\x89PNG\r\n\x1a\n").expect("a PNG");
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        let mut header: &[u8] = &[];
        let mut data = Vec::new();
        while rest.len() >= 12 {
            let length = number(rest);
            let (name, body) = (&rest[4..8], &rest[8..8 + length]);
            match name {
                b"IHDR" => header = body,
                b"IDAT" => data.extend_from_slice(body),
                _ => {}
            }
            rest = &rest[12 + length..];
        }
        let (width, height) = (number(header), number(&header[4..]));
        assert_eq!((header[8], header[12]), (8, 0), "bits a channel, and interlace");
        let channels = match header[9] {
            2 => 3,
            6 => 4,
            other => panic!("colour type {other}"),
        };
        let mut filtered = Vec::new();
        flate2::read::ZlibDecoder::new(&data[..]).read_to_end(&mut filtered).unwrap();
        let row_bytes = width * channels;
        let mut before = vec![0; row_bytes];
        let mut pixels = Vec::with_capacity(width * height);
        for row in filtered.chunks_exact(row_bytes + 1) {
            let row = unfilter(row, &before, channels);
            pixels.extend(row.chunks_exact(channels).map(|pixel| [pixel[0], pixel[1], pixel[2]]));
            before = row;
        }
        assert_eq!(pixels.len(), width * height);
        Image { width, height, pixels }
    }

    /// A pixel.
    pub fn at(&self, x: usize, y: usize) -> [u8; 3] {
        self.pixels[y * self.width + x]
    }

    /// All colours, and how many pixels have each.
    pub fn colours(&self) -> HashMap<[u8; 3], usize> {
        let mut colours = HashMap::new();
        for pixel in &self.pixels {
            *colours.entry(*pixel).or_default() += 1;
        }
        colours
    }
}

/// "Filter types for filter method 0".
fn unfilter(row: &[u8], before: &[u8], channels: usize) -> Vec<u8> {
    let mut out = vec![0; before.len()];
    for at in 0..out.len() {
        let left = if at < channels { 0 } else { out[at - channels] };
        let upper_left = if at < channels { 0 } else { before[at - channels] };
        let up = before[at];
        let predicted = match row[0] {
            0 => 0,
            1 => left,
            2 => up,
            3 => ((u16::from(left) + u16::from(up)) / 2) as u8,
            _ => paeth(left, up, upper_left),
        };
        out[at] = row[at + 1].wrapping_add(predicted);
    }
    out
}

fn paeth(left: u8, up: u8, upper_left: u8) -> u8 {
    let estimate = i16::from(left) + i16::from(up) - i16::from(upper_left);
    let distance = |value: u8| (estimate - i16::from(value)).abs();
    if distance(left) <= distance(up) && distance(left) <= distance(upper_left) {
        left
    } else if distance(up) <= distance(upper_left) {
        up
    } else {
        upper_left
    }
}
