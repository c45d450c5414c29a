//! Calls of the Parquet library, which panics on some damaged files.
//!
//! Not here: what panics in the engine itself, which the scheduler catches and calls a bug.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use parquet::errors::ParquetError;

thread_local! {
    static IS_CALLED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a call of a library that reads files, whose panics are told as errors of the file: for panic hooks that print.
pub fn is_reading() -> bool {
    IS_CALLED.get()
}

/// What `read` gives.
///
/// # Errors
/// Its own, and one that says so if it panics. Nothing that it changes may be used then.
pub fn caught<T, E: From<ParquetError>>(read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let before = IS_CALLED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(read));
    IS_CALLED.set(before);
    result.unwrap_or_else(|panic| Err(ParquetError::General(message(&*panic)).into()))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the reader gave up: {}", said.unwrap_or("it does not say why"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_errors() {
        let caught = caught(|| -> Result<(), ParquetError> {
            assert!(is_reading());
            panic!("at byte {}", 7)
        });
        assert!(matches!(caught, Err(ParquetError::General(message)) if message == "the reader gave up: at byte 7"));
        assert!(!is_reading());
    }
}
