//! The examples, run as tests.

#[path = "../examples/appender.rs"]
mod appender;
#[path = "../examples/arrow.rs"]
mod arrow;
#[path = "../examples/async_results.rs"]
mod async_results;
#[path = "../examples/functions.rs"]
mod functions;
#[path = "../examples/prepared.rs"]
mod prepared;
#[path = "../examples/progress.rs"]
mod progress;

/// A test for each example.
macro_rules! run {
    ($($example:ident)+) => {
        $(mod $example {
            #[test]
            fn runs() -> ogee::Result<()> {
                super::super::$example::main()
            }
        })+
    };
}

mod all {
    run! { appender arrow async_results functions prepared progress }
}
