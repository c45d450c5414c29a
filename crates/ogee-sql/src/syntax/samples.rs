//! Samples: `TABLESAMPLE 10%`, `USING SAMPLE 5 ROWS`, `TABLESAMPLE reservoir(20 ROWS)`.
//!
//! Of these the parser knows some. So each is read among the tokens and written as one that it knows: behind a table `TABLESAMPLE BERNOULLI (10 PERCENT)` or
//! `TABLESAMPLE (5 ROWS)`; for a whole `FROM`, as `USING SAMPLE` is, a mark in `QUALIFY` that is taken out again.
//! A part of the rows is a condition, `random() < 0.1`, for each of them; a number of rows is the first of them in a random order.
//!
//! Not here: samples that come out the same each time, which are refused.

use datafusion::{
    common::{Result as Planned, ScalarValue, plan_err},
    functions::math::random,
    logical_expr::{
        Expr as LogicalExpr, LogicalPlanBuilder, lit,
        planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning},
    },
    sql::sqlparser::{
        ast::{
            BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Select, TableFactor, TableSample,
            TableSampleKind, TableSampleMethod, TableSampleModifier, TableSampleQuantity, TableSampleUnit, Value,
        },
        tokenizer::{Token, TokenWithSpan, Whitespace},
    },
};
use ogee_functions::{Error, Result};

use super::text;
use crate::names::call;

/// Stands in `QUALIFY` for a sample of the whole `FROM`.
const MARK: &str = "ogee_sample";

/// How much of the rows is wanted.
#[derive(Clone, Copy)]
enum Amount {
    Percent(f64),
    Rows(u64),
}

/// `tokens` with samples in words that the parser knows.
///
/// # Errors
/// [`Error::Unsupported`] or [`Error::Plan`] for samples that nobody takes.
pub(crate) fn in_usual_words(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let word = |token: &TokenWithSpan, name: &str| match &token.token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name),
        _ => false,
    };
    if !tokens.iter().any(|token| word(token, "TABLESAMPLE") || word(token, "SAMPLE")) {
        return Ok(tokens);
    }
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut all = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let next = (at + 1..tokens.len()).find(|&at| !is_space(&tokens[at]));
        let (begin, whole) = match next {
            Some(next) if word(&tokens[at], "TABLESAMPLE") => (next, false),
            Some(next) if word(&tokens[at], "USING") && word(&tokens[next], "SAMPLE") => (next + 1, true),
            _ => {
                all.push(tokens[at].clone());
                at += 1;
                continue;
            }
        };
        let mut spec = Spec { tokens: &tokens, at: begin };
        let amount = spec.read()?;
        let span = tokens[at].span;
        let number = |number: String| Token::Number(number, false);
        let words = match (whole, amount) {
            (false, Amount::Percent(percent)) => vec![
                Token::make_keyword("TABLESAMPLE"),
                Token::make_keyword("BERNOULLI"),
                Token::LParen,
                number(percent.to_string()),
                Token::make_keyword("PERCENT"),
                Token::RParen,
            ],
            (false, Amount::Rows(rows)) => vec![
                Token::make_keyword("TABLESAMPLE"),
                Token::LParen,
                number(rows.to_string()),
                Token::make_keyword("ROWS"),
                Token::RParen,
            ],
            (true, amount) => {
                let (unit, count) = match amount {
                    Amount::Percent(percent) => ("percent", percent.to_string()),
                    Amount::Rows(rows) => ("rows", rows.to_string()),
                };
                vec![
                    Token::make_keyword("QUALIFY"),
                    Token::make_word(MARK, None),
                    Token::LParen,
                    Token::SingleQuotedString(unit.to_owned()),
                    Token::Comma,
                    Token::SingleQuotedString(count),
                    Token::RParen,
                ]
            }
        };
        for token in words {
            all.push(TokenWithSpan { token, span });
            all.push(TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span });
        }
        at = spec.at;
    }
    Ok(all)
}

/// Reads what stands behind `SAMPLE`.
struct Spec<'a> {
    tokens: &'a [TokenWithSpan],
    at: usize,
}

