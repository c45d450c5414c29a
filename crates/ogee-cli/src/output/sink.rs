//! Where results go: standard output or a file, buffered.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

/// A buffered destination.
pub struct Sink {
    out: BufWriter<Box<dyn Write>>,
    terminal: bool,
    name: String,
}

impl Sink {
    /// Standard output.
    pub fn stdout() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Self { out: BufWriter::with_capacity(64 << 10, Box::new(stdout)), terminal, name: "stdout".to_owned() }
    }

    /// A file, emptied first.
    pub fn file(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        let name = path.display().to_string();
        Ok(Self { out: BufWriter::with_capacity(64 << 10, Box::new(file)), terminal: false, name })
    }

    /// Whether a person is looking.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// `stdout`, or the file.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
