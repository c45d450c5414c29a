//! Lists that are made of another: `[x * 2 FOR x IN l IF x > 1]` is `list_transform(list_filter(l, x -> x > 1), x -> x * 2)`.
//!
//! With places, `[x + i FOR x, i IN l IF c]`, those are the ones before elements are left out: each is made a list of one or NULL, `flatten(list_filter(list_transform(l, (x, i) ->
//! CASE WHEN c THEN [x + i] END), made -> made IS NOT NULL))`.
//!
//! Not here: lambdas, which the parser knows.

use datafusion::sql::sqlparser::{
    ast::{
        Array, CaseWhen, Expr, Ident, LambdaFunction, LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens,
        helpers::attached_token::AttachedToken,
    },
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use crate::names::call;

/// The list, if the parser is before such a one.
pub(crate) fn parse_prefix(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    is_comprehension(parser).then(|| parse(parser))
}

/// Whether a bracket is next with a `FOR` in it, not in one within.
fn is_comprehension(parser: &Parser) -> bool {
    if parser.peek_token_ref().token != Token::LBracket {
        return false;
    }
    let mut open = 0_usize;
    for nth in 0.. {
        match &parser.peek_nth_token_no_skip(nth).token {
            Token::LBracket | Token::LParen | Token::LBrace => open += 1,
            Token::RBracket | Token::RParen | Token::RBrace if open <= 1 => return false,
            Token::RBracket | Token::RParen | Token::RBrace => open -= 1,
            Token::Word(word) if word.keyword == Keyword::FOR && open == 1 => return true,
            Token::EOF | Token::SemiColon => return false,
            _ => {}
        }
    }
    false
}

fn parse(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LBracket)?;
    let value = parser.parse_expr()?;
    parser.expect_keyword(Keyword::FOR)?;
    let names = parser.parse_comma_separated(Parser::parse_identifier)?;
    parser.expect_keyword(Keyword::IN)?;
    let mut list = parser.parse_expr()?;
    if parser.parse_keyword(Keyword::IF) {
        let condition = parser.parse_expr()?;
        if names.len() > 1 {
            parser.expect_token(&Token::RBracket)?;
            return Ok(with_places(&names, value, list, condition));
        }
        list = call("list_filter", vec![list, lambda(&names, condition)]);
    }
    parser.expect_token(&Token::RBracket)?;
    Ok(call("list_transform", vec![list, lambda(&names, value)]))
}

/// What is made of the elements of `list` and of their places where `condition` is true.
fn with_places(names: &[Ident], value: Expr, list: Expr, condition: Expr) -> Expr {
    let made = Ident::new("made");
    let value = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: Expr::Array(Array { elem: vec![value], named: false }) }],
        else_result: None,
    };
    let all = call("list_transform", vec![list, lambda(names, value)]);
    let is_made = Expr::IsNotNull(Box::new(Expr::Identifier(made.clone())));
    call("flatten", vec![call("list_filter", vec![all, lambda(&[made], is_made)])])
}

fn lambda(names: &[Ident], body: Expr) -> Expr {
    let parameter = |name: &Ident| LambdaFunctionParameter { name: name.clone(), data_type: None };
    let params = match names {
        [name] => OneOrManyWithParens::One(parameter(name)),
        names => OneOrManyWithParens::Many(names.iter().map(parameter).collect()),
    };
    Expr::Lambda(LambdaFunction { params, body: Box::new(body), syntax: LambdaSyntax::Arrow })
}
