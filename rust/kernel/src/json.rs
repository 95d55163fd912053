//! Finds the members of a few objects in a large JSON text without building anything of the others.
//!
//! Consolidated metadata holds the documents of a whole hierarchy in one object; who opens one array of it needs one
//! member. The text is checked as strictly as a full parse would, so that it is found or refused alike: [`index_members`]
//! gives up on whatever it is not sure of, and the caller then parses the text as a whole.

/// Containers in each other that are followed; deeper ones are the caller's.
const MAX_DEPTH: u32 = 60;
/// Digits of a number; Python's parser refuses whole numbers of more than 4300.
const MAX_NUMBER: usize = 4000;
/// Bytes that are looked at together.
const BLOCK: usize = 16;
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
    if !text.is_ascii() {
        core::str::from_utf8(text).ok()?;
    }
    let mut scanner = Scanner { text, at: 0 };
    let mut levels = Vec::new();
    scanner.space();
    scanner.object(chain, &mut levels, 1)?;
    scanner.space();
    (scanner.at == text.len()).then_some(levels)
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    #[inline(always)]
    fn peek(&self) -> u8 {
        // NUL is valid nowhere in a text, so it can stand for the end
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// Return the bytes from here on that are looked at together, unless the text ends before.
    #[inline(always)]
    fn block(&self) -> Option<&[u8; BLOCK]> {
        self.text.get(self.at..)?.first_chunk()
    }

    #[inline(always)]
    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == byte).then(|| self.at += 1)
    }

    #[inline(always)]
    fn space(&mut self) {
        if self.peek() > b' ' {
            return;
        }
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
            // indentation comes in long runs
            while let Some(block) = self.block() {
                let run = find::other_than_space(block);
                self.at += run;
                if run < BLOCK {
                    break;
                }
            }
        }
    }

    /// Read an object whose members are listed.
    fn object(&mut self, chain: &[&str], levels: &mut Vec<Vec<u32>>, depth: u32) -> Option<()> {
        let level = levels.len();
        levels.push(Vec::new());
        let mut found = Vec::new();
        let mut followed = false;
        self.take(b'{')?;
        self.space();
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            self.take(b'"')?;
            let first = self.at;
            if self.string()? {
                return None;
            }
            let key = first..self.at - 1;
            self.space();
            self.take(b':')?;
            self.space();
            let start = self.at;
            let name = &self.text[key.clone()];
            match chain.split_first() {
                Some((next, rest)) if next.as_bytes() == name => {
                    if followed {
                        return None;
                    }
                    followed = true;
                    if self.peek() == b'{' {
                        self.object(rest, levels, depth + 1)?;
                    } else {
                        self.value(depth)?;
                    }
                }
                _ => self.value(depth)?,
            }
            // below 2**32, as the text is
            found.extend([key.start as u32, key.end as u32, start as u32, self.at as u32, crc32(name)]);
            self.space();
            if self.take(b',').is_none() {
                self.take(b'}')?;
                levels[level] = found;
                return Some(());
            }
            self.space();
        }
    }

    /// Go past a value, whatever it holds.
    fn value(&mut self, depth: u32) -> Option<()> {
        let most = MAX_DEPTH.saturating_sub(depth);
        // of each container that is open, whether it is an object; the innermost is the lowest bit
        let mut objects = 0u64;
        let mut open = 0u32;
        loop {
            let byte = self.peek();
            self.at += 1;
            match byte {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    open += 1;
                    if open > most {
                        return None;
                    }
                    let object = byte == b'{';
                    objects = (objects << 1) | u64::from(object);
                    self.space();
                    if self.peek() != if object { b'}' } else { b']' } {
                        if object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                b'-' | b'0'..=b'9' => self.number(byte)?,
                b't' => self.word_of(b"rue")?,
                b'f' => self.word_of(b"alse")?,
                b'n' => self.word_of(b"ull")?,
                b'N' => self.word_of(b"aN")?,
                b'I' => self.word_of(b"nfinity")?,
                _ => return None,
            }
            // a value has ended, or stands empty before its bracket: go on behind it, and close what ends there
            loop {
                if open == 0 {
                    return Some(());
                }
                self.space();
                let object = objects & 1 == 1;
                let byte = self.peek();
                self.at += 1;
                if byte == b',' {
                    self.space();
                    if object {
                        self.key()?;
                    }
                    break;
                }
                if byte != if object { b'}' } else { b']' } {
                    return None;
                }
                objects >>= 1;
                open -= 1;
            }
        }
    }

    /// Go past a key and its colon, up to the value.
    #[inline(always)]
    fn key(&mut self) -> Option<()> {
        self.take(b'"')?;
        self.string()?;
        self.space();
        self.take(b':')?;
        self.space();
        Some(())
    }

    fn word_of(&mut self, rest: &[u8]) -> Option<()> {
        self.text.get(self.at..)?.starts_with(rest).then(|| self.at += rest.len())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// Go past a number of which the first byte has been taken.
    fn number(&mut self, first: u8) -> Option<()> {
        let start = self.at;
        let mut lead = first;
        if first == b'-' {
            lead = self.peek();
            self.at += 1;
            if lead == b'I' {
                return self.word_of(b"nfinity");
            }
        }
        match lead {
            b'0' => {}
            b'1'..=b'9' => {
                let _ = self.digits();
            }
            _ => return None,
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        (self.at - start <= MAX_NUMBER).then_some(())
    }

    /// Go past what follows a backslash.
    #[cold]
    fn escape(&mut self) -> Option<()> {
        let byte = self.peek();
        self.at += 1;
        match byte {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => {
                let digits = self.text.get(self.at..)?.first_chunk::<4>()?;
                self.at += 4;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(())
            }
            _ => None,
        }
    }

    /// Go past a string whose opening quote has been taken; return whether it has an escape.
    #[inline(always)]
    fn string(&mut self) -> Option<bool> {
        let mut escapes = false;
        loop {
            while let Some(block) = self.block() {
                let run = find::end_of_text(block);
                self.at += run;
                if run < BLOCK {
                    break;
                }
            }
            let byte = self.peek();
            self.at += 1;
            match byte {
                b'"' => return Some(escapes),
                b'\\' => {
                    escapes = true;
                    self.escape()?;
                }
                0..=0x1f => return None,
                _ => {}
            }
        }
    }
}

/// What is looked for in a block of bytes; each function returns where it is first, or [`BLOCK`].
#[cfg(target_arch = "x86_64")]
mod find {
    use super::BLOCK;
    use core::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };

    #[inline(always)]
    pub fn other_than_space(block: &[u8; BLOCK]) -> usize {
        // SAFETY: every x86-64 has SSE2, and the load reads the 16 bytes of `block`, wherever they lie.
        let spaces = unsafe {
            let bytes = _mm_loadu_si128(block.as_ptr().cast::<__m128i>());
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x20)))
        };
        (!spaces).trailing_zeros() as usize
    }

    /// Look for a quote, a backslash or a control character.
    #[inline(always)]
    pub fn end_of_text(block: &[u8; BLOCK]) -> usize {
        // SAFETY: as above.
        let ends = unsafe {
            let bytes = _mm_loadu_si128(block.as_ptr().cast::<__m128i>());
            let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x22));
            let backslashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x5c));
            let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, backslashes), controls))
        };
        (ends | 1 << BLOCK).trailing_zeros() as usize
    }
}

