//! Finds the members of a few objects in a large JSON text without building anything of the others.
//!
//! Consolidated metadata holds the documents of a whole hierarchy in one object; who opens one array of it needs one
//! member. The text is checked as strictly as a full parse would, so that it is found or refused alike: [`index_members`]
//! gives up on whatever it is not sure of, and the caller then parses the text as a whole.
//!
//! The text is looked at in blocks of 64 bytes. Of each, a few masks tell where tokens begin and which bytes are inside
//! strings; the grammar then goes from token to token and never sees white space or what strings hold.

use crate::codecs::checksums::crc32;

/// Containers in each other that are followed; deeper ones are the caller's.
const MAX_DEPTH: u32 = 60;
/// Digits of a number; Python's parser refuses whole numbers of more than 4300.
const MAX_NUMBER: usize = 4000;
/// Bytes that are looked at together, one for each bit of a mask.
const BLOCK: usize = 64;
/// Numbers that describe one member in a level of [`index_members`].
pub const FIELDS: usize = 5;

/// Index the members of the root object and, along `chain`, of the objects inside it.
///
/// The first level describes the members of the root, the next those of its member `chain[0]`, and so on, as far as
/// they are there and objects. Each member takes [`FIELDS`] numbers: start and end of its key between the quotes, start
/// and end of its value, and the CRC-32 (of zlib) of the key's bytes. Of equal keys all are listed.
///
/// Returns `None` where the answer of a full parse may be another one: the text is not valid (the tokens `NaN`,
/// `Infinity` and `-Infinity` are), not an object, nested deeply, a key of those objects has an escape, or a key of
/// `chain` occurs twice.
pub fn index_members(text: &[u8], chain: &[&str]) -> Option<Vec<Vec<u32>>> {
    u32::try_from(text.len()).ok()?;
    let mut scanner = Scanner {
        text,
        at: 0,
        tokens: 0,
        block: 0,
        next_block: 0,
        in_string: 0,
        in_scalar: 0,
        in_escape: false,
        escapes: false,
        ascii: true,
        valid: true,
    };
    let mut levels = Vec::new();
    if scanner.next() != b'{' {
        return None;
    }
    scanner.object(chain, &mut levels, 1)?;
    let complete = scanner.next() == END && scanner.valid;
    (complete && (scanner.ascii || core::str::from_utf8(text).is_ok())).then_some(levels)
}

/// What stands for the end of the text where a byte is expected; no token begins with it.
const END: u8 = 0;

struct Scanner<'a> {
    text: &'a [u8],
    /// Where the token is that was found last.
    at: usize,
    /// Of the block at `block`, the tokens that have not been found yet.
    tokens: u64,
    block: usize,
    next_block: usize,
    /// All ones if the last block ended inside a string.
    in_string: u64,
    /// One if the last block ended inside a number or a word.
    in_scalar: u64,
    /// Whether the last block ended with a backslash that means the byte behind it.
    in_escape: bool,
    /// Whether there has been a backslash so far.
    escapes: bool,
    /// Whether all bytes so far are ASCII.
    ascii: bool,
    /// Whether no byte has been found that is valid nowhere, or not where it stands.
    valid: bool,
}

