//! Splits a JSON text into tokens. Called by `json`.
//!
//! The text is scanned in blocks of 64 bytes: bit masks show where tokens begin and which bytes are inside strings, so
//! that the caller goes from token to token and skips white space and the content of strings.

use super::masks::{BLOCK, masks};

/// The byte that stands for the end of the text; no token begins with it.
pub const END: u8 = 0;

/// The state of the tokenizer.
pub struct Tokens<'a> {
    pub text: &'a [u8],
    /// Position of the current token.
    pub at: usize,
    /// The tokens of the block at `block` that have not been returned yet.
    tokens: u64,
    block: usize,
    next_block: usize,
    /// All ones if the last block ended inside a string.
    in_string: u64,
    /// One if the last block ended inside a number or a word.
    in_scalar: u64,
    /// Whether the last block ended with a backslash that escapes the next byte.
    in_escape: bool,
    /// Whether there has been a backslash so far.
    pub escapes: bool,
    /// Whether all bytes so far are ASCII.
    pub ascii: bool,
    /// Whether all bytes so far are valid in their place.
    pub valid: bool,
}

impl<'a> Tokens<'a> {
    /// Begin at the start of a text.
    pub fn new(text: &'a [u8]) -> Tokens<'a> {
        Tokens {
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
        }
    }

    /// Go to the next token, and return its first byte: a bracket, colon or comma, the quote at either end of a string, or
    /// the first byte of a number or word.
    #[inline(always)]
    pub fn next(&mut self) -> u8 {
        while self.tokens == 0 {
            if !self.scan_block() {
                return END;
            }
        }
        self.at = self.block + self.tokens.trailing_zeros() as usize;
        self.tokens &= self.tokens - 1;
        self.byte(self.at)
    }

    /// Return the byte at a position, `END` beyond the text.
    #[inline(always)]
    pub fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(END)
    }

    /// Find the tokens of the next block; return `false` at the end of the text.
    fn scan_block(&mut self) -> bool {
        self.block = self.next_block;
        let Some(rest) = self.text.get(self.block..).filter(|rest| !rest.is_empty() && self.valid) else {
            self.valid &= self.in_string == 0;
            self.at = self.text.len();
            return false;
        };
        // the kinds of the bytes; the last block is padded with spaces
        let mut padded = [b' '; BLOCK];
        let bytes = rest.first_chunk().unwrap_or_else(|| {
            padded[..rest.len()].copy_from_slice(rest);
            &padded
        });
        let found = masks(bytes);
        self.ascii &= found.ascii;
        // strings: between the quotes that are not escaped
        let quotes = found.quotes & !self.escaped(found.backslashes);
        let inside = prefix_xor(quotes) ^ self.in_string;
        self.in_string = if inside >> 63 == 1 { !0 } else { 0 };
        // numbers and words: everything else, of which the first byte is a token
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

    /// Return the bytes that a backslash escapes.
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
}

/// Return the prefix parity: each bit becomes the parity of all bits up to and including it.
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Return whether all control characters are white space.
#[inline(always)]
fn only_white(bytes: &[u8; BLOCK], mut controls: u64) -> bool {
    let mut white = true;
    while controls != 0 {
        white &= matches!(bytes[controls.trailing_zeros() as usize], b'\t' | b'\n' | b'\r');
        controls &= controls - 1;
    }
    white
}
