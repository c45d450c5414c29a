//! Statements that the parser does not know as DuckDB writes them: read here, as ones that it knows.
//!
//! * `ATTACH [IF NOT EXISTS] ':memory:' AS y`
//! * `ALTER VIEW v RENAME TO w` is an `ALTER EXTERNAL TABLE`.
//! * `ABORT` is `ROLLBACK`, and `DESCRIBE` alone `SHOW ALL TABLES`.
//!
//! Not here: what they do, and `CREATE` statements (`syntax::created`).

use datafusion::sql::sqlparser::{
    ast::{AlterTableType, Ident, Statement},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

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
