//! Tar archives of plain files, in the form that every tar reads (ustar, with GNU's sizes above
//! 8 GiB).

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufReader, BufWriter, Read, Write},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

const BLOCK: usize = 512;
/// Where the fields of a header are, and how long.
const NAME: (usize, usize) = (0, 100);
const MODE: (usize, usize) = (100, 8);
const SIZE: (usize, usize) = (124, 12);
const CHECKSUM: (usize, usize) = (148, 8);
const KIND: usize = 156;
const MAGIC: (usize, usize) = (257, 8);
/// Sizes above this do not fit into eleven octal digits.
const LARGEST_OCTAL: u64 = (1 << 33) - 1;
/// The most files of one archive.
const MOST_FILES: usize = 10_000;

type Header = [u8; BLOCK];

fn field(header: &Header, (start, length): (usize, usize)) -> &[u8] {
    header.get(start..start + length).unwrap_or_default()
}

fn set(header: &mut Header, (start, length): (usize, usize), bytes: &[u8]) {
    let place = header.get_mut(start..start + length).unwrap_or_default();
    for (to, from) in place.iter_mut().zip(bytes) {
        *to = *from;
    }
}

/// The sum of a header's bytes, with blanks in place of the checksum.
fn sum(header: &Header) -> u32 {
    let all: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    let own: u32 = field(header, CHECKSUM).iter().map(|byte| u32::from(*byte)).sum();
    all - own + 8 * u32::from(b' ')
}

/// Bytes that fill the last block of a file.
fn count_padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64) - size
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// An archive that is being written.
pub(super) struct Writer(BufWriter<File>);

impl Writer {
    pub(super) fn new(file: File) -> Writer {
        Writer(BufWriter::new(file))
    }

    /// Adds a file, which must not change meanwhile.
    pub(super) fn add(&mut self, name: &str, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut header: Header = [0; BLOCK];
        if name.len() >= NAME.1 {
            return Err(invalid("a file's name is too long for a backup"));
        }
        set(&mut header, NAME, name.as_bytes());
        set(&mut header, MODE, b"0000600\0");
        if size <= LARGEST_OCTAL {
            set(&mut header, SIZE, format!("{size:011o}\0").as_bytes());
        } else {
            let mut bytes = [0; 12];
            bytes[0] = 0x80;
            set(&mut header, SIZE, &bytes);
            set(&mut header, (SIZE.0 + 4, 8), &size.to_be_bytes());
        }
        header[KIND] = b'0';
        set(&mut header, MAGIC, b"ustar\x0000");
        let checksum = format!("{:06o}\0 ", sum(&header));
        set(&mut header, CHECKSUM, checksum.as_bytes());
        self.0.write_all(&header)?;
        if io::copy(&mut file.take(size), &mut self.0)? != size {
            return Err(invalid("a file became shorter while it was copied"));
        }
        io::copy(&mut io::repeat(0).take(count_padding(size)), &mut self.0).map(|_| ())
    }

    /// Ends the archive, and has it on disk when this returns.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.0.write_all(&[0; 2 * BLOCK])?;
        self.0.flush()?;
        self.0.get_ref().sync_all()
    }
}

/// Writes the files of an archive into a folder. All of them must be of names that `is_known`.
pub(super) fn unpack(
    path: &Path,
    folder: &Path,
    is_known: impl Fn(&str) -> bool,
) -> io::Result<()> {
    let mut archive = BufReader::new(File::open(path)?);
    for _ in 0..MOST_FILES {
        let mut header: Header = [0; BLOCK];
        archive.read_exact(&mut header)?;
        if header == [0; BLOCK] {
            return Ok(());
        }
        let (name, size) = read_header(&header)?;
        if !is_known(&name) {
            return Err(invalid("it holds a file that is not of a data directory"));
        }
        let target = folder.join(&name);
        if let Some(parent) = target.parent().filter(|parent| !parent.exists()) {
            DirBuilder::new().mode(0o700).create(parent)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&target)?;
        if io::copy(&mut (&mut archive).take(size), &mut file)? != size {
            return Err(invalid("it ends in the middle of a file"));
        }
        file.sync_all()?;
        io::copy(&mut (&mut archive).take(count_padding(size)), &mut io::sink())?;
    }
    fs::remove_dir_all(folder)?;
    Err(invalid("it holds too many files"))
}

/// Name and size of a plain file.
fn read_header(header: &Header) -> io::Result<(String, u64)> {
    let text = |place| {
        let bytes = field(header, place).split(|byte| *byte == 0 || *byte == b' ').next();
        str::from_utf8(bytes.unwrap_or_default()).map_err(|_| invalid("a header is not text"))
    };
    let octal = |place| u64::from_str_radix(text(place)?, 8).map_err(|_| invalid("not a number"));
    if octal(CHECKSUM)? != u64::from(sum(header)) || !matches!(header[KIND], b'0' | 0) {
        return Err(invalid("it is not a tar archive of plain files"));
    }
    let size = match header.get(SIZE.0) {
        Some(0x80) => {
            let bytes = field(header, (SIZE.0 + 4, 8)).try_into();
            u64::from_be_bytes(bytes.map_err(|_| invalid("not a size"))?)
        }
        _ => octal(SIZE)?,
    };
    Ok((text(NAME)?.to_owned(), size))
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, KIND, read_header, sum};

    #[test]
    fn only_plain_files_with_a_right_checksum_are_read() {
        let mut header = [0; BLOCK];
        header[..9].copy_from_slice(b"sluice.db");
        header[124..135].copy_from_slice(b"00000000012");
        header[KIND] = b'0';
        let checksum = format!("{:06o}\0 ", sum(&header));
        header[148..156].copy_from_slice(checksum.as_bytes());
        assert_eq!(read_header(&header).unwrap(), ("sluice.db".into(), 10));
        for place in [0, 130, KIND] {
            let mut changed = header;
            changed[place] ^= 1;
            assert!(read_header(&changed).is_err(), "{place}");
        }
    }
}
