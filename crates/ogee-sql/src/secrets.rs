//! `CREATE SECRET` and `DROP SECRET` as DuckDB writes them, in the statements that the parser has for them.
//!
//! ```text
//! CREATE [OR REPLACE] [TEMPORARY] SECRET [IF NOT EXISTS] [name] (TYPE s3, KEY_ID '..', SECRET '..', SCOPE ['s3://a', 's3://b'])
//! DROP [TEMPORARY] SECRET [IF EXISTS] name
//! ```
//!
//! A value is a text, a number, a word or a list of texts; of a list each is an option of that name. An error shows none of what is written there.
//!
//! Not here: what secrets say, and who keeps them (`ogee-files`).

use datafusion::sql::sqlparser::{
    ast::{Ident, SecretOption, Statement},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};
use ogee_files::remote::NewSecret;
use ogee_functions::{Error, Result};

use crate::names::normal_name;

type Parsed = std::result::Result<Statement, ParserError>;

/// What a secret is called that was given no name, before its type.
const DEFAULT_NAME: &str = "__default_";

/// The statement whose words before the name, and before `SECRET`, have been taken; `is_temporary` as these say.
///
/// # Errors
/// What follows is no secret.
pub(crate) fn parse_create(parser: &mut Parser, or_replace: bool, temporary: Option<bool>) -> Parsed {
    use Keyword::{EXISTS, IF, IN, NOT};
    let if_not_exists = parser.parse_keywords(&[IF, NOT, EXISTS]);
    let mut name = None;
    if !matches!(parser.peek_token_ref().token, Token::LParen)
        && !matches!(&parser.peek_token_ref().token, Token::Word(word) if word.keyword == IN && word.quote_style.is_none())
    {
        name = Some(word(parser)?);
    }
    let storage_specifier = if parser.parse_keyword(IN) { Some(word(parser)?) } else { None };
    expect(parser, &Token::LParen, "a bracket")?;
    let mut secret_type = None;
    let mut options = Vec::new();
    loop {
        let key = word(parser)?;
        let values = values(parser)?;
        if normal_name(&key) == "type" {
            secret_type = values.into_iter().next();
        } else {
            options.extend(values.into_iter().map(|value| SecretOption { key: key.clone(), value }));
        }
        if !parser.consume_token(&Token::Comma) || parser.peek_token_ref().token == Token::RParen {
            break;
        }
    }
    expect(parser, &Token::RParen, "a comma, or the bracket at the end")?;
    let Some(secret_type) = secret_type else {
        return Err(ParserError::ParserError("a secret has a type: (TYPE s3, ..)".to_owned()));
    };
    Ok(Statement::CreateSecret { or_replace, temporary, if_not_exists, name, storage_specifier, secret_type, options })
}

/// `DROP SECRET` whose words until `SECRET` have been taken.
///
/// # Errors
/// No name follows.
pub(crate) fn parse_drop(parser: &mut Parser, temporary: Option<bool>) -> Parsed {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = word(parser)?;
    let storage_specifier = if parser.parse_keyword(Keyword::FROM) { Some(word(parser)?) } else { None };
    Ok(Statement::DropSecret { if_exists, temporary, name, storage_specifier })
}

fn wrong(parser: &Parser, expected: &str) -> ParserError {
    let place = parser.peek_token_ref().span.start;
    ParserError::ParserError(format!("Expected: {expected}, in a secret{place}"))
}

fn expect(parser: &mut Parser, token: &Token, expected: &str) -> std::result::Result<(), ParserError> {
    match parser.consume_token(token) {
        true => Ok(()),
        false => Err(wrong(parser, expected)),
    }
}

fn word(parser: &mut Parser) -> std::result::Result<Ident, ParserError> {
    match parser.peek_token_ref().token.clone() {
        Token::Word(word) => {
            parser.advance_token();
            Ok(Ident { value: word.value, quote_style: word.quote_style, span: parser.get_current_token().span })
        }
        _ => Err(wrong(parser, "a name")),
    }
}

