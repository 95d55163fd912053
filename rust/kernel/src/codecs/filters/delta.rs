//! `delta`: the first element, then the difference between each element and the one before.

use super::super::Codec;
use super::super::output_buffer::{KnownSize, KnownSizeCodec, OutputBuffer};
use super::numbers::{Computed, Conversion, Dtype, Kind, Number, elements, map};
use super::{dtype, resized, unsupported};
use crate::{Error, Result};

const NAME: &str = "delta";

/// A loop over all elements; it returns whether the first one fits its type.
type Loop = Box<dyn Fn(&[u8], &mut OutputBuffer<'_>) -> bool + Send + Sync>;

/// The loops of both directions for one pair of types.
struct Loops {
    encode: Loop,
    decode: Loop,
}

struct Delta {
    plain: Dtype,
    stored: Dtype,
    loops: Loops,
}

pub(in crate::codecs) fn build(plain: &str, stored: &str) -> Result<Box<dyn Codec>> {
    let (plain, stored) = (dtype(NAME, plain)?, dtype(NAME, stored)?);
    let loops = match (plain.kind, plain.size, stored == plain) {
        (Kind::Float, 4, true) => same(plain.swapped, |one: f32, other| one - other, |one, other| one + other),
        (Kind::Float, 8, true) => same(plain.swapped, |one: f64, other| one - other, |one, other| one + other),
        (Kind::Float, 2, _) => None,
        (_, 1, true) => same(plain.swapped, u8::wrapping_sub, u8::wrapping_add),
        (_, 2, true) => same(plain.swapped, u16::wrapping_sub, u16::wrapping_add),
        (_, 4, true) => same(plain.swapped, u32::wrapping_sub, u32::wrapping_add),
        (_, 8, true) => same(plain.swapped, u64::wrapping_sub, u64::wrapping_add),
        _ => mixed(plain, stored),
    };
    let loops = loops.ok_or_else(|| unsupported(NAME))?;
    Ok(Box::new(KnownSize(Delta { plain, stored, loops })))
}

/// Make the loops for elements that keep their type.
fn same<A: Number + 'static>(
    swapped: bool,
    minus: impl Fn(A, A) -> A + Send + Sync + 'static,
    plus: impl Fn(A, A) -> A + Send + Sync + 'static,
) -> Option<Loops> {
    Some(Loops {
        encode: Box::new(move |data, buffer| {
            differences(data, swapped, buffer, &minus);
            true
        }),
        decode: Box::new(move |data, buffer| {
            sums(data, swapped, buffer, &plus);
            true
        }),
    })
}

fn differences<A: Number>(data: &[u8], swapped: bool, buffer: &mut OutputBuffer<'_>, minus: impl Fn(A, A) -> A) {
    let (first, rest) = data.split_at(data.len().min(size_of::<A>()));
    buffer.write(first);
    let order = |value: A| if swapped { value.swapped() } else { value };
    let pairs = elements(data).zip(elements(rest));
    A::write_each(pairs.map(|(last, this)| order(minus(order(this), order(last)))), buffer);
}

fn sums<A: Number>(data: &[u8], swapped: bool, buffer: &mut OutputBuffer<'_>, plus: impl Fn(A, A) -> A) {
    let mut sum = None;
    map(data, swapped, buffer, swapped, |value: A| {
        let next = sum.map_or(value, |last| plus(last, value));
        sum = Some(next);
        next
    });
}

/// Make the loops for elements that are stored as another type; `None` if NumPy's result is not certain.
///
/// NumPy computes in the common type of both. For two integer types this does not matter, since results wrap around,
/// unless their common type is a floating-point type.
fn mixed(plain: Dtype, stored: Dtype) -> Option<Loops> {
    let long = |dtype: Dtype| dtype.kind == Kind::Uint && dtype.size == 8;
    match (plain.kind, stored.kind) {
        (Kind::Float, Kind::Float) if (plain.size, stored.size) == (4, 4) => {
            through(plain, stored, |one: f32, other| one - other, |one, other| one + other)
        }
        (Kind::Float, Kind::Float) => {
            // differences of single precision are rounded to single precision
            if plain.size == 4 {
                let minus = |one: f64, other: f64| f64::from(one as f32 - other as f32);
                through(plain, stored, minus, |one, other| one + other)
            } else {
                through(plain, stored, |one: f64, other| one - other, |one, other| one + other)
            }
        }
        (Kind::Float, _) | (_, Kind::Float) => None,
        (one, other) if one != other && (long(plain) || long(stored)) => None,
        _ => through(plain, stored, i64::wrapping_sub, i64::wrapping_add),
    }
}

/// Make the loops for one pair of types, which compute in the type `C`.
fn through<C: Computed + PartialEq + Send + Sync + 'static>(
    plain: Dtype,
    stored: Dtype,
    minus: impl Fn(C, C) -> C + Send + Sync + 'static,
    plus: impl Fn(C, C) -> C + Send + Sync + 'static,
) -> Option<Loops> {
    let (forth, back) = (Conversion::<C>::new(plain, stored)?, Conversion::<C>::new(stored, plain)?);
    let (wrap, forth_again) = (Conversion::<C>::new(plain, plain)?, Conversion::<C>::new(stored, stored)?);
    // encoding remembers the last value of the block before
    let is_float = stored.kind == Kind::Float;
    let encode = move |data: &[u8], buffer: &mut OutputBuffer<'_>| {
        let (mut last, mut fits): (Option<C>, _) = (None, true);
        forth.run(data, buffer, |values| {
            if let (None, [first, ..]) = (last, &*values) {
                // NumPy assigns the first element separately, and refuses integers that do not fit
                let mut stored = [*first];
                forth_again.round_trip(&mut stored);
                fits = is_float || stored[0] == *first;
            }
            let next = values.last().copied();
            for index in (1..values.len()).rev() {
                values[index] = minus(values[index], values[index - 1]);
            }
            if let (Some(last), [first, ..]) = (last, &mut *values) {
                *first = minus(*first, last);
            }
            last = next;
            wrap.round_trip(values);
        });
        fits
    };
    // decoding sums over all blocks
    let decode = move |data: &[u8], buffer: &mut OutputBuffer<'_>| {
        let mut sum: Option<C> = None;
        back.run(data, buffer, |values| {
            for value in values {
                let next = sum.map_or(*value, |sum| plus(sum, *value));
                *value = next;
                sum = Some(next);
            }
        });
        true
    };
    Some(Loops { encode: Box::new(encode), decode: Box::new(decode) })
}

impl KnownSizeCodec for Delta {
    fn name(&self) -> &str {
        NAME
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        resized(NAME, size, self.plain.size, self.stored.size)
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        resized(NAME, data.len(), self.stored.size, self.plain.size)
    }

    fn encode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
        if (self.loops.encode)(data, buffer) {
            Ok(())
        } else {
            Err(Error::codec(NAME, "the first element does not fit"))
        }
    }

    fn decode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
        (self.loops.decode)(data, buffer);
        Ok(())
    }
}
