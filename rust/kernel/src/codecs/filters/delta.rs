//! `delta`: the first element, then the difference of each to the one before.

use super::super::room::{Resize, Resized, Room};
use super::super::{Codec, Value};
use super::numbers::{Computed, Conversion, Dtype, Kind, Number, map};
use super::{dtype, resized, unsupported};
use crate::{Error, Result};

const NAME: &str = "delta";

/// A loop over all elements; it says whether the first one fits.
type Way = Box<dyn Fn(&[u8], Room<'_>) -> bool + Send + Sync>;

/// The two directions for one pair of types.
struct Ways {
    encode: Way,
    decode: Way,
}

struct Delta {
    plain: Dtype,
    stored: Dtype,
    ways: Ways,
}

pub(super) fn build(options: &[Value]) -> Result<Box<dyn Codec>> {
    let [plain, stored] = options else { return Err(unsupported(NAME)) };
    let (plain, stored) = (dtype(NAME, plain)?, dtype(NAME, stored)?);
    let ways = match (plain.kind, plain.size, stored == plain) {
        (Kind::Float, 4, true) => same(plain.swapped, |one: f32, other| one - other, |one, other| one + other),
        (Kind::Float, 8, true) => same(plain.swapped, |one: f64, other| one - other, |one, other| one + other),
        (Kind::Float, 2, _) => None,
        (_, 1, true) => same(plain.swapped, u8::wrapping_sub, u8::wrapping_add),
        (_, 2, true) => same(plain.swapped, u16::wrapping_sub, u16::wrapping_add),
        (_, 4, true) => same(plain.swapped, u32::wrapping_sub, u32::wrapping_add),
        (_, 8, true) => same(plain.swapped, u64::wrapping_sub, u64::wrapping_add),
        _ => mixed(plain, stored),
    };
    let ways = ways.ok_or_else(|| unsupported(NAME))?;
    Ok(Box::new(Resized(Delta { plain, stored, ways })))
}

/// Make the loops for elements that are stored as they are.
fn same<A: Number + 'static>(
    swapped: bool,
    minus: impl Fn(A, A) -> A + Send + Sync + 'static,
    plus: impl Fn(A, A) -> A + Send + Sync + 'static,
) -> Option<Ways> {
    Some(Ways {
        encode: Box::new(move |data, room| {
            differences(data, swapped, room, &minus);
            true
        }),
        decode: Box::new(move |data, room| {
            sums(data, swapped, room, &plus);
            true
        }),
    })
}

fn differences<A: Number>(data: &[u8], swapped: bool, mut room: Room<'_>, minus: impl Fn(A, A) -> A) {
    let count = data.len() / size_of::<A>();
    assert!(data.len() <= room.len(), "the room is large enough");
    let first = data.len().min(size_of::<A>());
    room.put(&data[..first]);
    let (from, to) = (data.as_ptr().cast::<A>(), room.start().cast::<A>());
    let order = |value: A| if swapped { value.swapped() } else { value };
    for index in 1..count {
        // SAFETY: `index` is less than the elements in `data`, for which there is room; any bits are a number.
        unsafe {
            let (this, last) = (from.add(index).read_unaligned(), from.add(index - 1).read_unaligned());
            to.add(index).write_unaligned(order(minus(order(this), order(last))));
        }
    }
}

fn sums<A: Number>(data: &[u8], swapped: bool, room: Room<'_>, plus: impl Fn(A, A) -> A) {
    let sum = std::cell::Cell::new(None);
    map(data, swapped, room, swapped, |value: A| {
        let next = sum.get().map_or(value, |last| plus(last, value));
        sum.set(Some(next));
        next
    });
}

/// Make the loops for elements that are stored as another type.
///
/// NumPy adds up in the type that both can be promoted to. Of two types of integers that does not matter, as what does
/// not fit the result is cut off, unless they have floating-point numbers in common only.
fn mixed(plain: Dtype, stored: Dtype) -> Option<Ways> {
    let long = |dtype: Dtype| dtype.kind == Kind::Uint && dtype.size == 8;
    match (plain.kind, stored.kind) {
        (Kind::Float, Kind::Float) if (plain.size, stored.size) == (4, 4) => {
            through(plain, stored, |one: f32, other| one - other, |one, other| one + other)
        }
        (Kind::Float, Kind::Float) => {
            // differences of single precision are rounded to it
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

fn through<C: Computed + PartialEq + Send + Sync + 'static>(
    plain: Dtype,
    stored: Dtype,
    minus: impl Fn(C, C) -> C + Send + Sync + 'static,
    plus: impl Fn(C, C) -> C + Send + Sync + 'static,
) -> Option<Ways> {
    let (forth, back) = (Conversion::<C>::new(plain, stored)?, Conversion::<C>::new(stored, plain)?);
    let (wrap, forth_again) = (Conversion::<C>::new(plain, plain)?, Conversion::<C>::new(stored, stored)?);
    let is_float = stored.kind == Kind::Float;
    let encode = move |data: &[u8], room: Room<'_>| {
        let (mut last, mut fits): (Option<C>, _) = (None, true);
        forth.run(data, room, |values| {
            if let (None, [first, ..]) = (last, &*values) {
                // NumPy assigns it by itself, and refuses integers that do not fit
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
    let decode = move |data: &[u8], room: Room<'_>| {
        let mut sum: Option<C> = None;
        back.run(data, room, |values| {
            for value in values {
                let next = sum.map_or(*value, |sum| plus(sum, *value));
                *value = next;
                sum = Some(next);
            }
        });
        true
    };
    Some(Ways { encode: Box::new(encode), decode: Box::new(decode) })
}

// SAFETY: the loops write as many elements as there are.
unsafe impl Resize for Delta {
    fn name(&self) -> &str {
        NAME
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        resized(NAME, size, self.plain.size, self.stored.size)
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        resized(NAME, data.len(), self.stored.size, self.plain.size)
    }

    fn encode(&self, data: &[u8], room: Room<'_>) -> Result<()> {
        if (self.ways.encode)(data, room) { Ok(()) } else { Err(Error::codec(NAME, "the first element does not fit")) }
    }

    fn decode(&self, data: &[u8], room: Room<'_>) -> Result<()> {
        (self.ways.decode)(data, room);
        Ok(())
    }
}