impl Spec<'_> {
    /// The next token that is not space, which stays.
    fn peek(&mut self) -> Option<&Token> {
        while matches!(self.tokens.get(self.at)?.token, Token::Whitespace(_)) {
            self.at += 1;
        }
        self.tokens.get(self.at).map(|token| &token.token)
    }

    fn eat(&mut self, token: &Token) -> bool {
        let there = self.peek() == Some(token);
        self.at += usize::from(there);
        there
    }

    fn eat_word(&mut self, words: &[&str]) -> Option<String> {
        let Some(Token::Word(word)) = self.peek() else { return None };
        let word = word.value.to_ascii_lowercase();
        let there = words.contains(&word.as_str());
        self.at += usize::from(there);
        there.then_some(word)
    }

    fn expected<T>(&mut self, what: &str) -> Result<T> {
        let found = self.peek().map_or("the end".to_owned(), ToString::to_string);
        Err(Error::Plan(format!(
            "a sample is like TABLESAMPLE 10% or USING SAMPLE 5 ROWS; {what} expected, found {found}"
        )))
    }

    fn read(&mut self) -> Result<Amount> {
        const METHODS: &[&str] = &["bernoulli", "system", "reservoir", "row", "block"];
        let before = self.eat_word(METHODS);
        let bracket = self.eat(&Token::LParen);
        let Some(Token::Number(number, _)) = self.peek().cloned() else { return self.expected("a number") };
        self.at += 1;
        let is_percent = self.eat(&Token::Mod) || self.eat_word(&["percent"]).is_some();
        let is_rows = !is_percent && self.eat_word(&["rows"]).is_some();
        if bracket && !self.eat(&Token::RParen) {
            return self.expected("')'");
        }
        let mut method = before;
        let mut seeded = false;
        if method.is_none() && !bracket && self.peek() == Some(&Token::LParen) {
            let open = self.at;
            self.at += 1;
            method = self.eat_word(METHODS);
            if method.is_none() {
                self.at = open;
            } else {
                seeded = self.eat(&Token::Comma);
                self.at += usize::from(seeded && matches!(self.peek(), Some(Token::Number(..))));
                if !self.eat(&Token::RParen) {
                    return self.expected("')'");
                }
            }
        }
        seeded |= self.eat_word(&["repeatable", "seed"]).is_some();
        if seeded {
            let instead = "use a condition on a key, such as WHERE id % 10 = 0";
            return Err(Error::Unsupported(format!("a sample with a seed is not supported; {instead}")));
        }
        let Ok(count) = number.parse::<f64>() else { return self.expected("a number") };
        match (method.as_deref(), is_percent) {
            (Some("reservoir"), true) => Err(Error::Unsupported(
                "reservoir sampling of a percentage is not supported; use bernoulli, or a number of ROWS".to_owned(),
            )),
            (_, true) if !(0.0..=100.0).contains(&count) => {
                Err(Error::Plan(format!("a sample is of 0 to 100 percent, not {number}")))
            }
            (_, true) => Ok(Amount::Percent(count)),
            (Some("bernoulli" | "row"), false) if !is_rows => {
                Err(Error::Plan(format!("bernoulli sampling takes a percentage: write {number} PERCENT")))
            }
            (Some("bernoulli"), false) => {
                Err(Error::Plan("bernoulli sampling takes a percentage; use reservoir for ROWS".to_owned()))
            }
            _ => Ok(Amount::Rows(count as u64)),
        }
    }
}

/// Has the `FROM` of `select` sampled where `QUALIFY` says so.
pub(super) fn in_select(select: &mut Select) -> Result<()> {
    let Some(amount) = select.qualify.as_ref().and_then(marked) else { return Ok(()) };
    select.qualify = None;
    let alone = matches!(select.from.as_slice(), [table] if table.joins.is_empty());
    if alone
        && let TableFactor::Table { sample: sample @ None, .. } | TableFactor::Derived { sample: sample @ None, .. } =
            &mut select.from[0].relation
    {
        *sample = Some(TableSampleKind::AfterTableAlias(Box::new(sample_of(amount))));
        return Ok(());
    }
    let Amount::Percent(percent) = amount else {
        let instead = "use FROM (SELECT * FROM ..) USING SAMPLE n ROWS";
        return Err(Error::Unsupported(format!("USING SAMPLE of ROWS of a join is not supported; {instead}")));
    };
    // Whether a row is in the sample does not depend on whether it is wanted.
    let (left, right) = (call("random", Vec::new()), text(&(percent / 100.0).to_string()));
    let part = super::to_double(Box::new(right));
    let mut condition = Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::Lt, right: Box::new(part) };
    if let Some(selection) = select.selection.take() {
        let right = Box::new(Expr::Nested(Box::new(selection)));
        condition = Expr::BinaryOp { left: Box::new(condition), op: BinaryOperator::And, right };
    }
    select.selection = Some(condition);
    Ok(())
}

/// The sample that `expr` stands for.
fn marked(expr: &Expr) -> Option<Amount> {
    let Expr::Function(function) = expr else { return None };
    if function.name.to_string() != MARK {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let mut args = list.args.iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.as_str()),
            _ => None,
        },
        _ => None,
    });
    match (args.next()?, args.next()?) {
        ("percent", percent) => percent.parse().ok().map(Amount::Percent),
        (_, rows) => rows.parse().ok().map(Amount::Rows),
    }
}

