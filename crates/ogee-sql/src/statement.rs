//! The text of a script as statements that DataFusion plans.
//!
//! Not here: their plans (`plan`).

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::{DFParserBuilder, Statement as ParsedStatement},
    sqlparser::{
        ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Statement as SqlStatement, Value, VisitorMut},
        tokenizer::{Token, TokenWithSpan},
    },
};
use ogee_functions::Result;

use crate::{
    asof, depth,
    dialect::OgeeDialect,
    macros,
    spellings::{self, Spellings},
    syntax, system,
};

/// Calls of the parser's within one another: some for each of the levels that are let in, which [`depth::check`] counts.
const PARSER_DEPTH_MAX: usize = 4 * depth::DEPTH_MAX;

/// One parsed statement, and how it spells the names that it gives.
#[derive(Clone, Debug)]
pub struct Statement(pub ParsedStatement, pub Spellings);

impl std::fmt::Display for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Statement {
    /// Whether it sets a setting, or puts one back.
    pub fn changes_setting(&self) -> bool {
        match &self.0 {
            ParsedStatement::Reset(_) => true,
            ParsedStatement::Statement(statement) => matches!(&**statement, SqlStatement::Set(_)),
            _ => false,
        }
    }

    /// The parsed form, for those who treat some statements themselves.
    pub fn parsed(&self) -> &ParsedStatement {
        &self.0
    }

    /// The statement with the values that `value` gives of settings, as which `current_setting('name')` asks for them.
    ///
    /// # Errors
    /// Those of `value`, and a name that is not written out.
    pub fn with_settings<E: From<ogee_functions::Error>>(
        mut self,
        value: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<Self, E> {
        struct Settings<F>(F);

        impl<E: From<ogee_functions::Error>, F: FnMut(&str) -> Result<String, E>> VisitorMut for Settings<F> {
            type Break = E;

            fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<E> {
                let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
                if !function.name.to_string().eq_ignore_ascii_case(CURRENT_SETTING) {
                    return ControlFlow::Continue(());
                }
                let args = match &function.args {
                    FunctionArguments::List(list) => list.args.as_slice(),
                    _ => &[],
                };
                let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(name)))] = args else {
                    return ControlFlow::Break(no_name().into());
                };
                let Value::SingleQuotedString(name) = &name.value else {
                    return ControlFlow::Break(no_name().into());
                };
                match (self.0)(name) {
                    Ok(value) => *expr = Expr::value(literal(value)),
                    Err(error) => return ControlFlow::Break(error),
                }
                ControlFlow::Continue(())
            }
        }

        match syntax::visit(&mut self.0, &mut Settings(value)) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(self),
        }
    }
}

/// The function that gives the value of a setting.
const CURRENT_SETTING: &str = "current_setting";

fn no_name() -> ogee_functions::Error {
    let message = format!("{CURRENT_SETTING} takes the name of a setting, written out: {CURRENT_SETTING}('threads')");
    ogee_functions::Error::Plan(message)
}

/// The value of a setting as the number or truth value that it may be.
fn literal(value: String) -> Value {
    match value.as_str() {
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        digits if digits.parse::<u64>().is_ok() => Value::Number(value, false),
        _ => Value::SingleQuotedString(value),
    }
}

/// The statements of a script.
///
/// # Errors
/// [`ogee_functions::Error::Parse`], also if only a later statement is wrong.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    let (mut tokens, asof_joins) = asof::tokens(sql)?;
    let quoted = spellings::fold(&mut tokens);
    syntax::bare_calls::in_tokens(&mut tokens);
    let tokens = syntax::without_last_commas(syntax::with_whole_texts(tokens));
    let tokens = syntax::named::in_tokens(syntax::explained::in_tokens(tokens));
    let tokens = syntax::altered::in_tokens(tokens);
    let tokens = syntax::upkeep::in_tokens(syntax::variables::in_tokens(syntax::shown::in_tokens(tokens)));
    let tokens = syntax::macros::in_tokens(syntax::positional::in_tokens(tokens));
    let tokens = syntax::copies::in_usual_words(syntax::struct_types::in_tokens(tokens))?;
    let tokens = syntax::columns::in_tokens(syntax::summaries::in_tokens(syntax::pivots::in_tokens(tokens)?));
    let tokens = syntax::star_items::in_tokens(tokens);
    let tokens = syntax::grouping::in_tokens(syntax::exported::in_tokens(tokens)?);
    let tokens = syntax::merges::in_tokens(syntax::inserts::in_tokens(syntax::created::in_tokens(tokens)?));
    let tokens = syntax::prefix_aliases::in_tokens(syntax::limits::in_tokens(tokens));
    let tokens = syntax::from_first::with_selects(syntax::in_tokens(syntax::without_hints(tokens)));
    let tokens = syntax::using_key::in_tokens(syntax::exclusions::in_tokens(syntax::frames::in_tokens(tokens)));
    let tokens = syntax::ordered_windows::in_tokens(syntax::arrays::in_tokens(tokens));
    let tokens = syntax::methods::in_tokens(syntax::filters::with_where(tokens));
    let tokens = syntax::json::in_tokens(tokens);
    let mut tokens = syntax::samples::in_usual_words(tokens)?;
    let is_alias =
        |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case("alias"));
    let names_aliases = tokens.windows(2).any(|pair| is_alias(&pair[0]) && pair[1].token == Token::Period);
    syntax::number_placeholders(&mut tokens);
    depth::check(&tokens)?;
    let parser = DFParserBuilder::new(tokens).with_dialect(&OgeeDialect).with_recursion_limit(PARSER_DEPTH_MAX);
    let mut statements = parser.build()?.parse_statements()?;
    statements.iter_mut().try_for_each(syntax::using_key::write_out)?;
    let spellings: Vec<Spellings> = statements.iter_mut().map(|statement| Spellings::of(statement, &quoted)).collect();
    statements.iter_mut().for_each(spellings::name_files);
    statements.iter_mut().try_for_each(syntax::positional::write_out)?;
    statements.iter_mut().for_each(syntax::methods::write_out);
    statements.iter_mut().try_for_each(syntax::readers::write_out)?;
    statements.iter_mut().try_for_each(system::write_out)?;
    statements.iter_mut().for_each(syntax::json::write_out);
    statements.iter_mut().try_for_each(|statement| syntax::tidy(statement, names_aliases))?;
    statements.iter_mut().for_each(syntax::collations::write_out);
    statements.iter().try_for_each(syntax::refusals::check)?;
    statements.iter().try_for_each(syntax::check_limits)?;
    statements.iter_mut().try_for_each(syntax::schemas::tell_apart)?;
    statements.iter_mut().for_each(syntax::fields::write_out);
    statements.iter().for_each(macros::hide);
    statements.iter_mut().for_each(syntax::translate);
    asof::mark(statements.iter_mut(), asof_joins)?;
    Ok(statements.into_iter().zip(spellings).map(|(statement, names)| Statement(statement, names)).collect())
}
