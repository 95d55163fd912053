//! What numcodecs and Python's own modules make of small data; see `data/make_codecs.py`.

#![allow(clippy::unwrap_used, dead_code)]

use tegula_kernel::codecs::{Value, build};

/// Bytes that go into a codec, and those that have to come out.
pub struct Case {
    /// The codec's name.
    pub name: String,
    /// Its options.
    pub options: Vec<Value>,
    /// Whether to encode rather than to decode.
    pub encodes: bool,
    /// What goes in.
    pub given: Vec<u8>,
    /// What comes out; nothing, if it has to be refused.
    pub wanted: Option<Vec<u8>>,
}

fn option(text: &str) -> Value {
    let (kind, rest) = text.split_at(1);
    match kind {
        "i" => Value::Int(rest.parse().unwrap()),
        "f" => Value::Float(rest.parse().unwrap()),
        "b" => Value::Bool(rest == "true"),
        "t" => Value::Text(rest.to_owned()),
        _ => Value::None,
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
    let lzma = build("lzma", &[Value::Int(1), Value::Int(-1), Value::None]).unwrap();
    lzma.decode_up_to(include_bytes!("../data/codecs.xz"), 1 << 26, &mut all).unwrap();
    let mut rest = all.as_slice();
    assert!(line(&mut rest).contains("numcodecs 0.16.6"));
    let mut found = Vec::new();
    while !rest.is_empty() {
        let parts: Vec<&str> = line(&mut rest).split('\t').collect();
        let mut head = parts[0].split(';');
        found.push(Case {
            name: head.next().unwrap().to_owned(),
            options: head.map(option).collect(),
            encodes: parts[1] == "encode",
            given: bytes(&mut rest, parts[2].parse().unwrap()),
            wanted: parts[3].parse().ok().map(|size| bytes(&mut rest, size)),
        });
    }
    found
}
