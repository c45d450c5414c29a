//! A sample of `ogee-bench fuzz`: the same files each time. The whole is `make fuzz`.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

#[test]
fn damaged_files_are_read_or_refused() {
    let found = tempfile::tempdir().unwrap();
    let mut fuzz = Command::new(env!("CARGO_BIN_EXE_ogee-bench"));
    fuzz.args(["fuzz", "--seed", "1", "--files", "5000", "--kept", "../../tests/fuzz/kept", "--keep"])
        .arg(found.path());
    let output = fuzz.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    // Each seed is a file, and both ways to end are met often.
    assert!(text.contains("5000 files from seed 1 on"), "{text}");
    let count = |what: &str| {
        let end = text.find(what).unwrap();
        text[..end].trim_end().rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    assert!(count(" read,") > 300 && count(" refused,") > 2000, "{text}");
}
