//! Parts of what stands among tokens: items of a list, brackets and what they hold.
//!
//! Not here: what they mean.

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

/// The tokens of a text that are no blanks and comments.
pub(super) struct Parts<'a> {
    tokens: &'a [TokenWithSpan],
    significant: Vec<usize>,
}

impl<'a> Parts<'a> {
    pub(super) fn new(tokens: &'a [TokenWithSpan]) -> Self {
        Self { tokens, significant: super::significant(tokens) }
    }

    pub(super) fn len(&self) -> usize {
        self.significant.len()
    }

    /// Token `nth`, if there is one.
    pub(super) fn token(&self, nth: usize) -> Option<&'a Token> {
        self.significant.get(nth).map(|&at| &self.tokens[at].token)
    }

    pub(super) fn is(&self, nth: usize, token: &Token) -> bool {
        self.token(nth) == Some(token)
    }

    /// Whether token `nth` is one of `words`, which are in capitals.
    pub(super) fn is_word(&self, nth: usize, words: &[&str]) -> bool {
        match self.token(nth) {
            Some(Token::Word(Word { value, quote_style: None, .. })) => {
                words.iter().any(|word| value.eq_ignore_ascii_case(word))
            }
            _ => false,
        }
    }

    /// Whether a query may begin at `nth`, and something be selected from behind it.
    pub(super) fn may_begin_query(&self, nth: usize) -> bool {
        let begins = match nth.checked_sub(1).and_then(|before| self.token(before)) {
            None | Some(Token::SemiColon | Token::LParen | Token::RParen) => true,
            Some(Token::Word(Word { value, quote_style: None, .. })) => matches!(
                value.to_ascii_uppercase().as_str(),
                "AS" | "EXPLAIN"
                    | "ANALYZE"
                    | "VERBOSE"
                    | "DESCRIBE"
                    | "SUMMARIZE"
                    | "UNION"
                    | "ALL"
                    | "EXCEPT"
                    | "INTERSECT"
                    | "NAME"
            ),
            _ => false,
        };
        // `INSERT INTO t PIVOT ..`
        let first = (0..nth).rev().take_while(|&nth| !self.is(nth, &Token::SemiColon)).last();
        let begins = begins || first.is_some_and(|first| self.is_word(first, &["INSERT"]) && first + 3 == nth);
        begins && matches!(self.token(nth + 1), Some(Token::Word(_) | Token::LParen | Token::SingleQuotedString(_)))
    }

    /// The bracket that closes the one at `open`.
    pub(super) fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        (open..self.len()).find(|&nth| {
            match self.token(nth) {
                Some(token) if opens(token) => depth += 1,
                Some(token) if closes(token) => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
    }

    /// The first place from `from` on, in no bracket that opens behind it, of which `wanted` says yes; the end of the bracket, statement or text if it says so of none.
    pub(super) fn find(&self, from: usize, wanted: impl Fn(usize) -> bool) -> usize {
        let mut depth = 0_usize;
        for nth in from..self.len() {
            match self.token(nth) {
                Some(Token::SemiColon | Token::EOF) => return nth,
                Some(token) if closes(token) && depth == 0 => return nth,
                _ if depth == 0 && wanted(nth) => return nth,
                Some(token) if opens(token) => depth += 1,
                Some(token) if closes(token) => depth -= 1,
                _ => {}
            }
        }
        self.len()
    }

    /// The items of `range`, between commas that are in no bracket.
    pub(super) fn items(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let (mut items, mut begin) = (Vec::new(), range.start);
        while begin < range.end {
            let end = self.find(begin, |nth| self.is(nth, &Token::Comma)).min(range.end);
            items.push(begin..end);
            begin = end + 1;
        }
        items
    }

    /// The tokens of `range`, with the blanks in it.
    pub(super) fn text(&self, range: Range<usize>) -> Vec<Token> {
        let at = |nth: usize| self.significant.get(nth).copied();
        let (Some(from), Some(to)) = (at(range.start), range.end.checked_sub(1).and_then(at)) else {
            return Vec::new();
        };
        self.tokens.get(from..=to).unwrap_or_default().iter().map(|token| token.token.clone()).collect()
    }

    /// The tokens with those of each of `ranges`, which are in order, replaced by what stands beside it.
    pub(super) fn replaced(&self, ranges: Vec<(Range<usize>, Vec<Token>)>) -> Vec<TokenWithSpan> {
        let mut all = Vec::with_capacity(self.tokens.len());
        let mut at = 0;
        for (range, new) in ranges {
            let place = |nth: usize| self.significant.get(nth).copied().unwrap_or(self.tokens.len());
            let begin = place(range.start);
            all.extend_from_slice(&self.tokens[at..begin]);
            let span = self.tokens.get(begin).or(self.tokens.last()).map(|token| token.span);
            at = if range.is_empty() { begin } else { place(range.end - 1) + 1 };
            let Some(span) = span else { continue };
            for token in std::iter::once(space()).chain(new).chain([space()]) {
                all.push(TokenWithSpan { token, span });
            }
        }
        all.extend_from_slice(&self.tokens[at..]);
        all
    }
}

fn opens(token: &Token) -> bool {
    matches!(token, Token::LParen | Token::LBracket | Token::LBrace)
}

fn closes(token: &Token) -> bool {
    matches!(token, Token::RParen | Token::RBracket | Token::RBrace)
}

pub(super) fn space() -> Token {
    Token::Whitespace(Whitespace::Space)
}

/// `name(..)` of `args`, of which each is some tokens.
pub(super) fn call_of(name: &str, args: impl IntoIterator<Item = Vec<Token>>) -> Vec<Token> {
    let mut tokens = vec![Token::make_word(name, None), Token::LParen];
    for (nth, arg) in args.into_iter().enumerate() {
        tokens.extend((nth > 0).then_some(Token::Comma));
        tokens.push(space());
        tokens.extend(arg);
    }
    tokens.push(Token::RParen);
    tokens
}
