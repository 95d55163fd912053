//! Conversion between NumPy's number types and a type to compute in, one block at a time. Used by the other filters.

use super::super::output_buffer::OutputBuffer;

/// Number of elements in a block, which fits into the first-level cache.
pub(super) const BLOCK: usize = 512;

/// The kinds of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Signed integers.
    Int,
    /// Unsigned integers.
    Uint,
    /// Floating-point numbers.
    Float,
}

/// A data type: integers and floating-point numbers of up to 8 bytes, in either byte order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dtype {
    /// Kind of the elements.
    pub kind: Kind,
    /// Bytes of an element.
    pub size: usize,
    /// Whether the byte order differs from that of this machine.
    pub swapped: bool,
}

impl Dtype {
    /// Parse a data type as NumPy spells it: `<u2`.
    pub fn parse(text: &str) -> Option<Dtype> {
        let plain = text.trim_start_matches(['<', '>', '|', '=']);
        let (order, kind) = (text.as_bytes().first()?, plain.as_bytes().first()?);
        let size = match plain.get(1..)? {
            "1" => 1,
            "2" => 2,
            "4" => 4,
            "8" => 8,
            _ => return None,
        };
        let kind = match kind {
            b'i' => Kind::Int,
            b'u' => Kind::Uint,
            b'f' if size > 1 => Kind::Float,
            _ => return None,
        };
        let big = match order {
            b'>' => true,
            b'<' => false,
            _ => cfg!(target_endian = "big"),
        };
        if text.len() > plain.len() + 1 {
            return None;
        }
        Some(Dtype { kind, size, swapped: big != cfg!(target_endian = "big") && size > 1 })
    }
}

/// A number type of elements, or to compute in.
pub(super) trait Number: Copy + Default {
    /// Return the number with its bytes swapped.
    fn swapped(self) -> Self;

    /// Return the number of these bytes, which are as many as it has.
    fn of(bytes: &[u8]) -> Self;