/// What is looked for in a block of bytes; each function returns where it is first, or [`BLOCK`].
#[cfg(not(target_arch = "x86_64"))]
mod find {
    use super::BLOCK;

    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;

    #[inline(always)]
    pub fn other_than_space(block: &[u8; BLOCK]) -> usize {
        first(block, |word| word ^ (ONES * 0x20))
    }

    /// Look for a quote, a backslash or a control character.
    #[inline(always)]
    pub fn end_of_text(block: &[u8; BLOCK]) -> usize {
        first(block, |word| {
            zeros(word ^ (ONES * 0x22)) | zeros(word ^ (ONES * 0x5c)) | (word.wrapping_sub(ONES * 0x20) & !word & HIGHS)
        })
    }

    /// Return the place of the first byte in which a bit is marked; above it others may be marked wrongly.
    fn first(block: &[u8; BLOCK], mark: impl Fn(u64) -> u64) -> usize {
        for (index, bytes) in block.chunks_exact(8).enumerate() {
            let marks = mark(bytes.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte)));
            if marks != 0 {
                return index * 8 + marks.trailing_zeros() as usize / 8;
            }
        }
        BLOCK
    }

    fn zeros(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word & HIGHS
    }
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xEDB8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| CRC_TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize] ^ (crc >> 8))
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
    fn blocks_of_bytes_miss_nothing() {
        for length in 0..40 {
            let inner = "x".repeat(length);
            for end in ["", "é", "\\\\", "\\\""] {
                let text = format!("{{{}\"k\":\"{inner}{end}\"}}", " ".repeat(length));
                assert_eq!(keys(&text, &[]).map(|l| l[0][0].1.len()), Some(length + end.len() + 2));
            }
            for bad in ["\u{0}", "\u{1f}", "\n"] {
                assert_eq!(index_members(format!("{{\"k\":\"{inner}{bad}{inner}\"}}").as_bytes(), &[]), None);
            }
        }
    }

    #[test]
    fn the_checksum_is_that_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
