//! The part of a long test that is run unless `OGEE_WHOLE` is set.

/// Whether the case of this number is run: each one of a whole test, and one of `of` else.
pub(crate) fn is_sampled(number: usize, of: usize) -> bool {
    number.is_multiple_of(of) || std::env::var_os("OGEE_WHOLE").is_some()
}
