//! Splits a file into pieces: by lines, by list elements, or as one document.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Cursor, Read, Seek as _},
    path::Path,
};

use sluice_wire::json::{Document, Kind};

use super::{LONGEST_TEXT, elements::Elements, prepare::BOUNDS};

/// A part of a file that can be parsed by itself.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) at: At,
    pub(super) text: Vec<u8>,
    pub(super) is_cut: bool,
}

/// The position of a piece in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    Line(usize),
    Entry(usize),
    Whole,
}

/// The pieces of a file.
pub(super) struct Pieces {
    from: From,
    number: usize,
    /// The size in bytes; the maximum if it is unknown.
    pub(super) bytes: u64,
    pub(super) taken: u64,
}

type Input = BufReader<Box<dyn Read + Send>>;

enum From {
    Lines(Input),
    Entries(Elements<Input>),
    Whole(Option<Input>),
    /// A document that is too long and is not a list.
    TooLong,
}

impl Pieces {
    /// Opens a file and detects its format.
    pub(super) fn open(path: &Path) -> io::Result<Pieces> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            // The file is read twice, which a pipe does not allow.
            return Err(io::Error::other("it is not a regular file"));
        }
        let bytes = metadata.len();
        let is_lines = is_lines(&mut BufReader::new(&file))?;
        file.rewind()?;
        let from = if is_lines {
            From::Lines(input(file))
        } else if bytes <= LONGEST_TEXT as u64 {
            From::Whole(Some(input(file)))
        } else {
            From::long(input(file))?
        };
        Ok(Pieces { from, number: 0, bytes, taken: 0 })
    }

    /// Detects the format of a stream that can be read only once, by buffering its start.
    pub(super) fn of_stream(mut stream: impl Read + Send + 'static) -> io::Result<Pieces> {
        let mut head = Vec::new();
        stream.by_ref().take(LONGEST_TEXT as u64 + 1).read_to_end(&mut head)?;
        let is_whole = head.len() <= LONGEST_TEXT;
        let bytes = if is_whole { head.len() as u64 } else { u64::MAX };
        let is_lines = is_lines(&mut BufReader::new(head.as_slice()))?;
        let all = input(Cursor::new(head).chain(stream));
        let from = match (is_lines, is_whole) {
            (true, _) => From::Lines(all),
            (false, true) => From::Whole(Some(all)),
            (false, false) => From::long(all)?,
        };
        Ok(Pieces { from, number: 0, bytes, taken: 0 })
    }

    /// The next piece.
    pub(super) fn next(&mut self) -> io::Result<Option<Piece>> {
        self.number += 1;
        match &mut self.from {
            From::Lines(input) => loop {
                let Some(FileLine { text, is_cut, length }) = line(input)? else { return Ok(None) };
                self.taken += length;
                if !text.is_empty() {
                    return Ok(Some(Piece { at: At::Line(self.number), text, is_cut }));
                }
                self.number += 1;
            },
            From::Entries(elements) => {
                let element = elements.next(LONGEST_TEXT)?;
                self.taken = elements.taken;
                let at = At::Entry(self.number);
                Ok(element.map(|one| Piece { at, text: one.text, is_cut: one.is_cut }))
            }
            From::Whole(input) => {
                let Some(input) = input.take() else { return Ok(None) };
                let mut text = Vec::new();
                input.take(LONGEST_TEXT as u64 + 1).read_to_end(&mut text)?;
                self.taken = text.len() as u64;
                let is_cut = text.len() > LONGEST_TEXT;
                Ok(Some(Piece { at: At::Whole, text, is_cut }))
            }
            From::TooLong => {
                self.from = From::Whole(None);
                Ok(Some(Piece { at: At::Whole, text: Vec::new(), is_cut: true }))
            }
        }
    }
}

impl From {
    /// Opens a document that is too long to be read at once.
    fn long(input: Input) -> io::Result<From> {
        let elements = Elements::of_list(input, "servers")?;
        Ok(elements.map_or(From::TooLong, From::Entries))
    }
}

fn input(from: impl Read + Send + 'static) -> Input {
    BufReader::with_capacity(1 << 18, Box::new(from))
}

/// Whether one of the first two non-empty lines is a whole object or list: two, so that one bad
/// line does not hide the format.
fn is_lines(input: &mut impl BufRead) -> io::Result<bool> {
    let mut looked = 0;
    while looked < 2 {
        let Some(FileLine { text, is_cut, .. }) = line(input)? else { return Ok(false) };
        if text.is_empty() {
            continue;
        }
        looked += 1;
        if is_cut {
            return Ok(false);
        }
        let is_container = Document::parse(text, &BOUNDS)
            .is_ok_and(|document| matches!(document.root().kind(), Kind::Object | Kind::List));
        if is_container {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A line of a file.
struct FileLine {
    /// The line without its end, and truncated if it is too long.
    text: Vec<u8>,
    is_cut: bool,
    /// Its length in the file, in bytes.
    length: u64,
}

fn line(input: &mut impl BufRead) -> io::Result<Option<FileLine>> {
    let mut text = Vec::new();
    let mut length = input.take(LONGEST_TEXT as u64).read_until(b'\n', &mut text)? as u64;
    if length == 0 {
        return Ok(None);
    }
    let mut is_cut = false;
    let mut ended = text.ends_with(b"\n");
    while !ended {
        // The rest of a line that is too long is skipped.
        let mut rest = Vec::new();
        let more = input.take(1 << 16).read_until(b'\n', &mut rest)? as u64;
        length += more;
        is_cut |= !rest.trim_ascii().is_empty();
        ended = more == 0 || rest.ends_with(b"\n");
    }
    text.truncate(text.trim_ascii_end().len());
    Ok(Some(FileLine { text, is_cut, length }))
}