fn sample_of(amount: Amount) -> TableSample {
    let (name, value, unit) = match amount {
        Amount::Percent(percent) => (Some(TableSampleMethod::Bernoulli), percent.to_string(), TableSampleUnit::Percent),
        Amount::Rows(rows) => (None, rows.to_string(), TableSampleUnit::Rows),
    };
    let value = Expr::value(Value::Number(value, false));
    TableSample {
        modifier: TableSampleModifier::TableSample,
        name,
        quantity: Some(TableSampleQuantity { parenthesized: true, value, unit: Some(unit) }),
        seed: None,
        bucket: None,
        offset: None,
    }
}

/// Plans tables with samples.
#[derive(Debug)]
pub(crate) struct SamplePlanner;

impl RelationPlanner for SamplePlanner {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Planned<RelationPlanning> {
        let sample = match &mut relation {
            TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. } => sample.take(),
            _ => None,
        };
        let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let TableSample {
            name: _, quantity: Some(TableSampleQuantity { value: Expr::Value(count), unit, .. }), ..
        } = *sample
        else {
            return plan_err!("a sample is like TABLESAMPLE 10% or USING SAMPLE 5 ROWS");
        };
        let Value::Number(count, _) = count.value else {
            return plan_err!("a sample is of a number of rows or percents");
        };
        let rows = LogicalPlanBuilder::from(context.plan(relation)?);
        let random: LogicalExpr = random().call(Vec::new());
        let sampled = match unit {
            Some(TableSampleUnit::Percent) => {
                let Ok(percent) = count.parse::<f64>() else { return plan_err!("{count} is no percentage") };
                rows.filter(random.lt(lit(ScalarValue::Float64(Some(percent / 100.0)))))?
            }
            _ => {
                let Ok(count) = count.parse::<usize>() else { return plan_err!("{count} is no number of rows") };
                rows.sort([random.sort(true, true)])?.limit(0, Some(count))?
            }
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(sampled.build()?, None))))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::statement::parse;

    #[test]
    fn samples_are_written_in_one_way() {
        for (sql, usual) in [
            ("SELECT 1 FROM t TABLESAMPLE 10%", "SELECT 1 FROM t TABLESAMPLE BERNOULLI (10 PERCENT)"),
            (
                "SELECT 1 FROM t AS u TABLESAMPLE SYSTEM (2.5 PERCENT)",
                "SELECT 1 FROM t AS u TABLESAMPLE BERNOULLI (2.5 PERCENT)",
            ),
            ("SELECT 1 FROM t TABLESAMPLE 5", "SELECT 1 FROM t TABLESAMPLE (5 ROWS)"),
            ("SELECT 1 FROM t TABLESAMPLE reservoir(5)", "SELECT 1 FROM t TABLESAMPLE (5 ROWS)"),
            (
                "SELECT 1 FROM t WHERE x USING SAMPLE 5 ROWS LIMIT 2",
                "SELECT 1 FROM t TABLESAMPLE (5 ROWS) WHERE x LIMIT 2",
            ),
            ("FROM t USING SAMPLE 10 PERCENT (bernoulli)", "SELECT * FROM t TABLESAMPLE BERNOULLI (10 PERCENT)"),
            ("SELECT 1 FROM t JOIN u USING (sample)", "SELECT 1 FROM t JOIN u USING(sample)"),
        ] {
            let statement = parse(sql).unwrap().pop().unwrap();
            assert_eq!(statement.to_string(), usual, "{sql}");
        }
        for (sql, named) in [
            ("SELECT 1 FROM t TABLESAMPLE BERNOULLI (10 PERCENT) REPEATABLE (42)", "with a seed"),
            ("SELECT 1 FROM t USING SAMPLE 10% (system, 377)", "with a seed"),
            ("SELECT 1 FROM t USING SAMPLE 10% (reservoir)", "reservoir"),
            ("SELECT 1 FROM t TABLESAMPLE BERNOULLI (10)", "PERCENT"),
            ("SELECT 1 FROM t TABLESAMPLE 101%", "0 to 100"),
            ("SELECT 1 FROM t, u USING SAMPLE 5 ROWS", "ROWS of a join"),
            ("SELECT 1 FROM t TABLESAMPLE x", "a number expected"),
        ] {
            let Err(error) = parse(sql) else { panic!("{sql}") };
            assert!(error.to_string().contains(named), "{sql}: {error}");
        }
    }
}
