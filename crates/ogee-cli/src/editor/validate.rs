//! Whether what is typed is complete: a statement ends with its semicolon, a command with its line.

use crate::splitter::Splitter;

/// Whether Enter runs `text`. Otherwise it begins a new line.
pub fn is_complete(text: &str) -> bool {
    let mut splitter = Splitter::default();
    let mut pieces = Vec::new();
    for line in text.split('\n') {
        splitter.push_line(line, &mut pieces);
    }
    splitter.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_with_its_semicolon() {
        for text in ["", " ", ".tables", "SELECT 1;", "SELECT 1\n;", "exit", "-- a comment", "SELECT ';' ; -- b"] {
            assert!(is_complete(text), "{text}");
        }
        for text in ["SELECT 1", "SELECT ';", "SELECT 1; SELECT 2", "/* a", "SELECT $$;", "SELECT 1 -- ;"] {
            assert!(!is_complete(text), "{text}");
        }
    }
}
