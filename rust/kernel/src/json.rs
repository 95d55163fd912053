//! Locates the members of a few objects in a large JSON text without parsing the others. Called by
//! `tegula.formats.located.members` through the Python module.
//!
//! Consolidated metadata holds the documents of a whole hierarchy in one object, and opening an array needs only one of
//! its members. The text is checked as strictly as by a full parse, so that both accept and refuse the same texts:
//! [`index_members`] returns `None` if it is not certain about a text, and the caller then parses all of it.

mod masks;
mod tokens;

use crate::codecs::checksums::crc32;
use tokens::{END, Tokens};

/// Deepest nesting that this module follows; the caller parses deeper texts.
const MAX_DEPTH: u32 = 60;
/// Longest number in bytes; Python's parser refuses integers of more than 4300 digits.
const MAX_NUMBER: usize = 4000;
/// Number of fields of one member in a level of [`index_members`].
pub const FIELDS: usize = 5;

/// Index the members of the root object and, along `chain`, of the objects inside it.
///
/// The first level lists the members of the root, the next those of its member `chain[0]`, and so on, as long as they
/// exist and are objects. Each member takes [`FIELDS`] numbers: start and end of its key between the quotes, start and
/// end of its value, and the CRC-32 (of zlib) of the bytes of the key. All members with equal keys are listed.
///
/// Returns `None` where the result of a full parse may differ: the text is not valid (the tokens `NaN`, `Infinity` and
/// `-Infinity` are), not an object, nested too deeply, a key of these objects has an escape, or a key of `chain` occurs
/// twice.
pub fn index_members(text: &[u8], chain: &[&str]) -> Option<Vec<Vec<u32>>> {
    u32::try_from(text.len()).ok()?;
    let mut tokens = Tokens::new(text);
    let mut levels = Vec::new();
    if tokens.next() != b'{' {
        return None;
    }
    tokens.object(chain, &mut levels, 1)?;
    let complete = tokens.next() == END && tokens.valid;
    (complete && (tokens.ascii || std::str::from_utf8(text).is_ok())).then_some(levels)
}

impl Tokens<'_> {
    /// Read an object after its brace, and list its members as one level.
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
            // the key
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
            // the value: another level if the chain leads there
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
            // all positions are below 2**32
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

    /// Skip a value, whose first byte is given, and return its end.
    fn value(&mut self, mut byte: u8, depth: u32) -> Option<usize> {
        let most = MAX_DEPTH.saturating_sub(depth);
        // a stack of bits for the open containers: 1 for an object; the innermost is the lowest bit
        let mut objects = 0u64;
        let mut open = 0u32;
        loop {
            // a string, number or word, or the start of a container
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
            // what follows a value: a comma and the next value, or the ends of containers
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

    /// Skip a key and its colon, and return the first byte of the value.
    #[inline(always)]
    fn key(&mut self, byte: u8) -> Option<u8> {
        if byte != b'"' {
            return None;
        }
        self.string()?;
        (self.next() == b':').then(|| self.next())
    }

    /// Skip a string after its opening quote, and return its end.
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

    /// Skip a number or a word, and return its end.
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
        // a token must follow, not the rest of an invalid word
        matches!(self.byte(end), 0..=b' ' | b',' | b']' | b'}' | b':' | b'[' | b'{' | b'"').then_some(end)
    }

    /// Return the end of a word if the current token is this word.
    fn word(&self, word: &[u8]) -> Option<usize> {
        self.text.get(self.at..)?.starts_with(word).then_some(self.at + word.len())
    }

    /// Skip one or more digits.
    fn digits(&self, mut at: usize) -> Option<usize> {
        let start = at;
        while self.byte(at).is_ascii_digit() {
            at += 1;
        }
        (at > start).then_some(at)
    }

    /// Return the end of the number at the current token.
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

/// Return the closing bracket of an object or an array.
#[inline(always)]
fn closing(object: bool) -> u8 {
    if object { b'}' } else { b']' }
}

/// Return whether all escapes in the content of a string are valid.
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
