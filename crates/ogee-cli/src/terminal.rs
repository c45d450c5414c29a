//! The size of the terminal.

use console::Term;

/// Narrower than this a terminal does not know its width.
const WIDTH_MIN: u16 = 10;

/// Lines and columns of the terminal on standard output, as they are now.
pub fn size() -> Option<(usize, usize)> {
    let (lines, columns) = Term::stdout().size_checked()?;
    (columns >= WIDTH_MIN && lines > 1).then(|| (usize::from(lines), usize::from(columns)))
}
