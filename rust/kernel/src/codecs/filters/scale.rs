//! `fixedscaleoffset`: `(x - offset) * scale`, rounded; `quantize`: `x` rounded to a power of two that keeps the digits.

use super::super::output_buffer::{KnownSize, KnownSizeCodec, OutputBuffer};
use super::super::{Codec, Number};
use super::numbers::{Computed, Conversion, Dtype, Kind};
use super::{dtype, resized, unsupported};
use crate::Result;

const FIXED: &str = "fixedscaleoffset";
const QUANTIZE: &str = "quantize";

/// Larger integers are not exact as floating-point numbers.
const EXACT: u64 = 1 << 53;

/// A floating-point type to compute in.
trait Float: Computed + Send + Sync + 'static {
    /// Convert a Python float to this type.
    fn of(value: f64) -> Self;
    fn less(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    /// Round to an integer, ties to even, without an instruction that the processor may lack.
    fn whole(self) -> Self;
}

macro_rules! float {
    ($float:ty, $large:expr) => {
        impl Float for $float {
            fn of(value: f64) -> Self {
                value as $float
            }

            fn less(self, other: Self) -> Self {
                self - other
            }

            fn plus(self, other: Self) -> Self {
                self + other
            }

            fn times(self, other: Self) -> Self {
                self * other
            }

            fn over(self, other: Self) -> Self {
                self / other
            }

            fn whole(self) -> Self {
                // all larger numbers are integers, so that adding this one rounds
                const LARGE: $float = $large;
                let size = self.abs();
                let rounded = ((size + LARGE) - LARGE).copysign(self);
                if size < LARGE { rounded } else { self }
            }
        }
    };
}
float!(f32, 8_388_608.0);
float!(f64, 4_503_599_627_370_496.0);

type Loop = Box<dyn Fn(&[u8], &mut OutputBuffer<'_>) + Send + Sync>;

/// Make the loop that applies a function to each element in the type `C`.
fn element_loop<C: Float>(from: Dtype, to: Dtype, work: impl Fn(C) -> C + Send + Sync + 'static) -> Option<Loop> {
    let conversion = Conversion::<C>::new(from, to)?;
    Some(Box::new(move |data, buffer| {
        conversion.run(data, buffer, |values| values.iter_mut().for_each(|value| *value = work(*value)));
    }))
}

struct Scaled {
    name: &'static str,
    plain: Dtype,
    stored: Dtype,
    encode: Loop,
    decode: Loop,
}

fn single(dtype: Dtype) -> bool {
    dtype.kind == Kind::Float && dtype.size == 4
}

fn exact(number: Number) -> Option<f64> {
    match number {
        Number::Float(value) => Some(value),
        Number::Int(value) if value.unsigned_abs() <= EXACT => Some(value as f64),
        Number::Int(_) => None,
    }
}

pub(in crate::codecs) fn build_fixed(
    offset: Number,
    scale: Number,
    plain: &str,
    stored: &str,
) -> Result<Box<dyn Codec>> {
    let (plain, stored) = (dtype(FIXED, plain)?, dtype(FIXED, stored)?);
    // an integer minus an integer is an integer in NumPy, which may overflow
    if plain.kind != Kind::Float && !matches!(offset, Number::Float(_)) {
        return Err(unsupported(FIXED));
    }
    let (Some(offset), Some(scale)) = (exact(offset), exact(scale)) else { return Err(unsupported(FIXED)) };
    let encode = if single(plain) {
        let (offset, scale) = (f32::of(offset), f32::of(scale));
        element_loop(plain, stored, move |value: f32| value.less(offset).times(scale).whole())
    } else {
        element_loop(plain, stored, move |value: f64| value.less(offset).times(scale).whole())
    };
    let decode = if single(stored) {
        let (offset, scale) = (f32::of(offset), f32::of(scale));
        element_loop(stored, plain, move |value: f32| value.over(scale).plus(offset))
    } else {
        element_loop(stored, plain, move |value: f64| value.over(scale).plus(offset))
    };
    let (Some(encode), Some(decode)) = (encode, decode) else { return Err(unsupported(FIXED)) };
    Ok(Box::new(KnownSize(Scaled { name: FIXED, plain, stored, encode, decode })))
}

/// Return the power of two that keeps this number of decimal digits, as numcodecs computes it.
fn power(digits: i64) -> Option<f64> {
    if digits.unsigned_abs() > 290 {
        return None;
    }
    let exponent = 10f64.powf(-(digits as f64)).log10();
    let exponent = if exponent < 0.0 { exponent.floor() } else { exponent.ceil() };
    let bits = 10f64.powf(-exponent).log2().ceil();
    let scale = 2f64.powf(bits);
    (scale.is_finite() && scale > 0.0).then_some(scale)
}

pub(in crate::codecs) fn build_quantize(digits: i64, plain: &str, stored: &str) -> Result<Box<dyn Codec>> {
    let (plain, stored) = (dtype(QUANTIZE, plain)?, dtype(QUANTIZE, stored)?);
    let scale = power(digits).ok_or_else(|| unsupported(QUANTIZE))?;
    if plain.kind != Kind::Float || stored.kind != Kind::Float {
        return Err(unsupported(QUANTIZE));
    }
    let encode = if single(plain) {
        let scale = f32::of(scale);
        if !scale.is_normal() {
            return Err(unsupported(QUANTIZE));
        }
        element_loop(plain, stored, move |value: f32| scale.times(value).whole().over(scale))
    } else {
        element_loop(plain, stored, move |value: f64| scale.times(value).whole().over(scale))
    };
    let decode = if single(stored) {
        element_loop(stored, plain, |value: f32| value)
    } else {
        element_loop(stored, plain, |value: f64| value)
    };
    let (Some(encode), Some(decode)) = (encode, decode) else { return Err(unsupported(QUANTIZE)) };
    Ok(Box::new(KnownSize(Scaled { name: QUANTIZE, plain, stored, encode, decode })))
}

impl KnownSizeCodec for Scaled {
    fn name(&self) -> &str {
        self.name
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        resized(self.name, size, self.plain.size, self.stored.size)
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        resized(self.name, data.len(), self.stored.size, self.plain.size)
    }

    fn encode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
        (self.encode)(data, buffer);
        Ok(())
    }

    fn decode(&self, data: &[u8], buffer: &mut OutputBuffer<'_>) -> Result<()> {
        (self.decode)(data, buffer);
        Ok(())
    }
}
