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
}

macro_rules! numbers {
    ($($int:ty)*, $($float:ty)*) => {
        $(impl Number for $int {
            fn swapped(self) -> Self {
                self.swap_bytes()
            }
        })*
        $(impl Number for $float {
            fn swapped(self) -> Self {
                <$float>::from_bits(self.to_bits().swap_bytes())
            }
        })*
    };
}
numbers!(i8 u8 i16 u16 i32 u32 i64 u64, f32 f64);

/// Apply a function to each element of `data`.
///
/// # Panics
///
/// If the buffer is too short for the results.
pub(super) fn map<A: Number, B: Number>(
    data: &[u8],
    from_swapped: bool,
    mut buffer: OutputBuffer<'_>,
    to_swapped: bool,
    function: impl Fn(A) -> B,
) {
    let count = data.len() / size_of::<A>();
    assert!(count <= buffer.len() / size_of::<B>(), "the buffer is too short");
    let (from, to) = (data.as_ptr().cast::<A>(), buffer.as_mut_ptr().cast::<B>());
    let plain = |value: A| value;
    // SAFETY: `count` elements are in `data`, and the buffer, which does not overlap it, has space for them; any bits are a
    // number.
    unsafe {
        match (from_swapped, to_swapped) {
            (false, false) => run(from, to, count, plain, &function, |value| value),
            (false, true) => run(from, to, count, plain, &function, B::swapped),
            (true, false) => run(from, to, count, A::swapped, &function, |value| value),
            (true, true) => run(from, to, count, A::swapped, &function, B::swapped),
        }
    }
}

/// Apply a function to `count` elements, with conversions of the byte order before and after it.
///
/// # Safety
///
/// `count` elements can be read at `from` and written at `to`, of any alignment, and the two do not overlap.
#[inline(always)]
unsafe fn run<A, B>(
    from: *const A,
    to: *mut B,
    count: usize,
    before: impl Fn(A) -> A,
    function: impl Fn(A) -> B,
    after: impl Fn(B) -> B,
) {
    for index in 0..count {
        // SAFETY: `index` is less than `count`.
        unsafe {
            let value = before(from.add(index).read_unaligned());
            to.add(index).write_unaligned(after(function(value)));
        }
    }
}

/// Reads elements into values, as many as there are values.
pub(super) type Load<C> = fn(&[u8], bool, &mut [C]);

/// Writes values as elements.
pub(super) type Store<C> = fn(&[C], bool, OutputBuffer<'_>);

/// A number type with NumPy's conversions from and to other types.
pub(super) trait Computed: Number {
    /// Return the function that reads elements of a type; `None` if there is no such conversion.
    fn load(dtype: Dtype) -> Option<Load<Self>>;

    /// Return the function that writes elements of a type; `None` if there is no such conversion.
    fn store(dtype: Dtype) -> Option<Store<Self>>;
}

/// View numbers as bytes.
fn bytes<C: Number>(values: &[C]) -> &[u8] {
    // SAFETY: numbers are bytes without gaps, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// View numbers as an output buffer.
fn bytes_mut<C: Number>(values: &mut [C]) -> OutputBuffer<'_> {
    let size = size_of_val(values);
    // SAFETY: numbers are bytes without gaps, any bits are a number, and bytes need no alignment.
    OutputBuffer::new(unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size) })
}

macro_rules! load {
    ($to:ty, $from:ty) => {
        |data, swapped, out| map(data, swapped, bytes_mut(out), false, |value: $from| value as $to)
    };
}

macro_rules! store {
    ($from:ty, $to:ty) => {
        |values, swapped, buffer| map(bytes(values), false, buffer, swapped, |value: $from| value as $to)
    };
    ($from:ty, $through:ident, $to:ty) => {
        |values, swapped, buffer| map(bytes(values), false, buffer, swapped, |value: $from| value.$through() as $to)
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
    pub fn run(&self, data: &[u8], mut buffer: OutputBuffer<'_>, mut work: impl FnMut(&mut [C])) {
        let mut values = [C::default(); BLOCK];
        for (index, part) in data.chunks(BLOCK * self.from.size).enumerate() {
            let values = &mut values[..part.len() / self.from.size];
            (self.load)(part, self.from.swapped, values);
            work(values);
            (self.store)(values, self.to.swapped, buffer.skip(index * BLOCK * self.to.size));
        }
    }

    /// Convert each value to the source type and back.
    pub fn round_trip(&self, values: &mut [C]) {
        let mut memory = [0; BLOCK * 8];
        let memory = &mut memory[..values.len() * self.from.size];
        (self.store)(values, false, OutputBuffer::new(memory));
        (self.load)(memory, false, values);
    }
}
