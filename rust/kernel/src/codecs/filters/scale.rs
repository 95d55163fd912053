//! `fixedscaleoffset`: `(x - offset) * scale`, rounded; `quantize`: `x` with so many decimal digits, rounded in binary.

use super::super::room::{Resize, Resized, Room};
use super::super::{Codec, Value};
use super::numbers::{Computed, Conversion, Dtype, Kind};
use super::{dtype, resized, unsupported};
use crate::Result;

const FIXED: &str = "fixedscaleoffset";
const QUANTIZE: &str = "quantize";

/// Integers beyond this are not exact as floating-point numbers.
const EXACT: u64 = 1 << 53;

/// A floating-point type to compute with.
trait Float: Computed + Send + Sync + 'static {
    /// Round a number of Python to this type.
    fn of(value: f64) -> Self;
    fn less(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    /// Round to a whole number, halves to the even one, without asking the processor for an instruction it may not have.
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
                // beyond this all numbers are whole, so that adding it rounds
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

type Way = Box<dyn Fn(&[u8], Room<'_>) + Send + Sync>;

/// Compute with each element, in the type `C`.
fn way<C: Float>(from: Dtype, to: Dtype, work: impl Fn(C) -> C + Send + Sync + 'static) -> Option<Way> {
    let conversion = Conversion::<C>::new(from, to)?;
    Some(Box::new(move |data, room| {
        conversion.run(data, room, |values| values.iter_mut().for_each(|value| *value = work(*value)));
    }))
}

struct Scaled {
    name: &'static str,
    plain: Dtype,
    stored: Dtype,
    encode: Way,
    decode: Way,
}

fn single(dtype: Dtype) -> bool {
    dtype.kind == Kind::Float && dtype.size == 4
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        Value::Int(value) if value.unsigned_abs() <= EXACT => Some(*value as f64),
        _ => None,
    }
}

pub(super) fn build_fixed(options: &[Value]) -> Result<Box<dyn Codec>> {
    let [offset, scale, plain, stored] = options else { return Err(unsupported(FIXED)) };
    let (plain, stored) = (dtype(FIXED, plain)?, dtype(FIXED, stored)?);
    // integers less an integer are integers, which may not fit
    if plain.kind != Kind::Float && !matches!(offset, Value::Float(_)) {
        return Err(unsupported(FIXED));
    }
    let (Some(offset), Some(scale)) = (number(offset), number(scale)) else { return Err(unsupported(FIXED)) };
    let encode = if single(plain) {
        let (offset, scale) = (f32::of(offset), f32::of(scale));
        way(plain, stored, move |value: f32| value.less(offset).times(scale).whole())
    } else {
        way(plain, stored, move |value: f64| value.less(offset).times(scale).whole())
    };
    let decode = if single(stored) {
        let (offset, scale) = (f32::of(offset), f32::of(scale));
        way(stored, plain, move |value: f32| value.over(scale).plus(offset))
    } else {
        way(stored, plain, move |value: f64| value.over(scale).plus(offset))
    };
    let (Some(encode), Some(decode)) = (encode, decode) else { return Err(unsupported(FIXED)) };
    Ok(Box::new(Resized(Scaled { name: FIXED, plain, stored, encode, decode })))
}

/// Return the power of 2 that keeps so many decimal digits, as numcodecs finds it.
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

pub(super) fn build_quantize(options: &[Value]) -> Result<Box<dyn Codec>> {
    let [Value::Int(digits), plain, stored] = options else { return Err(unsupported(QUANTIZE)) };
    let (plain, stored) = (dtype(QUANTIZE, plain)?, dtype(QUANTIZE, stored)?);
    let scale = power(*digits).ok_or_else(|| unsupported(QUANTIZE))?;
    if plain.kind != Kind::Float || stored.kind != Kind::Float {
        return Err(unsupported(QUANTIZE));
    }
    let encode = if single(plain) {
        let scale = f32::of(scale);
        if !scale.is_normal() {
            return Err(unsupported(QUANTIZE));
        }
        way(plain, stored, move |value: f32| scale.times(value).whole().over(scale))
    } else {
        way(plain, stored, move |value: f64| scale.times(value).whole().over(scale))
    };
    let decode =
        if single(stored) { way(stored, plain, |value: f32| value) } else { way(stored, plain, |value: f64| value) };
    let (Some(encode), Some(decode)) = (encode, decode) else { return Err(unsupported(QUANTIZE)) };
    Ok(Box::new(Resized(Scaled { name: QUANTIZE, plain, stored, encode, decode })))
}

// SAFETY: a conversion writes as many elements as there are.
unsafe impl Resize for Scaled {
    fn name(&self) -> &str {
        self.name
    }

    fn encoded(&self, size: usize) -> Result<usize> {
        resized(self.name, size, self.plain.size, self.stored.size)
    }

    fn decoded(&self, data: &[u8]) -> Result<usize> {
        resized(self.name, data.len(), self.stored.size, self.plain.size)
    }

    fn encode(&self, data: &[u8], room: Room<'_>) -> Result<()> {
        (self.encode)(data, room);
        Ok(())
    }

    fn decode(&self, data: &[u8], room: Room<'_>) -> Result<()> {
        (self.decode)(data, room);
        Ok(())
    }
}