impl Scanner<'_> {
    /// Go to the next token, and return its first byte: a bracket, colon, comma, a quote at either end of a string, or
    /// the first of other bytes that stand together.
    #[inline(always)]
    fn next(&mut self) -> u8 {
        while self.tokens == 0 {
            if !self.look() {
                return END;
            }
        }
        self.at = self.block + self.tokens.trailing_zeros() as usize;
        self.tokens &= self.tokens - 1;
        self.byte(self.at)
    }

    #[inline(always)]
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(END)
    }

    /// Find the tokens of the next block; return whether there is one.
    fn look(&mut self) -> bool {
        self.block = self.next_block;
        let Some(rest) = self.text.get(self.block..).filter(|rest| !rest.is_empty() && self.valid) else {
            self.valid &= self.in_string == 0;
            self.at = self.text.len();
            return false;
        };
        let mut padded = [b' '; BLOCK];
        let bytes = rest.first_chunk().unwrap_or_else(|| {
            padded[..rest.len()].copy_from_slice(rest);
            &padded
        });
        let found = masks::of(bytes);
        self.ascii &= found.ascii;
        let quotes = found.quotes & !self.escaped(found.backslashes);
        let inside = prefix_xor(quotes) ^ self.in_string;
        self.in_string = if inside >> 63 == 1 { !0 } else { 0 };
        let scalars = !(found.spaces | found.operators | quotes | inside);
        let starts = scalars & !(scalars << 1 | self.in_scalar);
        self.in_scalar = scalars >> 63;
        if found.controls != 0 {
            self.valid &= found.controls & inside == 0 && only_white(bytes, found.controls);
        }
        self.tokens = found.operators & !inside | quotes | starts;
        self.next_block += BLOCK;
        true
    }

    /// Return which bytes stand behind a backslash that means them.
    #[inline(always)]
    fn escaped(&mut self, backslashes: u64) -> u64 {
        if backslashes == 0 && !self.in_escape {
            return 0;
        }
        self.escapes = true;
        let (mut escaped, mut at) = (u64::from(self.in_escape), u32::from(self.in_escape));
        self.in_escape = false;
        while at < 64 && backslashes >> at != 0 {
            at += (backslashes >> at).trailing_zeros() + 1;
            if at == 64 {
                self.in_escape = true;
            } else {
                escaped |= 1 << at;
            }
            at += 1;
        }
        escaped
    }

    /// Read an object whose brace has been found and whose members are listed.
    fn object(&mut self, chain: &[&str], levels: &mut Vec<Vec<u32>>, depth: u32) -> Option<()> {
        let level = levels.len();
        levels.push(Vec::new());
        let mut found = Vec::new();
        let mut followed = false;
        let mut byte = self.next();
        if byte == b'}' {
            return Some(());
        }
        loop {
            let first = self.at + 1;
            let text = self.text;
            if byte != b'"' || self.next() != b'"' {
                return None;
            }
            let name = text.get(first..self.at)?;
            let name_end = self.at;
            if (self.escapes && name.contains(&b'\\')) || self.next() != b':' {
                return None;
            }
            byte = self.next();
            let start = self.at;
            let on_chain = chain.first().is_some_and(|next| next.as_bytes() == name);
            if on_chain && core::mem::replace(&mut followed, true) {
                return None;
            }
            let end = if on_chain && byte == b'{' {
                self.object(&chain[1..], levels, depth + 1)?;
                self.at + 1
            } else {
                self.value(byte, depth)?
            };
            // below 2**32, as the text is
            found.extend([first as u32, name_end as u32, start as u32, end as u32, crc32(name)]);
            match self.next() {
                b',' => byte = self.next(),
                b'}' => {
                    levels[level] = found;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Go past a value whose first byte has been found, and return where it ends.
    fn value(&mut self, mut byte: u8, depth: u32) -> Option<usize> {
        let most = MAX_DEPTH.saturating_sub(depth);
        // of each container that is open, whether it is an object; the innermost is the lowest bit
        let mut objects = 0u64;
        let mut open = 0u32;
        loop {
            let mut end = match byte {
                b'"' => self.string()?,
                b'{' | b'[' => {
                    open += 1;
                    if open > most {
                        return None;
                    }
                    let object = byte == b'{';
                    objects = (objects << 1) | u64::from(object);
                    byte = self.next();
                    if byte != closing(object) {
                        if object {
                            byte = self.key(byte)?;
                        }
                        continue;
                    }
                    objects >>= 1;
                    open -= 1;
                    self.at + 1
                }
                _ => self.scalar(byte)?,
            };
            loop {
                if open == 0 {
                    return Some(end);
                }
                let object = objects & 1 == 1;
                byte = self.next();
                if byte == b',' {
                    byte = self.next();
                    if object {
                        byte = self.key(byte)?;
                    }
                    break;
                }
                if byte != closing(object) {
                    return None;
                }
                objects >>= 1;
                open -= 1;
                end = self.at + 1;
            }
        }
    }

    /// Go past a key and its colon, and return the first byte of the value.
    #[inline(always)]
    fn key(&mut self, byte: u8) -> Option<u8> {
        if byte != b'"' {
            return None;
        }
        self.string()?;
        (self.next() == b':').then(|| self.next())
    }

    /// Go past a string whose opening quote has been found, and return where it ends.
    #[inline(always)]
    fn string(&mut self) -> Option<usize> {
        let first = self.at + 1;
        if self.next() != b'"' {
            return None;
        }
        if self.escapes && !escapes_are_valid(self.text.get(first..self.at)?) {
            return None;
        }
        Some(self.at + 1)
    }

    /// Go past a number or a word, and return where it ends.
    #[inline(always)]
    fn scalar(&self, byte: u8) -> Option<usize> {
        let end = match byte {
            b'-' if self.byte(self.at + 1) == b'I' => self.word(b"-Infinity")?,
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            b'n' => self.word(b"null")?,
            b'N' => self.word(b"NaN")?,
            b'I' => self.word(b"Infinity")?,
            _ => return None,
        };
        // whatever goes on behind it is no token of its own
        matches!(self.byte(end), 0..=b' ' | b',' | b']' | b'}' | b':' | b'[' | b'{' | b'"').then_some(end)
    }

    fn word(&self, word: &[u8]) -> Option<usize> {
        self.text.get(self.at..)?.starts_with(word).then_some(self.at + word.len())
    }

    fn digits(&self, mut at: usize) -> Option<usize> {
        let start = at;
        while self.byte(at).is_ascii_digit() {
            at += 1;
        }
        (at > start).then_some(at)
    }

    fn number(&self) -> Option<usize> {
        let mut at = self.at + usize::from(self.byte(self.at) == b'-');
        at = if self.byte(at) == b'0' { at + 1 } else { self.digits(at)? };
        if self.byte(at) == b'.' {
            at = self.digits(at + 1)?;
        }
        if matches!(self.byte(at), b'e' | b'E') {
            at += 1 + usize::from(matches!(self.byte(at + 1), b'+' | b'-'));
            at = self.digits(at)?;
        }
        (at - self.at <= MAX_NUMBER).then_some(at)
    }
}

#[inline(always)]
fn closing(object: bool) -> u8 {
    if object { b'}' } else { b']' }
}

/// Turn marks into runs: each bit becomes the parity of those up to and with it.
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Return whether control characters are those that count as white space.
#[inline(always)]
fn only_white(bytes: &[u8; BLOCK], mut controls: u64) -> bool {
    let mut white = true;
    while controls != 0 {
        white &= matches!(bytes[controls.trailing_zeros() as usize], b'\t' | b'\n' | b'\r');
        controls &= controls - 1;
    }
    white
}

#[cold]
fn escapes_are_valid(inner: &[u8]) -> bool {
    let mut rest = inner;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let length = match rest.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') if rest.get(at + 2..at + 6).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => 6,
            _ => return false,
        };
        rest = &rest[at + length..];
    }
    true
}

/// Of a block, one bit for each byte of a kind. The lowest bit is that of the first byte.
struct Masks {
    quotes: u64,
    backslashes: u64,
    /// Brackets, colons and commas.
    operators: u64,
    /// Whatever is not above a space.
    spaces: u64,
    /// Of these, all but spaces.
    controls: u64,
    ascii: bool,
}

#[cfg(target_arch = "x86_64")]
mod masks {
    use super::{BLOCK, Masks};
    use core::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };

    #[inline(always)]
    pub fn of(bytes: &[u8; BLOCK]) -> Masks {
        let mut found = Masks { quotes: 0, backslashes: 0, operators: 0, spaces: 0, controls: 0, ascii: true };
        for part in 0..BLOCK / 16 {
            // SAFETY: every x86-64 has SSE2, and the load reads 16 bytes that lie within the 64, wherever these are.
            let [quotes, backslashes, operators, spaces, controls, beyond] = unsafe {
                let bytes = _mm_loadu_si128(bytes.as_ptr().add(part * 16).cast::<__m128i>());
                let is = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
                let upper = _mm_or_si128(bytes, _mm_set1_epi8(0x20)); // brackets become braces
                let braces = _mm_or_si128(
                    _mm_cmpeq_epi8(upper, _mm_set1_epi8(0x7b)),
                    _mm_cmpeq_epi8(upper, _mm_set1_epi8(0x7d)),
                );
                let most = |byte: u8| _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(byte as i8)), bytes);
                let operators = _mm_or_si128(braces, _mm_or_si128(is(b':'), is(b',')));
                [is(b'"'), is(b'\\'), operators, most(b' '), most(0x1f), bytes]
                    .map(|mask| u64::from(_mm_movemask_epi8(mask) as u16) << (part * 16))
            };
            found.ascii &= beyond == 0;
            found.quotes |= quotes;
            found.backslashes |= backslashes;
            found.operators |= operators;
            found.spaces |= spaces;
            found.controls |= controls;
        }
        found
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod masks {
    use super::{BLOCK, Masks};

    pub fn of(bytes: &[u8; BLOCK]) -> Masks {
        let mut found = Masks { quotes: 0, backslashes: 0, operators: 0, spaces: 0, controls: 0, ascii: true };
        for (at, byte) in bytes.iter().enumerate() {
            let bit = 1 << at;
            match byte {
                b'"' => found.quotes |= bit,
                b'\\' => found.backslashes |= bit,
                b'{' | b'}' | b'[' | b']' | b':' | b',' => found.operators |= bit,
                b' ' => found.spaces |= bit,
                0..=0x1f => {
                    found.spaces |= bit;
                    found.controls |= bit;
                }
                0x80.. => found.ascii = false,
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str, chain: &[&str]) -> Option<Vec<Vec<(String, String)>>> {
        let levels = index_members(text.as_bytes(), chain)?;
        let slice = |a: u32, b: u32| text[a as usize..b as usize].to_owned();
        let read =
            |level: Vec<u32>| level.chunks(FIELDS).map(|m| (slice(m[0], m[1]), slice(m[2], m[3]))).collect::<Vec<_>>();
        Some(levels.into_iter().map(read).collect())
    }

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn members_are_listed_along_the_chain() {
        let text = "{ \"a\" : 1,\n\"m\": {\"x\": {\"m\": 2}, \"y\": [\"}\"]\t} , \"b\":\"\"}\n";
        assert_eq!(keys(text, &[]), Some(vec![pairs(&[("a", "1"), ("m", &text[16..44]), ("b", "\"\"")])]));
        assert_eq!(keys(text, &["m"]).map(|l| l[1].clone()), Some(pairs(&[("x", "{\"m\": 2}"), ("y", "[\"}\"]")])));
        assert_eq!(keys(text, &["m", "x"]).map(|l| l[2].clone()), Some(pairs(&[("m", "2")])));
        assert_eq!(keys(text, &["a"]).map(|l| l.len()), Some(1));
        assert_eq!(keys(text, &["none"]).map(|l| l.len()), Some(1));
        assert_eq!(keys("{}", &["m"]), Some(vec![vec![]]));
    }

    #[test]
    fn strings_do_not_fool_it() {
        let text = r#"{"a":"\"m\":{\\","m":{"k\u0041":1}}"#;
        assert_eq!(keys(text, &[]).map(|l| l[0].len()), Some(2));
        assert_eq!(keys(text, &["m"]), None); // an escape in a key that is listed
        assert_eq!(keys(r#"{"a\/b":1}"#, &[]), None);
        assert_eq!(keys(r#"{"é":"ü\ud800"}"#, &[]), Some(vec![pairs(&[("é", r#""ü\ud800""#)])]));
    }

    #[test]
    fn a_key_of_the_chain_may_occur_only_once_there() {
        assert_eq!(keys(r#"{"m":{},"m":{"x":1}}"#, &["m"]), None);
        assert_eq!(keys(r#"{"m":{"x":1,"x":2}}"#, &["m"]).map(|l| l[1].len()), Some(2));
        assert_eq!(keys(r#"{"a":{"m":1,"m":2},"m":{}}"#, &["m"]).map(|l| l.len()), Some(2));
    }

    #[test]
    fn it_takes_the_values_that_a_parser_takes() {
        let good = "0 -0 12 -1.5 1e9 1E+05 0.1e-3 true false null NaN Infinity -Infinity \"\" \"\\n\\u00e9\" [] {} [[],{}] \
                    [1,[2]] {\"a\":{\"b\":[{}]}}";
        for value in good.split(' ') {
            assert_eq!(keys(&format!("{{\"v\":{value}}}"), &[]), Some(vec![pairs(&[("v", value)])]), "{value}");
        }
        let bad = "01 - 1. .5 1e +1 tru nul nan -NaN Inf [1,] [,1] [1 {\"a\"} {\"a\":} {\"a\":1,} {1:2} [} {] [{]} ' \
                   \"\\x\" \"\\u12g4\" \"a 1,2: ] } [[] 1_0 0x1 --1 1e5.0 \"\\";
        for value in bad.split(' ') {
            assert_eq!(keys(&format!("{{\"v\":{value}}}"), &[]), None, "{value}");
            assert_eq!(keys(&format!("{{\"v\":[{value}]}}"), &[]), None, "{value}");
        }
    }

    #[test]
    fn a_text_that_is_cut_or_changed_is_refused() {
        let text = r#"{"m":{"a":[1,2,{"b":"c"}],"d":-1.5e3},"n":null}"#;
        assert!(index_members(text.as_bytes(), &["m"]).is_some());
        for end in 0..text.len() {
            assert_eq!(index_members(&text.as_bytes()[..end], &["m"]), None, "{end}");
        }
        for position in 0..text.len() {
            for byte in [0, b'"', b'{', b'}', b'[', b']', b',', b':', b'\\', b'\n', 0x80, 0xff] {
                let mut changed = text.as_bytes().to_vec();
                changed[position] = byte;
                let _ = index_members(&changed, &["m"]); // ends, whatever it says
            }
        }
        for text in ["", " ", "[]", "1", "{}{}", "{} 1", "\u{feff}{}", "{\"a\":\"\n\"}", "{\"a\":\"\u{1f}bcdefghi\"}"] {
            assert_eq!(index_members(text.as_bytes(), &[]), None, "{text:?}");
        }
        assert_eq!(index_members(b"{\"a\":\"\xff\"}", &[]), None);
    }

    #[test]
    fn depth_and_digits_are_limited() {
        let nested = |depth| format!("{{\"v\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(index_members(nested(50).as_bytes(), &[]).is_some());
        assert!(index_members(nested(64).as_bytes(), &[]).is_none());
        assert!(index_members(nested(1_000_000).as_bytes(), &[]).is_none());
        let number = |digits| format!("{{\"v\":{}}}", "1".repeat(digits));
        assert!(index_members(number(4000).as_bytes(), &[]).is_some());
        assert!(index_members(number(5000).as_bytes(), &[]).is_none());
    }

    #[test]
    fn brackets_in_strings_are_no_levels() {
        for inner in [r#""[{[{""#, r#""\"[""#, r#""\\",[]"#, "[[]]", "{\"[\":[]}"] {
            let flat = vec![inner; 100].join(",");
            assert!(index_members(format!("{{\"v\":[{flat}]}}").as_bytes(), &[]).is_some(), "{inner}");
            let deep = format!("{{\"v\":[{flat},{}{}]}}", "[".repeat(60), "]".repeat(60));
            assert!(index_members(deep.as_bytes(), &[]).is_none(), "{inner}");
        }
    }

    #[test]
    fn words_for_numbers_are_words_of_their_own() {
        let text = r#"{"a NaN b":[ NaN,-Infinity ,Infinity],"m":{"c, NaN ":"[NaN]"}}"#;
        let root = pairs(&[("a NaN b", "[ NaN,-Infinity ,Infinity]"), ("m", r#"{"c, NaN ":"[NaN]"}"#)]);
        assert_eq!(keys(text, &["m"]), Some(vec![root, pairs(&[("c, NaN ", "\"[NaN]\"")])]));
        assert_eq!(index_members(b"{\"123456789\":0}", &[]).map(|levels| levels[0][4]), Some(0xCBF4_3926)); // zlib's
        for bad in ["1NaN", "NaN1", "1 NaN", "NaN NaN", "-NaN", "+Infinity", "- Infinity", "NaN\u{b}"] {
            assert_eq!(keys(&format!("{{\"v\":{bad}}}"), &[]), None, "{bad}");
        }
        assert_eq!(keys("{ NaN :1}", &[]), None);
    }

    #[test]
    fn blocks_of_bytes_miss_nothing() {
        for length in 0..140 {
            let inner = "x".repeat(length);
            for end in ["", "é", "\\\\", "\\\"", "\\u00e9\\\\\\\\"] {
                let text = format!("{{{}\"k\":\"{inner}{end}\"}}", " ".repeat(length));
                assert_eq!(keys(&text, &[]).map(|l| l[0][0].1.len()), Some(length + end.len() + 2));
            }
            for bad in ["\u{0}", "\u{1f}", "\n"] {
                assert_eq!(index_members(format!("{{\"k\":\"{inner}{bad}{inner}\"}}").as_bytes(), &[]), None);
            }
        }
    }
}
