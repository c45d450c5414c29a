//! Samples: `TABLESAMPLE 10%`, `USING SAMPLE 5 ROWS`, `TABLESAMPLE reservoir(20 ROWS)`.
//!
//! Of these the parser knows some. So each is read among the tokens and written as one that it knows: behind a table `TABLESAMPLE BERNOULLI (10 PERCENT)`, where each row has a
//! chance, `TABLESAMPLE SYSTEM (10 PERCENT)`, for that share of the rows, or `TABLESAMPLE (5 ROWS)`; for a whole `FROM`, as `USING SAMPLE` is, a mark in `QUALIFY` that becomes the sample of its only
//! table, or a condition before the others.
//!
//! Not here: their plans (`samples`).

use datafusion::{
    common::{Result as Planned, plan_err},
    logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning},
    sql::sqlparser::{
        ast::{
            BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Select, TableFactor, TableSample,
            TableSampleKind, TableSampleMethod, TableSampleModifier, TableSampleQuantity, TableSampleSeed,
            TableSampleSeedModifier, TableSampleUnit, Value,
        },
        tokenizer::{Token, TokenWithSpan, Whitespace},
    },
};
use ogee_functions::{Error, Result};

use crate::samples::{Amount, MARK, Sample};

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
        let sample = spec.read()?;
        let span = tokens[at].span;
        let words = if whole { mark_of(sample) } else { words_of(sample) };
        for token in words {
            all.push(TokenWithSpan { token, span });
            all.push(TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span });
        }
        at = spec.at;
    }
    Ok(all)
}

/// `sample` behind a table.
fn words_of(sample: Sample) -> Vec<Token> {
    let (method, number, unit) = match sample.amount {
        Amount::Chance(percent) => (Some("BERNOULLI"), percent.to_string(), "PERCENT"),
        Amount::Share(percent) => (Some("SYSTEM"), percent.to_string(), "PERCENT"),
        Amount::Rows(rows) => (None, rows.to_string(), "ROWS"),
    };
    let mut words = vec![Token::make_keyword("TABLESAMPLE")];
    words.extend(method.map(Token::make_keyword));
    words.extend([Token::LParen, Token::Number(number, false), Token::make_keyword(unit), Token::RParen]);
    if let Some(seed) = sample.seed {
        let seed = Token::Number(seed.to_string(), false);
        words.extend([Token::make_keyword("REPEATABLE"), Token::LParen, seed, Token::RParen]);
    }
    words
}

/// `sample` of a whole `FROM`.
fn mark_of(sample: Sample) -> Vec<Token> {
    let [kind, amount, seed] = sample.words().map(Token::SingleQuotedString);
    let mut words = vec![Token::make_keyword("QUALIFY"), Token::make_word(MARK, None), Token::LParen];
    words.extend([kind, Token::Comma, amount, Token::Comma, seed, Token::RParen]);
    words
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

    fn read(&mut self) -> Result<Sample> {
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
        let mut seed = None;
        if method.is_none() && !bracket && self.peek() == Some(&Token::LParen) {
            let open = self.at;
            self.at += 1;
            method = self.eat_word(METHODS);
            if method.is_none() {
                self.at = open;
            } else {
                if self.eat(&Token::Comma) {
                    seed = Some(self.seed()?);
                }
                if !self.eat(&Token::RParen) {
                    return self.expected("')'");
                }
            }
        }
        if self.eat_word(&["repeatable", "seed"]).is_some() {
            if !self.eat(&Token::LParen) {
                return self.expected("'('");
            }
            seed = Some(self.seed()?);
            if !self.eat(&Token::RParen) {
                return self.expected("')'");
            }
        }
        let Ok(count) = number.parse::<f64>() else { return self.expected("a number") };
        let amount = match (method.as_deref(), is_percent) {
            (_, true) if !(0.0..=100.0).contains(&count) => {
                return Err(Error::Plan(format!("a sample is of 0 to 100 percent, not {number}")));
            }
            (Some("reservoir"), true) => Amount::Share(count),
            (_, true) => Amount::Chance(count),
            (Some("bernoulli" | "row"), false) if !is_rows => {
                return Err(Error::Plan(format!("bernoulli sampling takes a percentage: write {number} PERCENT")));
            }
            (Some("bernoulli"), false) => {
                return Err(Error::Plan("bernoulli sampling takes a percentage; use reservoir for ROWS".to_owned()));
            }
            // A part of a row counts as the row that it is nearest to.
            _ => Amount::Rows(count.round() as u64),
        };
        Ok(Sample { amount, seed })
    }

    fn seed(&mut self) -> Result<u64> {
        let Some(Token::Number(number, _)) = self.peek() else { return self.expected("a seed, a whole number,") };
        let Ok(seed) = number.parse() else { return self.expected("a seed, a whole number,") };
        self.at += 1;
        Ok(seed)
    }
}

