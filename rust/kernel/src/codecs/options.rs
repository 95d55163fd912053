//! The options of each codec. The Python module reads them from the classes of `tegula.codecs.native`, and
//! [`build`](super::build) makes the codec.

/// A codec and its options.
#[derive(Clone, Debug, PartialEq)]
pub enum Options {
    /// Adler-32 before or after the data.
    Adler32 {
        /// Whether the checksum comes first.
        at_start: bool,
    },
    /// Floating-point numbers with fewer bits.
    BitRound {
        /// Bits of the significand to keep.
        keepbits: i64,
        /// Data type as NumPy spells it.
        dtype: String,
    },
    /// Blosc 1.
    Blosc(BloscOptions),
    /// The container around a Blosc frame in bcolz.
    Blpk,
    /// bzip2.
    Bz2 {
        /// 1 to 9.
        level: i64,
    },
    /// CRC-32 before or after the data.
    Crc32 {
        /// Whether the checksum comes first.
        at_start: bool,
    },
    /// CRC-32C before or after the data.
    Crc32c {
        /// Whether the checksum comes first.
        at_start: bool,
    },
    /// Differences of neighbours.
    Delta {
        /// Data type as NumPy spells it.
        dtype: String,
        /// Data type of the encoded elements.
        astype: String,
    },
    /// `(x - offset) * scale`, rounded.
    FixedScaleOffset {
        /// Subtracted when encoding.
        offset: Number,
        /// Factor when encoding.
        scale: Number,
        /// Data type as NumPy spells it.
        dtype: String,
        /// Data type of the encoded elements.
        astype: String,
    },
    /// The checksum of HDF5 after the data.
    Fletcher32,
    /// gzip.
    Gzip {
        /// 0 to 9, or -1 for the default.
        level: i64,
    },
    /// LZ4 blocks.
    Lz4 {
        /// Acceleration of the library.
        acceleration: i64,
    },
    /// The stream of Java's `LZ4BlockOutputStream`.
    Lz4Block {
        /// Largest size of a block in bytes.
        size: i64,
    },
    /// XZ and LZMA.
    Lzma {
        /// Container format of Python's `lzma`: 1 is XZ, 2 is LZMA.
        container: i64,
        /// Integrity check of Python's `lzma`; -1 for the default.
        check: i64,
        /// Compression preset; `None` for the default.
        preset: Option<i64>,
    },
    /// The blocks of N5: a header, and the elements in Fortran order.
    N5 {
        /// Shape of a chunk.
        shape: Vec<u64>,
        /// Bytes of an element.
        itemsize: u64,
        /// The codecs behind the header, in the order of encoding.
        codecs: Vec<Options>,
    },
    /// Booleans as bits.
    PackBits,
    /// Floating-point numbers rounded to decimal digits.
    Quantize {
        /// Decimal digits to keep.
        digits: i64,
        /// Data type as NumPy spells it.
        dtype: String,
        /// Data type of the encoded elements.
        astype: String,
    },
    /// The byte shuffle of numcodecs.
    Shuffle {
        /// Bytes of an element.
        elementsize: i64,
    },
    /// zlib.
    Zlib {
        /// 0 to 9, or -1 for the default.
        level: i64,
    },
    /// Zstandard.
    Zstd {
        /// -131072 to 22.
        level: i64,
        /// Whether to add a checksum to frames.
        checksum: bool,
    },
}

/// The options of Blosc.
#[derive(Clone, Debug, PartialEq)]
pub struct BloscOptions {
    /// Name of the compressor.
    pub compressor: String,
    /// 0 to 9.
    pub level: i64,
    /// 0 none, 1 of bytes, 2 of bits, -1 of bits for elements of one byte and otherwise of bytes.
    pub shuffle: i64,
    /// Bytes of a block; 0 for the automatic size.
    pub blocksize: i64,
    /// Bytes of an element.
    pub typesize: i64,
}

/// A number of Python. The arithmetic of NumPy depends on its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An int.
    Int(i64),
    /// A float.
    Float(f64),
}
