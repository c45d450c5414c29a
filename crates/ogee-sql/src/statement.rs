//! The text of a script as statements that DataFusion plans.
//!
//! Not here: their plans (`plan`).

use datafusion::sql::parser::{DFParserBuilder, Statement as ParsedStatement};
use ogee_functions::Result;

use crate::{
    asof, depth,
    dialect::OgeeDialect,
    macros,
    spellings::{self, Spellings},
    syntax,
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
    /// The parsed form, for those who treat some statements themselves.
    pub fn parsed(&self) -> &ParsedStatement {
        &self.0
    }
}

/// The statements of a script.
///
/// # Errors
/// [`ogee_functions::Error::Parse`], also if only a later statement is wrong.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    let (mut tokens, asof_joins) = asof::tokens(sql)?;
    let quoted = spellings::fold(&mut tokens);
    let tokens = syntax::lists::in_tokens(syntax::upkeep::in_tokens(syntax::variables::in_tokens(tokens)));
    let tokens = syntax::macros::in_tokens(syntax::positional::in_tokens(tokens));
    let tokens = syntax::copies::in_usual_words(syntax::struct_types::in_tokens(tokens))?;
    let tokens = syntax::columns::in_tokens(syntax::summaries::in_tokens(syntax::pivots::in_tokens(tokens)?));
    let tokens = syntax::merges::in_tokens(syntax::inserts::in_tokens(syntax::created::in_tokens(tokens)?));
    let tokens = syntax::prefix_aliases::in_tokens(syntax::limits::in_tokens(tokens));
    let tokens = syntax::from_first::with_selects(syntax::in_tokens(syntax::without_hints(tokens)));
    let tokens = syntax::exclusions::in_tokens(tokens);
    let tokens = syntax::methods::in_tokens(syntax::filters::with_where(tokens));
    let tokens = syntax::json::in_tokens(tokens);
    let mut tokens = syntax::samples::in_usual_words(tokens)?;
    syntax::number_placeholders(&mut tokens);
    depth::check(&tokens)?;
    let parser = DFParserBuilder::new(tokens).with_dialect(&OgeeDialect).with_recursion_limit(PARSER_DEPTH_MAX);
    let mut statements = parser.build()?.parse_statements()?;
    let spellings: Vec<Spellings> = statements.iter_mut().map(|statement| Spellings::of(statement, &quoted)).collect();
    statements.iter_mut().for_each(spellings::name_files);
    statements.iter_mut().try_for_each(syntax::positional::write_out)?;
    statements.iter_mut().for_each(syntax::methods::write_out);
    statements.iter_mut().try_for_each(syntax::readers::write_out)?;
    statements.iter_mut().for_each(syntax::json::write_out);
    statements.iter_mut().try_for_each(syntax::tidy)?;
    statements.iter().try_for_each(syntax::refusals::check)?;
    statements.iter().try_for_each(syntax::check_limits)?;
    statements.iter_mut().try_for_each(syntax::schemas::tell_apart)?;
    statements.iter_mut().for_each(syntax::fields::write_out);
    statements.iter().for_each(macros::hide);
    statements.iter_mut().for_each(syntax::translate);
    asof::mark(statements.iter_mut(), asof_joins)?;
    Ok(statements.into_iter().zip(spellings).map(|(statement, names)| Statement(statement, names)).collect())
}