    /// Write the bytes of numbers.
    fn write_each(values: impl Iterator<Item = Self>, buffer: &mut OutputBuffer<'_>);
}

macro_rules! numbers {
    ($($number:ty, $swapped:expr;)*) => {
        $(impl Number for $number {
            #[inline(always)]
            fn swapped(self) -> Self {
                $swapped(self)
            }

            #[inline(always)]
            fn of(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(Self::default(), |bytes| Self::from_ne_bytes(*bytes))
            }

            #[inline(always)]
            fn write_each(values: impl Iterator<Item = Self>, buffer: &mut OutputBuffer<'_>) {
                buffer.write_each(values.map(Self::to_ne_bytes));
            }
        })*
    };
}
numbers! {
    i8, i8::swap_bytes;
    u8, u8::swap_bytes;
    i16, i16::swap_bytes;
    u16, u16::swap_bytes;
    i32, i32::swap_bytes;
    u32, u32::swap_bytes;
    i64, i64::swap_bytes;
    u64, u64::swap_bytes;
    f32, |number: f32| f32::from_bits(number.to_bits().swap_bytes());
    f64, |number: f64| f64::from_bits(number.to_bits().swap_bytes());
}

/// Return the elements of `data`.
#[inline(always)]
pub(super) fn elements<A: Number>(data: &[u8]) -> impl ExactSizeIterator<Item = A> {
    data.chunks_exact(size_of::<A>()).map(A::of)
}

/// Apply a function to each element of `data`.
pub(super) fn map<A: Number, B: Number>(
    data: &[u8],
    from_swapped: bool,
    buffer: &mut OutputBuffer<'_>,
    to_swapped: bool,
    mut function: impl FnMut(A) -> B,
) {
    let values = elements::<A>(data);
    match (from_swapped, to_swapped) {
        (false, false) => B::write_each(values.map(function), buffer),
        (false, true) => B::write_each(values.map(|value| function(value).swapped()), buffer),
        (true, false) => B::write_each(values.map(|value| function(value.swapped())), buffer),
        (true, true) => B::write_each(values.map(|value| function(value.swapped()).swapped()), buffer),
    }
}

/// Read elements, and convert each to one of `values`.
fn read<A: Number, C>(data: &[u8], swapped: bool, values: &mut [C], convert: impl Fn(A) -> C) {
    let elements = elements::<A>(data);
    if swapped {
        values.iter_mut().zip(elements).for_each(|(value, element)| *value = convert(element.swapped()));
    } else {
        values.iter_mut().zip(elements).for_each(|(value, element)| *value = convert(element));
    }
}

/// Convert values, and write them as elements.
fn write<C: Copy, B: Number>(values: &[C], swapped: bool, buffer: &mut OutputBuffer<'_>, convert: impl Fn(C) -> B) {
    let elements = values.iter().map(|value| convert(*value));
    if swapped { B::write_each(elements.map(B::swapped), buffer) } else { B::write_each(elements, buffer) }
}

/// Reads elements into values, as many as there are values.
pub(super) type Load<C> = fn(&[u8], bool, &mut [C]);

/// Writes values as elements.
pub(super) type Store<C> = fn(&[C], bool, &mut OutputBuffer<'_>);

/// A number type with NumPy's conversions from and to other types.
pub(super) trait Computed: Number {
    /// Return the function that reads elements of a type; `None` if there is no such conversion.
    fn load(dtype: Dtype) -> Option<Load<Self>>;

    /// Return the function that writes elements of a type; `None` if there is no such conversion.
    fn store(dtype: Dtype) -> Option<Store<Self>>;
}

macro_rules! load {
    ($to:ty, $from:ty) => {
        |data, swapped, values| read(data, swapped, values, |element: $from| element as $to)
    };
}

macro_rules! store {
    ($from:ty, $to:ty) => {
        |values, swapped, buffer| write(values, swapped, buffer, |value: $from| value as $to)
    };
    ($from:ty, $through:ident, $to:ty) => {
        |values, swapped, buffer| write(values, swapped, buffer, |value: $from| value.$through() as $to)
    };
}

/// Conversion to integers as x86 processors do it, and therefore NumPy: numbers that do not fit become the least integer.
/// On other processors NumPy returns other values for these.
trait Whole {
    /// Convert to an integer of 32 bits.
    fn whole32(self) -> i32;

    /// Convert to an integer of 64 bits.
    fn whole64(self) -> i64;

    /// Convert to an unsigned integer of 64 bits.
    fn unsigned64(self) -> u64;
}

macro_rules! whole {
    ($float:ty, $below:expr) => {
        impl Whole for $float {
            #[inline(always)]
            fn whole32(self) -> i32 {
                let fits = self > $below && self < 2_147_483_648.0;
                // SAFETY: the value fits.
                if fits { unsafe { self.to_int_unchecked() } } else { i32::MIN }
            }

            #[inline(always)]
            fn whole64(self) -> i64 {
                let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&self);
                // SAFETY: the value fits.
                if fits { unsafe { self.to_int_unchecked() } } else { i64::MIN }
            }

            #[inline(always)]
            fn unsigned64(self) -> u64 {
                if self >= 9_223_372_036_854_775_808.0 { self as u64 } else { self.whole64() as u64 }
            }
        }
    };
}
whole!(f32, -2_147_483_904.0); // the next number below -2^31
whole!(f64, -2_147_483_649.0);

macro_rules! float {
    ($float:ty) => {
        impl Computed for $float {
            fn load(dtype: Dtype) -> Option<Load<Self>> {
                Some(match (dtype.kind, dtype.size) {
                    (Kind::Int, 1) => load!($float, i8),
                    (Kind::Uint, 1) => load!($float, u8),
                    (Kind::Int, 2) => load!($float, i16),
                    (Kind::Uint, 2) => load!($float, u16),
                    (Kind::Int, 4) => load!($float, i32),
                    (Kind::Uint, 4) => load!($float, u32),
                    (Kind::Int, 8) => load!($float, i64),
                    (Kind::Uint, 8) => load!($float, u64),
                    (Kind::Float, 4) => load!($float, f32),
                    (Kind::Float, 8) => load!($float, f64),
                    _ => return None,
                })
            }

            fn store(dtype: Dtype) -> Option<Store<Self>> {
                Some(match (dtype.kind, dtype.size) {
                    (Kind::Int, 1) => store!($float, whole32, i8),
                    (Kind::Uint, 1) => store!($float, whole32, u8),
                    (Kind::Int, 2) => store!($float, whole32, i16),
                    (Kind::Uint, 2) => store!($float, whole32, u16),
                    (Kind::Int, 4) => store!($float, whole32, i32),
                    (Kind::Uint, 4) => store!($float, whole64, u32),
                    (Kind::Int, 8) => store!($float, whole64, i64),
                    (Kind::Uint, 8) => store!($float, unsigned64, u64),
                    (Kind::Float, 4) => store!($float, f32),
                    (Kind::Float, 8) => store!($float, f64),
                    _ => return None,
                })
            }
        }
    };
}
float!(f32);
float!(f64);

/// Signed and unsigned integers modulo 2^64.
impl Computed for i64 {
    fn load(dtype: Dtype) -> Option<Load<Self>> {
        Some(match (dtype.kind, dtype.size) {
            (Kind::Int, 1) => load!(i64, i8),
            (Kind::Uint, 1) => load!(i64, u8),
            (Kind::Int, 2) => load!(i64, i16),
            (Kind::Uint, 2) => load!(i64, u16),
            (Kind::Int, 4) => load!(i64, i32),
            (Kind::Uint, 4) => load!(i64, u32),
            (Kind::Int, 8) => load!(i64, i64),
            (Kind::Uint, 8) => load!(i64, u64),
            _ => return None,
        })
    }

    fn store(dtype: Dtype) -> Option<Store<Self>> {
        Some(match (dtype.kind, dtype.size) {
            (Kind::Float, _) => return None,
            (_, 1) => store!(i64, u8),
            (_, 2) => store!(i64, u16),
            (_, 4) => store!(i64, u32),
            (_, 8) => store!(i64, u64),
            _ => return None,
        })
    }
}

/// The conversion of elements of one type to another, with a computation in a third type `C`.
pub(super) struct Conversion<C> {
    from: Dtype,
    to: Dtype,
    load: Load<C>,
    store: Store<C>,
}

impl<C: Computed> Conversion<C> {
    /// Prepare the conversion; `None` if there is no such conversion.
    pub fn new(from: Dtype, to: Dtype) -> Option<Conversion<C>> {
        Some(Conversion { from, to, load: C::load(from)?, store: C::store(to)? })
    }

    /// Convert all elements; `work` changes the values of each block.
    pub fn run(&self, data: &[u8], buffer: &mut OutputBuffer<'_>, mut work: impl FnMut(&mut [C])) {
        let mut values = [C::default(); BLOCK];
        for part in data.chunks(BLOCK * self.from.size) {
            let values = &mut values[..part.len() / self.from.size];
            (self.load)(part, self.from.swapped, values);
            work(values);
            (self.store)(values, self.to.swapped, buffer);
        }
    }

    /// Convert each value to the source type and back.
    pub fn round_trip(&self, values: &mut [C]) {
        let mut memory = [0; BLOCK * 8];
        let memory = &mut memory[..values.len() * self.from.size];
        (self.store)(values, false, &mut OutputBuffer::new(memory));
        (self.load)(memory, false, values);
    }
}
