//! Pages of the program's code that are resident and of no use.
//!
//! The system maps the pages of a program's file around each that runs: a statement that was parsed and planned leaves some 60 MiB of them behind, of which its execution
//! needs few. They are the file's and take nothing from anybody, but they count as resident, and what a process may hold beyond its limit is soon made up of them. So where
//! memory runs short they are unmapped; those that are needed come back from the system's cache.
//!
//! Not here: the data of the program, which is little, and code of others in the process, which they may have changed.
#![expect(unsafe_code, reason = "pages are unmapped by address")]

use std::sync::atomic::AtomicU64;

use crate::account::is_due;

/// Resident bytes of files below which nothing is done: what executing takes.
const KEPT_BYTES: usize = 32 << 20;

/// Looked at so often, at most.
const INTERVAL_NS: u64 = 100_000_000;

static LOOKED_NS: AtomicU64 = AtomicU64::new(0);

/// Unmaps the pages of this code's file, if more than it takes to execute are resident and nobody has looked just before.
pub(crate) fn unmap_unused() {
    if is_due(&LOOKED_NS, INTERVAL_NS) && crate::account::file_bytes().is_some_and(|bytes| bytes > KEPT_BYTES) {
        // Where it fails the pages stay.
        let _ = unmap();
    }
}

#[cfg(target_os = "linux")]
fn unmap() -> std::io::Result<()> {
    let here = (unmap_unused as *const ()).addr();
    let Some(code) =
        std::fs::read_to_string("/proc/self/maps")?.lines().filter_map(executable).find(|code| code.contains(&here))
    else {
        return Ok(());
    };
    // SAFETY: a mapping of a file that is executed and cannot be written to, so that its pages are the file's and are read again when they are used.
    unsafe {
        let start = std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(code.start);
        rustix::mm::madvise(start, code.len(), rustix::mm::Advice::LinuxDontNeed)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn unmap() -> std::io::Result<()> {
    Ok(())
}

/// The addresses that `line` of the mappings of a process is about, if it is a file's private one to be executed and not to be written to.
#[cfg(target_os = "linux")]
fn executable(line: &str) -> Option<std::ops::Range<usize>> {
    // Addresses, what is allowed, offset, device, number of the file, its path.
    let mut fields = line.split_ascii_whitespace();
    let (addresses, allowed) = (fields.next()?, fields.next()?);
    let file = fields.nth(2)?;
    let (start, end) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    (allowed == "r-xp" && file != "0").then_some(address(start)?..address(end)?)
}

#[cfg(all(test, not(loom), target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_is_told_from_other_memory() {
        let code = "55d5a1397000-55d5a7967000 r-xp 021d0000 fe:00 9978323                    /usr/bin/a program";
        assert_eq!(executable(code), Some(0x55d5_a139_7000..0x55d5_a796_7000));
        for other in [
            "55d5a1397000-55d5a7967000 r--p 021d0000 fe:00 9978323 /usr/bin/ogee",
            "55d5a1397000-55d5a7967000 rwxp 021d0000 fe:00 9978323 /usr/bin/ogee",
            "55d5a1397000-55d5a7967000 r-xs 021d0000 fe:00 9978323 /usr/bin/ogee",
            "7ffd1b5f2000-7ffd1b5f4000 r-xp 00000000 00:00 0 [vdso]",
            "7f0000000000-7f0000001000 r-xp 00000000 00:00 0",
            "",
        ] {
            assert_eq!(executable(other), None, "{other}");
        }
    }

    #[test]
    fn code_runs_on_when_its_pages_were_unmapped() {
        let before = crate::account::file_bytes().expect("Linux tells");
        unmap().expect("Linux can");
        let after = crate::account::file_bytes().expect("Linux tells");
        assert!(after < before, "{before} {after}");
    }
}
