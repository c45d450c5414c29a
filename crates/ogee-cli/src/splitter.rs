//! Cuts text into statements, line by line, as it arrives.
//!
//! A statement ends at a `;` outside of quotes, dollar quotes and comments. Known are `'text'` (with `''` inside),
//! `"name"`, `$tag$text$tag$`, `-- comment`, and `/* comment */`, which nests as in PostgreSQL. A line that starts with a dot
//! where a statement would begin is a command of the shell, and so are the words `exit` and `quit`.
//!
//! Not here: whether a statement is valid; that is the parser's to say, with its place.

/// One thing to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A statement, without its semicolon.
    Statement(String),
    /// A command of the shell: the line, starting with its dot.
    Command(String),
}

impl std::fmt::Display for Piece {
    /// As it was typed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Statement(sql) => write!(f, "{sql};"),
            Self::Command(line) => f.write_str(line),
        }
    }
}

/// The command that `line` stands for, if it is one of the words that end every shell.
fn leaving(line: &str) -> Option<&'static str> {
    match line.trim().trim_end_matches(';').trim_end().to_ascii_lowercase().as_str() {
        "exit" => Some(".exit"),
        "quit" => Some(".quit"),
        _ => None,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Plain,
    /// Within quotes of this kind; a doubled one closes and opens again, which comes to the same.
    Quoted(u8),
    /// Within `$tag$`; the whole delimiter.
    Dollar(String),
    /// Within this many `/*`.
    Comment(usize),
}

/// Collects lines and gives out complete pieces.
#[derive(Debug)]
pub struct Splitter {
    pending: String,
    state: State,
    /// Whether `pending` holds anything but blanks and comments.
    substance: bool,
}

impl Default for Splitter {
    fn default() -> Self {
        Self { pending: String::new(), state: State::Plain, substance: false }
    }
}

impl Splitter {
    /// Whether nothing is waiting for its end.
    pub fn is_empty(&self) -> bool {
        !self.substance && self.state == State::Plain
    }

    /// Forgets what is waiting.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes one line (without its line break) and appends what is complete to `pieces`.
    pub fn push_line(&mut self, line: &str, pieces: &mut Vec<Piece>) {
        if self.is_empty() && line.trim_start().starts_with('.') {
            self.clear();
            pieces.push(Piece::Command(line.trim().to_owned()));
            return;
        }
        if let Some(command) = leaving(line).filter(|_| self.is_empty()) {
            self.clear();
            pieces.push(Piece::Command(command.to_owned()));
            return;
        }
        let bytes = line.as_bytes();
        let mut start = 0;
        let mut at = 0;
        while at < bytes.len() {
            let rest = &line[at..];
            let step = match &mut self.state {
                State::Quoted(quote) => {
                    if bytes[at] == *quote {
                        self.state = State::Plain;
                    }
                    1
                }
                State::Dollar(delimiter) => {
                    if rest.starts_with(delimiter.as_str()) {
                        let length = delimiter.len();
                        self.state = State::Plain;
                        length
                    } else {
                        1
                    }
                }
                State::Comment(depth) => {
                    if rest.starts_with("*/") {
                        *depth -= 1;
                        if *depth == 0 {
                            self.state = State::Plain;
                        }
                        2
                    } else if rest.starts_with("/*") {
                        *depth += 1;
                        2
                    } else {
                        1
                    }
                }
                State::Plain => match bytes[at] {
                    b'-' if rest.starts_with("--") => bytes.len() - at,
                    b'/' if rest.starts_with("/*") => {
                        self.state = State::Comment(1);
                        2
                    }
                    b';' => {
                        self.pending.push_str(&line[start..at]);
                        start = at + 1;
                        self.flush(pieces);
                        1
                    }
                    quote @ (b'\'' | b'"') => {
                        self.substance = true;
                        self.state = State::Quoted(quote);
                        1
                    }
                    b'$' => {
                        self.substance = true;
                        let word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
                        match dollar_delimiter(rest).filter(|_| !word) {
                            Some(delimiter) => {
                                let length = delimiter.len();
                                self.state = State::Dollar(delimiter);
                                length
                            }
                            None => 1,
                        }
                    }
                    byte => {
                        self.substance |= !byte.is_ascii_whitespace();
                        1
                    }
                },
            };
            at += step;
            while !line.is_char_boundary(at) {
                at += 1;
            }
        }
        self.pending.push_str(&line[start..]);
        self.pending.push('\n');
    }

    /// The end of the text: what is left is a statement too, complete or not.
    pub fn finish(&mut self, pieces: &mut Vec<Piece>) {
        self.substance |= self.state != State::Plain;
        self.flush(pieces);
        self.state = State::Plain;
    }

    fn flush(&mut self, pieces: &mut Vec<Piece>) {
        if self.substance {
            pieces.push(Piece::Statement(self.pending.trim().to_owned()));
        }
        self.pending.clear();
        self.substance = false;
    }
}

/// `$$` or `$tag$` at the start of `text`.
fn dollar_delimiter(text: &str) -> Option<String> {
    let end = text[1..].find('$')? + 1;
    let tag = &text[1..end];
    let starts_well = !tag.starts_with(|c: char| c.is_ascii_digit());
    (starts_well && tag.chars().all(|c| c.is_alphanumeric() || c == '_')).then(|| text[..=end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<Piece> {
        let mut splitter = Splitter::default();
        let mut pieces = Vec::new();
        for line in text.lines() {
            splitter.push_line(line, &mut pieces);
        }
        splitter.finish(&mut pieces);
        pieces
    }

    fn statements(text: &str) -> Vec<String> {
        split(text)
            .into_iter()
            .map(|piece| match piece {
                Piece::Statement(sql) => sql,
                Piece::Command(line) => format!("<{line}>"),
            })
            .collect()
    }

    #[test]
    fn semicolons_inside_quotes_and_comments_do_not_end_a_statement() {
        assert_eq!(
            statements(
                "select ';', \"a;b\" -- ; not here\n, 'it''s;' /* ; /* ; */ ; */; select $$;$$ ;select $x$;$$;$x$"
            ),
            vec![
                "select ';', \"a;b\" -- ; not here\n, 'it''s;' /* ; /* ; */ ; */",
                "select $$;$$",
                "select $x$;$$;$x$"
            ]
        );
    }

    #[test]
    fn blanks_and_comments_are_no_statements() {
        assert!(statements(" ;; \n-- nothing\n/* here */ ;").is_empty());
    }

    #[test]
    fn commands_only_where_a_statement_would_begin() {
        assert_eq!(statements(".mode csv\nselect 1\n.5;\n.tables"), vec!["<.mode csv>", "select 1\n.5", "<.tables>"]);
    }

    #[test]
    fn words_that_leave_are_commands() {
        assert_eq!(statements("exit\nselect 1\n, 2;Quit ;"), vec!["<.exit>", "select 1\n, 2", "Quit"]);
        assert_eq!(statements("select\nexit\n;\nQUIT;"), vec!["select\nexit", "<.quit>"]);
    }

    #[test]
    fn an_unfinished_statement_is_given_out_at_the_end() {
        assert_eq!(statements("select 'open"), vec!["select 'open"]);
        assert_eq!(statements("select ä, 'ö;ü'; select €"), vec!["select ä, 'ö;ü'", "select €"]);
    }
}
