//! The options of codecs: the classes of `tegula.codecs.native`, matched by their attribute `name`.

use pyo3::intern;
use pyo3::prelude::*;
use tegula_kernel::Error;
use tegula_kernel::codecs::{BloscOptions, Number, Options};

use crate::errors::exception;

/// `NativeLevel`.
#[derive(FromPyObject)]
struct LevelParts {
    level: i64,
}

/// `NativeZstd`.
#[derive(FromPyObject)]
struct ZstdParts {
    level: i64,
    checksum: bool,
}

/// `NativeLz4`.
#[derive(FromPyObject)]
struct Lz4Parts {
    acceleration: i64,
}

/// `NativeLz4Block`.
#[derive(FromPyObject)]
struct Lz4BlockParts {
    size: i64,
}

/// `NativeBlock`.
#[derive(FromPyObject)]
struct BlockParts<'py> {
    shape: Vec<u64>,
    itemsize: u64,
    codecs: Vec<Bound<'py, PyAny>>,
}

/// `NativeLzma`.
#[derive(FromPyObject)]
struct LzmaParts {
    container: i64,
    check: i64,
    preset: Option<i64>,
}

/// `NativeBlosc`.
#[derive(FromPyObject)]
struct BloscParts {
    compressor: String,
    level: i64,
    shuffle: i64,
    blocksize: i64,
    typesize: i64,
}

/// `NativeChecksum`.
#[derive(FromPyObject)]
struct ChecksumParts {
    at_start: bool,
}

/// `NativeShuffle`.
#[derive(FromPyObject)]
struct ShuffleParts {
    elementsize: i64,
}

/// `NativeDelta`.
#[derive(FromPyObject)]
struct DeltaParts {
    dtype: String,
    astype: String,
}

/// `NativeFixedScaleOffset`.
#[derive(FromPyObject)]
struct FixedScaleOffsetParts {
    offset: NumberParts,
    scale: NumberParts,
    dtype: String,
    astype: String,
}

/// An int or a float.
#[derive(FromPyObject)]
enum NumberParts {
    Int(i64),
    Float(f64),
}

/// `NativeQuantize`.
#[derive(FromPyObject)]
struct QuantizeParts {
    digits: i64,
    dtype: String,
    astype: String,
}

/// `NativeBitRound`.
#[derive(FromPyObject)]
struct BitRoundParts {
    keepbits: i64,
    dtype: String,
}

/// Read the options of a codec.
///
/// # Errors
///
/// `UnsupportedError` if the kernel does not have the codec; Python's own exception if an attribute is missing.
pub fn options(codec: &Bound<'_, PyAny>) -> PyResult<Options> {
    let name: String = codec.getattr(intern!(codec.py(), "name"))?.extract()?;
    let level = || codec.extract::<LevelParts>().map(|parts| parts.level);
    let at_start = || codec.extract::<ChecksumParts>().map(|parts| parts.at_start);
    Ok(match name.as_str() {
        // checksums
        "adler32" => Options::Adler32 { at_start: at_start()? },
        "crc32" => Options::Crc32 { at_start: at_start()? },
        "crc32c" => Options::Crc32c { at_start: at_start()? },
        "fletcher32" => Options::Fletcher32,
        // compressors
        "blosc" => {
            let BloscParts { compressor, level, shuffle, blocksize, typesize } = codec.extract()?;
            Options::Blosc(BloscOptions { compressor, level, shuffle, blocksize, typesize })
        }
        "blpk" => Options::Blpk,
        "bz2" => Options::Bz2 { level: level()? },
        "gzip" => Options::Gzip { level: level()? },
        "lz4" => {
            let Lz4Parts { acceleration } = codec.extract()?;
            Options::Lz4 { acceleration }
        }
        "lz4block" => {
            let Lz4BlockParts { size } = codec.extract()?;
            Options::Lz4Block { size }
        }
        "lzma" => {
            let LzmaParts { container, check, preset } = codec.extract()?;
            Options::Lzma { container, check, preset }
        }
        "n5_default" => {
            let BlockParts { shape, itemsize, codecs } = codec.extract()?;
            Options::N5 { shape, itemsize, codecs: codecs.iter().map(options).collect::<PyResult<_>>()? }
        }
        "zlib" => Options::Zlib { level: level()? },
        "zstd" => {
            let ZstdParts { level, checksum } = codec.extract()?;
            Options::Zstd { level, checksum }
        }
        // filters
        "bitround" => {
            let BitRoundParts { keepbits, dtype } = codec.extract()?;
            Options::BitRound { keepbits, dtype }
        }
        "delta" => {
            let DeltaParts { dtype, astype } = codec.extract()?;
            Options::Delta { dtype, astype }
        }
        "fixedscaleoffset" => {
            let FixedScaleOffsetParts { offset, scale, dtype, astype } = codec.extract()?;
            Options::FixedScaleOffset { offset: offset.into(), scale: scale.into(), dtype, astype }
        }
        "packbits" => Options::PackBits,
        "quantize" => {
            let QuantizeParts { digits, dtype, astype } = codec.extract()?;
            Options::Quantize { digits, dtype, astype }
        }
        "shuffle" => {
            let ShuffleParts { elementsize } = codec.extract()?;
            Options::Shuffle { elementsize }
        }
        _ => return Err(exception(codec.py(), Error::unsupported(name, "the kernel does not have this codec"))),
    })
}

impl From<NumberParts> for Number {
    fn from(number: NumberParts) -> Number {
        match number {
            NumberParts::Int(value) => Number::Int(value),
            NumberParts::Float(value) => Number::Float(value),
        }
    }
}