/// Has the `FROM` of `select` sampled where `QUALIFY` says so.
pub(super) fn in_select(select: &mut Select) -> Result<()> {
    let Some(sample) = select.qualify.as_ref().and_then(marked) else { return Ok(()) };
    let Some(mark) = select.qualify.take() else { return Ok(()) };
    let alone = matches!(select.from.as_slice(), [table] if table.joins.is_empty());
    if alone
        && let TableFactor::Table { sample: of_table @ None, .. } | TableFactor::Derived { sample: of_table @ None, .. } =
            &mut select.from[0].relation
    {
        *of_table = Some(TableSampleKind::AfterTableAlias(Box::new(sample_of(sample))));
        return Ok(());
    }
    if sample.seed.is_some() {
        let instead = "its rows are in no order; sample its tables, or FROM (SELECT .. ORDER BY ..)";
        return Err(Error::Unsupported(format!("USING SAMPLE of a join with a seed is not supported: {instead}")));
    }
    // Whether a row is in the sample does not depend on whether it is wanted.
    select.selection = Some(match select.selection.take() {
        Some(selection) => {
            let right = Box::new(Expr::Nested(Box::new(selection)));
            Expr::BinaryOp { left: Box::new(mark), op: BinaryOperator::And, right }
        }
        None => mark,
    });
    Ok(())
}

/// The sample that `expr` stands for.
fn marked(expr: &Expr) -> Option<Sample> {
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
    Sample::of_words([args.next()?, args.next()?, args.next()?])
}

fn sample_of(sample: Sample) -> TableSample {
    let (name, value, unit) = match sample.amount {
        Amount::Chance(percent) => (Some(TableSampleMethod::Bernoulli), percent.to_string(), TableSampleUnit::Percent),
        Amount::Share(percent) => (Some(TableSampleMethod::System), percent.to_string(), TableSampleUnit::Percent),
        Amount::Rows(rows) => (None, rows.to_string(), TableSampleUnit::Rows),
    };
    let value = Expr::value(Value::Number(value, false));
    let seed = sample.seed.map(|seed| TableSampleSeed {
        modifier: TableSampleSeedModifier::Repeatable,
        value: Value::Number(seed.to_string(), false).into(),
    });
    TableSample {
        modifier: TableSampleModifier::TableSample,
        name,
        quantity: Some(TableSampleQuantity { parenthesized: true, value, unit: Some(unit) }),
        seed,
        bucket: None,
        offset: None,
    }
}

/// The sample that the parser has as `sample`.
fn read(sample: &TableSample) -> Option<Sample> {
    let TableSample { name, quantity: Some(TableSampleQuantity { value: Expr::Value(count), unit, .. }), seed, .. } =
        sample
    else {
        return None;
    };
    let Value::Number(count, _) = &count.value else { return None };
    let amount = match (unit, name) {
        (Some(TableSampleUnit::Percent), Some(TableSampleMethod::System)) => Amount::Share(count.parse().ok()?),
        (Some(TableSampleUnit::Percent), _) => Amount::Chance(count.parse().ok()?),
        _ => Amount::Rows(count.parse().ok()?),
    };
    let seed = match seed {
        Some(seed) => match &seed.value.value {
            Value::Number(seed, _) => Some(seed.parse().ok()?),
            _ => return None,
        },
        None => None,
    };
    Some(Sample { amount, seed })
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
        let Some(sample) = read(&sample) else {
            return plan_err!("a sample is like TABLESAMPLE 10% or USING SAMPLE 5 ROWS");
        };
        let sampled = sample.of(context.plan(relation)?)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(sampled, None))))
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
            ("FROM t USING SAMPLE 10% (reservoir)", "SELECT * FROM t TABLESAMPLE SYSTEM (10 PERCENT)"),
            (
                "SELECT 1 FROM t TABLESAMPLE BERNOULLI (10 PERCENT) REPEATABLE (42)",
                "SELECT 1 FROM t TABLESAMPLE BERNOULLI (10 PERCENT) REPEATABLE (42)",
            ),
            (
                "SELECT 1 FROM t USING SAMPLE 5 ROWS (reservoir, 377)",
                "SELECT 1 FROM t TABLESAMPLE (5 ROWS) REPEATABLE (377)",
            ),
            (
                "SELECT 1 FROM t, u WHERE x OR y USING SAMPLE 5 ROWS",
                "SELECT 1 FROM t, u WHERE ogee_sample('rows', '5', '') AND (x OR y)",
            ),
            ("SELECT 1 FROM t JOIN u USING (sample)", "SELECT 1 FROM t JOIN u USING(sample)"),
        ] {
            let statement = parse(sql).unwrap().pop().unwrap();
            assert_eq!(statement.to_string(), usual, "{sql}");
        }
        for (sql, named) in [
            ("SELECT 1 FROM t, u USING SAMPLE 10% (system, 377)", "with a seed"),
            ("SELECT 1 FROM t USING SAMPLE 10% (system, x)", "a seed"),
            ("SELECT 1 FROM t TABLESAMPLE 5 REPEATABLE 3", "'(' expected"),
            ("SELECT 1 FROM t TABLESAMPLE BERNOULLI (10)", "PERCENT"),
            ("SELECT 1 FROM t TABLESAMPLE 101%", "0 to 100"),
            ("SELECT 1 FROM t TABLESAMPLE x", "a number expected"),
        ] {
            let Err(error) = parse(sql) else { panic!("{sql}") };
            assert!(error.to_string().contains(named), "{sql}: {error}");
        }
    }
}
