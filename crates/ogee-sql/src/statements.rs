//! Statements that the parser does not know as DuckDB writes them: read here, as ones that it knows.
//!
//! * `ATTACH [IF NOT EXISTS] ':memory:' AS y`
//! * `ALTER VIEW v RENAME TO w` is an `ALTER EXTERNAL TABLE`.
//! * `CREATE TYPE t AS INTEGER` and `CREATE TYPE t AS ENUM ('a')` are a `CREATE DOMAIN`, where `COLLATE` says that it takes the place of another, or does not. Of an `ENUM` of a query the
//!   type has the text of that.
//! * `ABORT` is `ROLLBACK`, and `DESCRIBE` alone `SHOW ALL TABLES`.
//!
//! Not here: what they do, and other `CREATE` statements (`syntax::created`).

use datafusion::sql::sqlparser::{
    ast::{AlterTableType, CreateDomain, DataType, Ident, ObjectName, Statement},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use crate::syntax::created::CREATE_TYPE;

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
        (first, _) if first.eq_ignore_ascii_case(CREATE_TYPE) => Some(create_type(parser)),
        _ => None,
    }
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

/// `CREATE [OR REPLACE] TYPE [IF NOT EXISTS] name AS type`
fn create_type(parser: &mut Parser) -> Parsed {
    use Keyword::{AS, ENUM, EXISTS, FROM, IF, NOT, OR, REPLACE, SELECT, TEMP, TEMPORARY, TYPE, VALUES, WITH};
    parser.advance_token();
    let replaces = parser.parse_keywords(&[OR, REPLACE]);
    let _is_temporary = parser.parse_one_of_keywords(&[TEMP, TEMPORARY]).is_some();
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
