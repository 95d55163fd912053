//! Small data encoded and decoded by numcodecs and Python's own modules; see `data/make_codecs.py`.

#![allow(clippy::unwrap_used, clippy::panic, dead_code)] // a program of tests uses some of it

use tegula_kernel::codecs::{Number, Options, build};

/// The input of a codec, and the expected result.
pub struct Case {
    /// The codec's name.
    pub name: String,
    /// Its options.
    pub options: Options,
    /// Whether to encode rather than to decode.
    pub encodes: bool,
    /// The input.
    pub given: Vec<u8>,
    /// The expected result; `None` if the codec has to refuse it.
    pub wanted: Option<Vec<u8>>,
}

/// Read the options of a codec, which the file lists in the order of the fields: a letter for the type, then the value.
fn options(name: &str, values: &[&str]) -> Options {
    let int = |index: usize| values[index].strip_prefix('i').unwrap().parse::<i64>().unwrap();
    let flag = |index: usize| values[index] == "btrue";
    let text = |index: usize| values[index].strip_prefix('t').unwrap().to_owned();
    let number = |index: usize| match values[index].split_at(1) {
        ("f", float) => Number::Float(float.parse().unwrap()),
        _ => Number::Int(int(index)),
    };
    match name {
        "adler32" => Options::Adler32 { at_start: flag(0) },
        "bitround" => Options::BitRound { keepbits: int(0), dtype: text(1) },
        "bz2" => Options::Bz2 { level: int(0) },
        "crc32" => Options::Crc32 { at_start: flag(0) },
        "crc32c" => Options::Crc32c { at_start: flag(0) },
        "delta" => Options::Delta { dtype: text(0), astype: text(1) },
        "fixedscaleoffset" => {
            Options::FixedScaleOffset { offset: number(0), scale: number(1), dtype: text(2), astype: text(3) }
        }
        "fletcher32" => Options::Fletcher32,
        "gzip" => Options::Gzip { level: int(0) },
        "lz4" => Options::Lz4 { acceleration: int(0) },
        "lzma" => {
            let preset = values[2].starts_with('i').then(|| int(2));
            Options::Lzma { container: int(0), check: int(1), preset }
        }
        "packbits" => Options::PackBits,
        "quantize" => Options::Quantize { digits: int(0), dtype: text(1), astype: text(2) },
        "shuffle" => Options::Shuffle { elementsize: int(0) },
        "zlib" => Options::Zlib { level: int(0) },
        "zstd" => Options::Zstd { level: int(0), checksum: flag(1) },
        _ => panic!("{name}"),
    }
}

fn line<'a>(data: &mut &'a [u8]) -> &'a str {
    let end = data.iter().position(|&byte| byte == b'\n').unwrap();
    let found = std::str::from_utf8(&data[..end]).unwrap();
    *data = &data[end + 1..];
    found
}

fn bytes(data: &mut &[u8], size: usize) -> Vec<u8> {
    let (found, rest) = data.split_at(size);
    *data = rest;
    found.to_vec()
}

/// Read all cases.
pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let lzma = build(&Options::Lzma { container: 1, check: -1, preset: None }).unwrap();
    lzma.decode_up_to(include_bytes!("../data/codecs.xz"), 1 << 26, &mut all).unwrap();
    let mut rest = all.as_slice();
    assert!(line(&mut rest).contains("numcodecs 0.16.6"));
    let mut found = Vec::new();
    while !rest.is_empty() {
        let parts: Vec<&str> = line(&mut rest).split('\t').collect();
        let head: Vec<&str> = parts[0].split(';').collect();
        found.push(Case {
            name: head[0].to_owned(),
            options: options(head[0], &head[1..]),
            encodes: parts[1] == "encode",
            given: bytes(&mut rest, parts[2].parse().unwrap()),
            wanted: parts[3].parse().ok().map(|size| bytes(&mut rest, size)),
        });
    }
    found
}
