//! Vector registers of one or two lanes of sixteen bytes, with the operations that `transpose` needs.

use std::marker::PhantomData;

/// Bytes of a lane.
pub(super) const LANE: usize = 16;

/// A proof that the machine has the instruction set after which the registers `V` are named.
#[derive(Clone, Copy)]
pub(super) struct Machine<V>(PhantomData<V>);

/// A register of one or two lanes of sixteen bytes.
///
/// There are registers only on machines that have their instruction set, since `load` asks for a proof.
pub(super) trait Vector: Copy {
    /// Number of lanes.
    const LANES: usize;

    /// Load the first lane from `from`, the second from `step` bytes further on.
    ///
    /// # Safety
    /// There are sixteen bytes at each place; as for the functions that store.
    unsafe fn load(machine: Machine<Self>, from: *const u8, step: usize) -> Self;

    /// Store the first lane at `to`, the second `step` bytes further on.
    unsafe fn store(self, to: *mut u8, step: usize);

    /// Store one lane each of two registers, the first or the second, one after the other.
    #[inline(always)]
    unsafe fn store_lanes<const SECOND: bool>(pair: [Self; 2], to: *mut u8) {
        // SAFETY: the caller guarantees 32 bytes
        unsafe {
            pair[0].store(to, 0);
            pair[1].store(to.add(LANE), 0);
        }
    }

    /// Interleave the bytes of the first halves of each lane.
    fn low(self, other: Self) -> Self;

    /// Interleave the bytes of the second halves of each lane.
    fn high(self, other: Self) -> Self;

    /// Exchange bits in every byte: those of `mask` in the second with those `SHIFT` bits higher in the first.
    fn exchange<const SHIFT: i32>(first: Self, second: Self, mask: u8) -> (Self, Self);
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use std::arch::x86_64::*;

    use super::{Machine, PhantomData, Vector};

    #[derive(Clone, Copy)]
    pub(in super::super) struct Sse2(__m128i);

    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2(__m256i);

    impl Sse2 {
        /// Return the proof that every x86-64 machine gives.
        pub(in super::super) fn machine() -> Machine<Sse2> {
            Machine(PhantomData)
        }
    }

    impl Avx2 {
        /// Return the proof, if this machine has AVX2.
        pub(in super::super) fn machine() -> Option<Machine<Avx2>> {
            is_x86_feature_detected!("avx2").then_some(Machine(PhantomData))
        }
    }

    /// Define the operations inside registers, by the functions that carry them out.
    macro_rules! operations {
        ($name:ident, $low:ident, $high:ident, $and:ident, $xor:ident, $right:ident, $left:ident, $same:ident) => {
            #[inline(always)]
            fn low(self, other: Self) -> Self {
                // SAFETY: there are registers only where the machine has the instruction
                $name(unsafe { $low(self.0, other.0) })
            }

            #[inline(always)]
            fn high(self, other: Self) -> Self {
                // SAFETY: there are registers only where the machine has the instruction
                $name(unsafe { $high(self.0, other.0) })
            }

            #[inline(always)]
            fn exchange<const SHIFT: i32>(first: Self, second: Self, mask: u8) -> (Self, Self) {
                // SAFETY: there are registers only where the machine has the instructions
                unsafe {
                    let moved = $and($xor($right::<SHIFT>(first.0), second.0), $same(mask as i8));
                    ($name($xor(first.0, $left::<SHIFT>(moved))), $name($xor(second.0, moved)))
                }
            }
        };
    }

    impl Vector for Sse2 {
        const LANES: usize = 1;

        #[inline(always)]
        unsafe fn load(_: Machine<Sse2>, from: *const u8, _step: usize) -> Self {
            // SAFETY: SSE2 is part of x86-64; the caller guarantees the sixteen bytes
            Sse2(unsafe { _mm_loadu_si128(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8, _step: usize) {
            // SAFETY: as in `load`
            unsafe { _mm_storeu_si128(to.cast(), self.0) }
        }

        operations!(
            Sse2,
            _mm_unpacklo_epi8,
            _mm_unpackhi_epi8,
            _mm_and_si128,
            _mm_xor_si128,
            _mm_srli_epi64,
            _mm_slli_epi64,
            _mm_set1_epi8
        );
    }

    impl Vector for Avx2 {
        const LANES: usize = 2;

        #[inline(always)]
        unsafe fn load(_: Machine<Avx2>, from: *const u8, step: usize) -> Self {
            // SAFETY: the machine has AVX2; the caller guarantees sixteen bytes at each of the two places
            unsafe {
                let low = _mm_loadu_si128(from.cast());
                let high = _mm_loadu_si128(from.add(step).cast());
                Avx2(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high))
            }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8, step: usize) {
            // SAFETY: as in `load`
            unsafe {
                _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(self.0));
                _mm_storeu_si128(to.add(step).cast(), _mm256_extracti128_si256::<1>(self.0));
            }
        }

        #[inline(always)]
        unsafe fn store_lanes<const SECOND: bool>(pair: [Self; 2], to: *mut u8) {
            // SAFETY: the machine has AVX2; the caller guarantees 32 bytes
            unsafe {
                let [first, second] = pair;
                let both = if SECOND {
                    _mm256_permute2x128_si256::<0x31>(first.0, second.0)
                } else {
                    _mm256_permute2x128_si256::<0x20>(first.0, second.0)
                };
                _mm256_storeu_si256(to.cast(), both);
            }
        }

        operations!(
            Avx2,
            _mm256_unpacklo_epi8,
            _mm256_unpackhi_epi8,
            _mm256_and_si256,
            _mm256_xor_si256,
            _mm256_srli_epi64,
            _mm256_slli_epi64,
            _mm256_set1_epi8
        );
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm {
    use std::arch::aarch64::*;

    use super::{Machine, PhantomData, Vector};

    #[derive(Clone, Copy)]
    pub(in super::super) struct Neon(uint8x16_t);

    impl Neon {
        /// Return the proof that every aarch64 machine gives.
        pub(in super::super) fn machine() -> Machine<Neon> {
            Machine(PhantomData)
        }
    }

    impl Vector for Neon {
        const LANES: usize = 1;

        #[inline(always)]
        unsafe fn load(_: Machine<Neon>, from: *const u8, _step: usize) -> Self {
            // SAFETY: NEON is part of aarch64; the caller guarantees the sixteen bytes
            Neon(unsafe { vld1q_u8(from) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8, _step: usize) {
            // SAFETY: as in `load`
            unsafe { vst1q_u8(to, self.0) }
        }

        #[inline(always)]
        fn low(self, other: Self) -> Self {
            // SAFETY: NEON is part of aarch64
            Neon(unsafe { vzip1q_u8(self.0, other.0) })
        }

        #[inline(always)]
        fn high(self, other: Self) -> Self {
            // SAFETY: NEON is part of aarch64
            Neon(unsafe { vzip2q_u8(self.0, other.0) })
        }

        #[inline(always)]
        fn exchange<const SHIFT: i32>(first: Self, second: Self, mask: u8) -> (Self, Self) {
            // SAFETY: NEON is part of aarch64
            unsafe {
                let moved = vandq_u8(veorq_u8(vshrq_n_u8::<SHIFT>(first.0), second.0), vdupq_n_u8(mask));
                (Neon(veorq_u8(first.0, vshlq_n_u8::<SHIFT>(moved))), Neon(veorq_u8(second.0, moved)))
            }
        }
    }
}
