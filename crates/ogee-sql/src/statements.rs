//! Statements that the parser does not know as DuckDB writes them: read here, as ones that it knows.
//!
//! * `ATTACH [IF NOT EXISTS] ':memory:' AS y`
//! * `ALTER VIEW v RENAME TO w` is an `ALTER EXTERNAL TABLE`.
//! * `CREATE TYPE t AS INTEGER` and `CREATE TYPE t AS ENUM ('a')` are a `CREATE DOMAIN`, where `COLLATE` says that it takes the place of another, or does not. Of an `ENUM` of a query the
//!   type has the text of that.
//! * `CREATE SECRET` and `DROP SECRET` are read in `secrets`.
//! * `ABORT` is `ROLLBACK`, and `DESCRIBE` alone `SHOW ALL TABLES`.
//!
//! Not here: what they do, and other `CREATE` statements (`syntax::created`).

use datafusion::sql::sqlparser::{
    ast::{AlterTableType, CreateDomain, DataType, Ident, ObjectName, Statement},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use crate::{secrets, syntax::created::OWN_CREATE};

type Parsed = Result<Statement, ParserError>;

/// The statement that begins here, if it is one of those.
pub(crate) fn parse(parser: &mut Parser) -> Option<Parsed> {
    let words = parser.peek_tokens_ref::<2>().map(|token| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    });
    let [first, second] = words.each_ref().map(String::as_str);
    let ends = |nth: usize| matches!(parser.peek_nth_token_ref(nth).token, Token::SemiColon | Token::EOF);
    match (first, second) {
        ("ATTACH", _) => {
            parser.advance_token();
            Some(parser.parse_attach_duckdb_database())
        }
        ("ABORT", _) if ends(1) || ["TRANSACTION", "WORK"].contains(&second) => {
            parser.advance_token();
            if !second.is_empty() && parser.peek_token_ref().token != Token::SemiColon {
                parser.advance_token();
            }
            Some(Ok(Statement::Rollback { chain: false, savepoint: None }))
        }
        ("DESCRIBE" | "DESC", _) if ends(1) => {
            parser.advance_token();
            Some(Ok(Statement::ShowVariable { variable: vec![Ident::new("ALL"), Ident::new("TABLES")] }))
        }
        ("ALTER", "VIEW") => view(parser),
        ("DROP", _) => drop_secret(parser),
        (first, _) if first.eq_ignore_ascii_case(OWN_CREATE) => Some(create(parser)),
        _ => None,
    }
}

/// `DROP [TEMPORARY] SECRET ..`
fn drop_secret(parser: &mut Parser) -> Option<Parsed> {
    use Keyword::{PERSISTENT, SECRET, TEMP, TEMPORARY};
    let is = |nth: usize, known: &[Keyword]| matches!(&parser.peek_nth_token_ref(nth).token, Token::Word(word) if known.contains(&word.keyword) && word.quote_style.is_none());
    let is_secret = is(1, &[SECRET]) || is(1, &[TEMP, TEMPORARY, PERSISTENT]) && is(2, &[SECRET]);
    if !is_secret {
        return None;
    }
    let _drop = parser.parse_keyword(Keyword::DROP);
    let temporary = lifetime(parser);
    match parser.expect_keyword_is(Keyword::SECRET) {
        Ok(()) => Some(secrets::parse_drop(parser, temporary)),
        Err(error) => Some(Err(error)),
    }
}

/// Whether it is said that something goes with its session, or outlives it.
fn lifetime(parser: &mut Parser) -> Option<bool> {
    use Keyword::{PERSISTENT, TEMP, TEMPORARY};
    parser.parse_one_of_keywords(&[TEMP, TEMPORARY, PERSISTENT]).map(|said| said != PERSISTENT)
}

/// `ALTER VIEW v RENAME TO w`
fn view(parser: &mut Parser) -> Option<Parsed> {
    let renames = (2..10).any(
        |nth| matches!(&parser.peek_nth_token_ref(nth).token, Token::Word(word) if word.keyword == Keyword::RENAME),
    );
    if !renames {
        return None;
    }
    (0..2).for_each(|_| parser.advance_token());
    Some(parser.parse_alter_table(false).map(|statement| match statement {
        Statement::AlterTable(mut alter) => {
            alter.table_type = Some(AlterTableType::External);
            Statement::AlterTable(alter)
        }
        other => other,
    }))
}

/// That a type takes the place of another, where `CREATE DOMAIN` has its collation.
pub(crate) const REPLACES: &str = "or_replace";
/// That it does not.
pub(crate) const UNLESS_EXISTS: &str = "if_not_exists";

/// Whether what stands for a collation says what becomes of a type that there is.
pub(crate) fn is_said(collation: &Ident) -> bool {
    [REPLACES, UNLESS_EXISTS].contains(&collation.value.as_str())
}

/// What begins as DataFusion's parser does not let the parser's own begin: a type, or a secret.
fn create(parser: &mut Parser) -> Parsed {
    parser.advance_token();
    let replaces = parser.parse_keywords(&[Keyword::OR, Keyword::REPLACE]);
    let temporary = lifetime(parser);
    match parser.parse_keyword(Keyword::SECRET) {
        true => secrets::parse_create(parser, replaces, temporary),
        false => create_type(parser, replaces),
    }
}

/// `CREATE [OR REPLACE] TYPE [IF NOT EXISTS] name AS type`, from the type on.
fn create_type(parser: &mut Parser, replaces: bool) -> Parsed {
    use Keyword::{AS, ENUM, EXISTS, FROM, IF, NOT, SELECT, TYPE, VALUES, WITH};
    parser.expect_keyword_is(TYPE)?;
    let unless_exists = parser.parse_keywords(&[IF, NOT, EXISTS]);
    let name = parser.parse_object_name(false)?;
    parser.expect_keyword_is(AS)?;
    let is_keyword = |parser: &Parser, nth: usize, keywords: &[Keyword]| matches!(&parser.peek_nth_token_ref(nth).token, Token::Word(word) if keywords.contains(&word.keyword));
    let of_query = is_keyword(parser, 0, &[ENUM])
        && parser.peek_nth_token_ref(1).token == Token::LParen
        && is_keyword(parser, 2, &[SELECT, FROM, VALUES, WITH]);
    let data_type = match of_query {
        true => {
            parser.advance_token();
            parser.expect_token(&Token::LParen)?;
            let query = parser.parse_query()?;
            parser.expect_token(&Token::RParen)?;
            DataType::Custom(ObjectName::from(vec![Ident::new("ENUM")]), vec![query.to_string()])
        }
        false => parser.parse_data_type()?,
    };
    let said = match (replaces, unless_exists) {
        (true, _) => Some(REPLACES),
        (_, true) => Some(UNLESS_EXISTS),
        _ => None,
    };
    let collation = said.map(Ident::new);
    Ok(Statement::CreateDomain(CreateDomain { name, data_type, collation, default: None, constraints: Vec::new() }))
}