/// The values of an option.
fn values(parser: &mut Parser) -> std::result::Result<Vec<Ident>, ParserError> {
    if !parser.consume_token(&Token::LBracket) {
        return Ok(vec![value(parser)?]);
    }
    let mut all = Vec::new();
    while parser.peek_token_ref().token != Token::RBracket {
        all.push(value(parser)?);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    expect(parser, &Token::RBracket, "a comma, or the bracket at the end of a list")?;
    Ok(all)
}

fn value(parser: &mut Parser) -> std::result::Result<Ident, ParserError> {
    let value = match parser.peek_token_ref().token.clone() {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Ident::with_quote('\'', text),
        Token::DollarQuotedString(text) => Ident::with_quote('\'', text.value),
        Token::Number(digits, _) => Ident::new(digits),
        Token::Word(_) => return word(parser),
        _ => return Err(wrong(parser, "a text, a number or a word")),
    };
    parser.advance_token();
    Ok(value)
}

/// What a statement does with secrets.
pub enum OfSecret {
    /// One is made.
    Create(NewSecret),
    /// The one of this name goes.
    Drop {
        /// Its name.
        name: String,
        /// It is no error if there is none.
        if_exists: bool,
    },
}

/// What `statement` does with secrets, if it does.
///
/// # Errors
/// One that is to outlive the database.
pub fn of(statement: &Statement) -> Result<Option<OfSecret>> {
    let lives = |temporary: &Option<bool>, storage: &Option<Ident>| {
        let storage = storage.as_ref().map_or_else(|| "memory".to_owned(), normal_name);
        match *temporary != Some(false) && storage == "memory" {
            true => Ok(()),
            false => Err(Error::Unsupported(
                "secrets that are kept are not supported; leave out PERSISTENT and where it is kept, and create it when the database is opened"
                    .to_owned(),
            )),
        }
    };
    match statement {
        Statement::CreateSecret {
            or_replace,
            temporary,
            if_not_exists,
            name,
            storage_specifier,
            secret_type,
            options,
        } => {
            lives(temporary, storage_specifier)?;
            let kind = secret_type.value.to_lowercase();
            let name = name.as_ref().map_or_else(|| format!("{DEFAULT_NAME}{kind}"), normal_name);
            let parameters =
                options.iter().map(|option| (normal_name(&option.key).to_lowercase(), option.value.value.clone()));
            Ok(Some(OfSecret::Create(NewSecret {
                name: name.to_lowercase(),
                kind,
                is_replacing: *or_replace,
                if_not_exists: *if_not_exists,
                parameters: parameters.collect(),
            })))
        }
        Statement::DropSecret { if_exists, temporary, name, storage_specifier } => {
            lives(temporary, storage_specifier)?;
            Ok(Some(OfSecret::Drop { name: normal_name(name).to_lowercase(), if_exists: *if_exists }))
        }
        _ => Ok(None),
    }
}

/// Whether the text `sql` may make a secret, so that nothing of it is to be shown.
pub fn are_in(sql: &str) -> bool {
    let words = sql.split(|character: char| !character.is_alphanumeric() && character != '_');
    // CREATE OR REPLACE PERSISTENT SECRET
    let mut since_create = None;
    words.filter(|word| !word.is_empty()).any(|word| {
        since_create = match word {
            _ if word.eq_ignore_ascii_case("create") => Some(0),
            _ => since_create.map(|words| words + 1).filter(|words| *words < 5),
        };
        since_create.is_some() && word.eq_ignore_ascii_case("secret")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_make_secrets_are_known() {
        for sql in ["create secret (type s3)", "SELECT 1; CREATE OR REPLACE\nPERSISTENT /* */ SECRET IF NOT EXISTS a ("]
        {
            assert!(are_in(sql), "{sql}");
        }
        for sql in ["SELECT secret FROM t", "CREATE TABLE t (a INT); SELECT 1, 2, 3, secret", "DROP SECRET s"] {
            assert!(!are_in(sql), "{sql}");
        }
    }
}
