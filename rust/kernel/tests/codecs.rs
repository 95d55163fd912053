//! Codecs compared with numcodecs and Python's own modules; see `data/make_codecs.py`.

#![allow(clippy::unwrap_used, clippy::panic)] // in what the tests share

mod cases;

use cases::cases;
use tegula_kernel::codecs::{Codec, Number, Options, build, vlen};

fn encoded(codec: &dyn Codec, data: &[u8]) -> Vec<u8> {
    let mut out = b"something else".to_vec();
    codec.encode(data, &mut out).unwrap();
    out
}

fn check_decoding(codec: &dyn Codec, data: &[u8], wanted: &[u8], what: &str) {
    let mut out = vec![0xa5; wanted.len()];
    codec.decode(data, &mut out).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(out == wanted, "{what}");
    for wrong in [wanted.len() + 1, wanted.len().wrapping_sub(1), 3 * wanted.len() + 7] {
        if wrong < usize::MAX {
            assert!(codec.decode(data, &mut vec![0; wrong]).is_err(), "{what}: {wrong} bytes");
        }
    }
    let mut out = b"something else".to_vec();
    for limit in [wanted.len(), wanted.len() + 1, 10 * wanted.len() + 100_000] {
        codec.decode_up_to(data, limit, &mut out).unwrap_or_else(|error| panic!("{what}, up to {limit}: {error}"));
        assert!(out == wanted, "{what}, up to {limit}");
    }
    if let Some(less) = wanted.len().checked_sub(1) {
        assert!(codec.decode_up_to(data, less, &mut out).is_err(), "{what}, up to {less}");
    }
    if let Some(size) = codec.decoded_size(data).unwrap() {
        assert_eq!(size, wanted.len(), "{what}");
    }
}

#[test]
fn same_as_python() {
    let cases = cases();
    assert!(cases.len() > 1500, "{}", cases.len());
    for (index, case) in cases.iter().enumerate() {
        let what = format!("case {index}, {:?}", case.options);
        let codec = build(&case.options).unwrap_or_else(|error| panic!("{what}: {error}"));
        match &case.wanted {
            Some(wanted) if case.encodes => {
                let found = encoded(&*codec, &case.given);
                // what LZ4 chooses depends on the order of bytes; no data at all are stored, and refused, as by numcodecs
                let chooses = cfg!(target_endian = "big") && matches!(case.options, Options::Lz4 { .. });
                if chooses && !case.given.is_empty() {
                    check_decoding(&*codec, &found, &case.given, &what);
                    continue;
                }
                let place = found.iter().zip(wanted).position(|(one, other)| one != other);
                assert!(found == *wanted, "{what}: {} and {} bytes, from {place:?}", found.len(), wanted.len());
                assert!(codec.encoded_size(case.given.len()).is_none_or(|size| size == found.len()), "{what}");
            }
            Some(wanted) => check_decoding(&*codec, &case.given, wanted, &what),
            None => {
                for size in [0, 1, 100, case.given.len(), 2800, 100_000] {
                    assert!(codec.decode(&case.given, &mut vec![0; size]).is_err(), "{what}");
                }
                assert!(codec.decode_up_to(&case.given, 1 << 20, &mut Vec::new()).is_err(), "{what}");
            }
        }
    }
}

#[test]
fn there_and_back() {
    let mut data: Vec<u8> = (0..300_000u32).flat_map(|number| (number / 7 * 3).to_le_bytes()).collect();
    data.truncate(1_100_008);
    for options in [
        Options::Zstd { level: 0, checksum: true },
        Options::Zstd { level: -50, checksum: false },
        Options::Zstd { level: 22, checksum: false },
        Options::Gzip { level: 0 },
        Options::Gzip { level: 9 },
        Options::Zlib { level: -1 },
        Options::Bz2 { level: 9 },
        Options::Lzma { container: 1, check: -1, preset: Some(0) },
        Options::Lz4 { acceleration: 1 },
        Options::Fletcher32,
        Options::Shuffle { elementsize: 8 },
    ] {
        let codec = build(&options).unwrap();
        let name = codec.name();
        let coded = encoded(&*codec, &data);
        assert_eq!(coded, encoded(&*codec, &data), "{name}: equal data makes equal bytes");
        check_decoding(&*codec, &coded, &data, name);
    }
}

