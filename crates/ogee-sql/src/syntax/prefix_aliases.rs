//! Names before what they name: `SELECT a: x + 1 FROM t: some_table` is `SELECT x + 1 AS a FROM some_table AS t`.
//!
//! Not here: fields of structs in braces, and parameters of lambdas, which have colons too.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Whitespace},
};

/// Where an item of a list is that such a name may begin.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Where an output begins.
    Begin,
    /// Within an output.
    Within,
    /// Elsewhere.
    Outside,
}

/// One pair of brackets, or the statement.
struct Level {
    place: Place,
    /// The name of the output or table that the place is in.
    name: Option<TokenWithSpan>,
    /// Whether what is named are tables.
    from: bool,
}

/// `tokens`, in which outputs have their names behind them.
pub(crate) fn in_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    use Keyword::{
        ALL, ANTI, ASOF, CROSS, DISTINCT, EXCEPT, FROM, FULL, GROUP, HAVING, INNER, INTERSECT, INTO, JOIN, LEFT, LIMIT,
        NATURAL, OFFSET, ON, ORDER, QUALIFY, RIGHT, SELECT, SEMI, TABLESAMPLE, UNION, USING, WHERE, WINDOW,
    };
    if !tokens.iter().any(|token| token.token == Token::Colon) {
        return tokens;
    }
    let mut all: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let mut levels = vec![Level { place: Place::Outside, name: None, from: false }];
    let mut rest = tokens.into_iter().peekable();
    // The word before, if it is one.
    let mut before = Keyword::NoKeyword;
    while let Some(token) = rest.next() {
        let last = before;
        if !matches!(token.token, Token::Whitespace(_)) {
            before = super::keyword(&token.token);
        }
        let Some(level) = levels.last_mut() else { break };
        match &token.token {
            Token::Whitespace(_) => {}
            Token::LParen | Token::LBracket | Token::LBrace => {
                if level.place == Place::Begin {
                    level.place = Place::Within;
                }
                levels.push(Level { place: Place::Outside, name: None, from: false });
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                name_behind(&mut all, level);
                if levels.len() > 1 {
                    levels.pop();
                }
            }
            Token::Comma if level.place != Place::Outside => {
                name_behind(&mut all, level);
                level.place = Place::Begin;
            }
            Token::SemiColon | Token::EOF => {
                name_behind(&mut all, level);
                level.place = Place::Outside;
            }
            Token::SingleQuotedString(name) if level.place == Place::Begin && level.from => {
                level.place = Place::Within;
                let mut ahead = rest.clone().skip_while(|next| matches!(next.token, Token::Whitespace(_)));
                if ahead.next().is_some_and(|next| next.token == Token::Colon) {
                    let name = TokenWithSpan::new(Token::make_word(name, Some('"')), token.span);
                    rest.by_ref().find(|next| next.token == Token::Colon);
                    level.name = Some(name);
                    continue;
                }
            }
            Token::Word(_) => match super::keyword(&token.token) {
                SELECT => {
                    name_behind(&mut all, level);
                    (level.place, level.from) = (Place::Begin, false);
                }
                ALL | DISTINCT if level.place == Place::Begin => {}
                // An operator.
                FROM if last == DISTINCT => {}
                FROM => {
                    name_behind(&mut all, level);
                    (level.place, level.from) = (Place::Begin, true);
                }
                JOIN if level.from => {
                    name_behind(&mut all, level);
                    level.place = Place::Begin;
                }
                INNER | LEFT | RIGHT | FULL | CROSS | NATURAL | ASOF | SEMI | ANTI | ON | USING | TABLESAMPLE
                    if level.from =>
                {
                    name_behind(&mut all, level);
                }
                WHERE | GROUP | HAVING | ORDER | LIMIT | OFFSET | UNION | EXCEPT | INTERSECT | QUALIFY | WINDOW
                | INTO
                    if level.place != Place::Outside =>
                {
                    name_behind(&mut all, level);
                    level.place = Place::Outside;
                }
                _ if level.place == Place::Begin => {
                    level.place = Place::Within;
                    // Blanks may stand before the colon.
                    let mut blanks = Vec::new();
                    while let Some(blank) = rest.next_if(|next| matches!(next.token, Token::Whitespace(_))) {
                        blanks.push(blank);
                    }
                    if rest.next_if(|next| next.token == Token::Colon).is_some() {
                        level.name = Some(token);
                        continue;
                    }
                    all.push(token);
                    all.extend(blanks);
                    continue;
                }
                _ => {}
            },
            _ => {
                if level.place == Place::Begin {
                    level.place = Place::Within;
                }
            }
        }
        all.push(token);
    }
    if let Some(level) = levels.last_mut() {
        name_behind(&mut all, level);
    }
    all
}

/// Writes the name of an output behind it, if it stood before.
fn name_behind(all: &mut Vec<TokenWithSpan>, level: &mut Level) {
    let Some(name) = level.name.take() else { return };
    let space = || Token::Whitespace(Whitespace::Space);
    let said = [space(), Token::make_keyword("AS"), space(), name.token, space()];
    all.extend(said.map(|token| TokenWithSpan::new(token, name.span)));
}
