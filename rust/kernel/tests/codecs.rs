//! Codecs against what numcodecs and Python's own modules make of the same bytes; see `data/make_codecs.py`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod cases;

use cases::cases;
use tegula_kernel::codecs::{Codec, Value, build, vlen};

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
        let what = format!("case {index}, {} {:?}", case.name, case.options);
        let codec = build(&case.name, &case.options).unwrap_or_else(|error| panic!("{what}: {error}"));
        match &case.wanted {
            Some(wanted) if case.encodes => {
                let found = encoded(&*codec, &case.given);
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
    for (name, options) in [
        ("zstd", vec![Value::Int(0), Value::Bool(true)]),
        ("zstd", vec![Value::Int(-50), Value::Bool(false)]),
        ("zstd", vec![Value::Int(22), Value::Bool(false)]),
        ("gzip", vec![Value::Int(0)]),
        ("gzip", vec![Value::Int(9)]),
        ("zlib", vec![Value::Int(-1)]),
        ("bz2", vec![Value::Int(9)]),
        ("lzma", vec![Value::Int(1), Value::Int(-1), Value::Int(0)]),
        ("lz4", vec![Value::Int(1)]),
        ("fletcher32", vec![]),
        ("shuffle", vec![Value::Int(8)]),
    ] {
        let codec = build(name, &options).unwrap();
        let coded = encoded(&*codec, &data);
        assert_eq!(coded, encoded(&*codec, &data), "{name}: equal data makes equal bytes");
        check_decoding(&*codec, &coded, &data, name);
    }
}

#[test]
fn frames_say_their_size() {
    let codec = build("zstd", &[Value::Int(5), Value::Bool(false)]).unwrap();
    for size in [0, 1, 255, 256, 70_000] {
        assert_eq!(codec.decoded_size(&encoded(&*codec, &vec![3; size])).unwrap(), Some(size));
    }
    let lz4 = build("lz4", &[Value::Int(1)]).unwrap();
    assert_eq!(lz4.decoded_size(&encoded(&*lz4, b"twelve bytes")).unwrap(), Some(12));
}

#[test]
fn gzip_has_no_time() {
    let codec = build("gzip", &[Value::Int(5)]).unwrap();
    assert_eq!(encoded(&*codec, b"abc")[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
}

#[test]
fn options_that_are_none() {
    let text = |name: &str| Value::Text(name.to_owned());
    for (name, options) in [
        ("zstd", vec![Value::Int(23), Value::Bool(false)]),
        ("zstd", vec![Value::Int(1)]),
        ("gzip", vec![Value::Int(10)]),
        ("zlib", vec![Value::Float(1.0)]),
        ("bz2", vec![Value::Int(0)]),
        ("lzma", vec![Value::Int(3), Value::Int(-1), Value::None]),
        ("lzma", vec![Value::Int(2), Value::Int(4), Value::None]),
        ("lzma", vec![Value::Int(1), Value::Int(-1), Value::Int(10)]),
        ("lz4", vec![Value::Int(1 << 40)]),
        ("crc32", vec![]),
        ("fletcher32", vec![Value::Bool(true)]),
        ("delta", vec![text("<i4"), text("<f4")]),
        ("delta", vec![text("<i4"), text("<u8")]),
        ("delta", vec![text("<M8[s]"), text("<M8[s]")]),
        ("delta", vec![text("<f2"), text("<f2")]),
        ("delta", vec![text("|b1"), text("|b1")]),
        ("fixedscaleoffset", vec![Value::Int(1), Value::Int(10), text("<i4"), text("<i4")]),
        ("quantize", vec![Value::Int(3), text("<f2"), text("<f2")]),
        ("quantize", vec![Value::Int(60), text("<f4"), text("<f4")]),
        ("bitround", vec![Value::Int(24), text("<f4")]),
        ("bitround", vec![Value::Int(-1), text("<f4")]),
        ("packbits", vec![Value::Int(1)]),
    ] {
        let found = build(name, &options).err();
        assert!(matches!(found, Some(tegula_kernel::Error::Unsupported { .. })), "{name} {options:?}");
    }
}

#[test]
fn filters_take_whole_elements_only() {
    let types = [Value::Text("<i4".to_owned()), Value::Text("<i2".to_owned())];
    let codec = build("delta", &types).unwrap();
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
    let codec = build("packbits", &[]).unwrap();
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