#[test]
fn frames_say_their_size() {
    let codec = build(&Options::Zstd { level: 5, checksum: false }).unwrap();
    for size in [0, 1, 255, 256, 70_000] {
        assert_eq!(codec.decoded_size(&encoded(&*codec, &vec![3; size])).unwrap(), Some(size));
    }
    let lz4 = build(&Options::Lz4 { acceleration: 1 }).unwrap();
    assert_eq!(lz4.decoded_size(&encoded(&*lz4, b"twelve bytes")).unwrap(), Some(12));
}

#[test]
fn gzip_has_no_time() {
    let codec = build(&Options::Gzip { level: 5 }).unwrap();
    assert_eq!(encoded(&*codec, b"abc")[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
}

#[test]
fn options_out_of_range_are_refused() {
    for options in [
        Options::Zstd { level: 23, checksum: false },
        Options::Gzip { level: 10 },
        Options::Bz2 { level: 0 },
        Options::Lzma { container: 3, check: -1, preset: None },
        Options::Lzma { container: 2, check: 4, preset: None },
        Options::Lzma { container: 1, check: -1, preset: Some(10) },
        Options::Lz4 { acceleration: 1 << 40 },
        Options::Delta { dtype: "<i4".into(), astype: "<f4".into() },
        Options::Delta { dtype: "<i4".into(), astype: "<u8".into() },
        Options::Delta { dtype: "<M8[s]".into(), astype: "<M8[s]".into() },
        Options::Delta { dtype: "<f2".into(), astype: "<f2".into() },
        Options::Delta { dtype: "|b1".into(), astype: "|b1".into() },
        Options::FixedScaleOffset {
            offset: Number::Int(1),
            scale: Number::Int(10),
            dtype: "<i4".into(),
            astype: "<i4".into(),
        },
        Options::Quantize { digits: 3, dtype: "<f2".into(), astype: "<f2".into() },
        Options::Quantize { digits: 60, dtype: "<f4".into(), astype: "<f4".into() },
        Options::BitRound { keepbits: 24, dtype: "<f4".into() },
        Options::BitRound { keepbits: -1, dtype: "<f4".into() },
    ] {
        let found = build(&options).err();
        assert!(matches!(found, Some(tegula_kernel::Error::Unsupported { .. })), "{options:?}");
    }
}

#[test]
fn filters_take_whole_elements_only() {
    let types = Options::Delta { dtype: "<i4".into(), astype: "<i2".into() };
    let codec = build(&types).unwrap();
    assert_eq!(codec.encoded_size(12), Some(6));
    assert_eq!(codec.encoded_size(13), None);
    assert!(codec.encode(&[0; 13], &mut Vec::new()).is_err());
    assert!(codec.decode(&[0; 5], &mut [0; 10]).is_err());
    // NumPy does not assign an integer that does not fit
    assert!(codec.encode(&70_000i32.to_le_bytes(), &mut Vec::new()).is_err());
    assert!(codec.encode(&7_000i32.to_le_bytes(), &mut Vec::new()).is_ok());
}

#[test]
fn anything_but_zero_is_true() {
    let codec = build(&Options::PackBits).unwrap();
    let data: Vec<u8> = (0..=255).chain(0..20).collect();
    let found = encoded(&*codec, &data);
    assert_eq!(found[..3], [4, 0x7f, 0xff]);
    assert_eq!(found[33..], [0x7f, 0xff, 0xf0]);
}

#[test]
fn elements_of_any_length() {
    let items: [&[u8]; 4] = [b"abc", b"", "\u{e9}t\u{e9}".as_bytes(), b"\xff"];
    let mut out = Vec::new();
    vlen::join(&items, &mut out).unwrap();
    assert_eq!(out[..11], [4, 0, 0, 0, 3, 0, 0, 0, b'a', b'b', b'c']);
    let ranges = vlen::parse(&out, 4).unwrap();
    assert!(ranges.iter().zip(items).all(|(&(start, end), item)| out[start..end] == *item));
    assert!(vlen::parse_text(&out, 4).is_err());
    for wrong in [0, 3, 5, usize::MAX, usize::MAX / 4] {
        assert!(vlen::parse(&out, wrong).is_err());
    }
    for end in 0..out.len() {
        assert!(vlen::parse(&out[..end], 4).is_err());
    }
    out.push(0);
    assert!(vlen::parse(&out, 4).is_err());
    vlen::join(&items[..3], &mut out).unwrap();
    assert_eq!(vlen::parse_text(&out, 3).unwrap().len(), 3);
    vlen::join(&[], &mut out).unwrap();
    assert_eq!(vlen::parse(&out, 0).unwrap(), []);
}
