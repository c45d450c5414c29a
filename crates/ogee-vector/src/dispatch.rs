//! Kernels compiled for several widths of vectors, of which the widest that the machine has is chosen at run time.
//!
//! Binaries are built for x86-64-v2, which has vectors of 16 bytes and neither comparisons of unsigned 64-bit integers nor narrowing stores. A
//! [`Kernel`] is an ordinary loop; [`dispatch`] calls one of its copies, in which the compiler had wider ones to vectorize it with. All copies
//! give the same bits: kernels are of integers, and floats are never contracted.
//!
//! Only loops for which it was measured to pay are kernels: distances of integers are 1.4 to 1.9 times as fast with AVX2 and 3 to 5 times with AVX-512
//! (`examples/dispatch.rs`). Hashing is not: it multiplies 64 by 64 bits, for which vectors have no instruction.

/// A loop worth compiling for several widths. Everything that [`run`](Self::run) calls must be inlined into it to be compiled so.
pub trait Kernel {
    /// What comes of it.
    type Output;

    /// The loop; implementations are `#[inline(always)]`.
    fn run(self) -> Self::Output;
}

/// Instructions that this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// What the binary was built for.
    pub const BASELINE: Self = Self(Width::Baseline);

    /// The widest. The standard library asks the processor once.
    #[inline]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && has_avx2()
            {
                return Self(Width::Avx512);
            }
            if has_avx2() {
                return Self(Width::Avx2);
            }
        }
        Self::BASELINE
    }

    /// All that this machine has, the widest last.
    pub fn available() -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "there is one"))]
        let mut levels = vec![Self::BASELINE];
        #[cfg(target_arch = "x86_64")]
        {
            levels.extend(has_avx2().then_some(Self(Width::Avx2)));
            levels.extend(Some(Self::best()).filter(|best| best.0 == Width::Avx512));
        }
        levels
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2")
}

/// Runs the copy of `kernel` for the widest vectors of this machine.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    dispatch_at(Level::best(), kernel)
}

/// Runs the copy of `kernel` for `level`.
#[inline]
pub fn dispatch_at<K: Kernel>(level: Level, kernel: K) -> K::Output {
    match level.0 {
        Width::Baseline => kernel.run(),
        // SAFETY: a level exists only where the machine has its instructions.
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => unsafe { run_avx2(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => unsafe { run_avx512(kernel) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}
