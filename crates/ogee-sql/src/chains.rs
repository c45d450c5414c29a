//! Long chains of `AND` and of `OR`, parsed into trees that are as shallow as can be.
//!
//! The parser makes a tree of `a OR b OR c OR ...` that is as deep as the chain is long, and each rule that looks at types or nullability below a node walks the rest of the chain
//! from each node of it. Both operators are associative, also where values are unknown, so that a balanced tree means the same. Operands keep their order.
//!
//! What compares one column with constants, as people and programs write who do not know of `IN`, becomes a list of them: `x = 1 OR x = 2` is `x IN (1, 2)`, and
//! `x <> 1 AND x <> 2` is `x NOT IN (1, 2)`.
//!
//! Not here: chains of operators whose order counts, which may not be that long (`depth`).

use datafusion::sql::sqlparser::{
    ast::{BinaryOperator, Expr, Value},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

/// Operands of a chain that stays as it is parsed. Shorter ones are planned in no time, and look as they always did.
const SHORT_MAX: usize = 16;

/// Goes on with the chain whose first operands are `left`, if it is long.
pub(crate) fn parse_infix(parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
    let (keyword, op) = match &parser.peek_token_ref().token {
        Token::Word(word) if word.keyword == Keyword::AND => (Keyword::AND, BinaryOperator::And),
        Token::Word(word) if word.keyword == Keyword::OR => (Keyword::OR, BinaryOperator::Or),
        _ => return None,
    };
    let operands = operands(left, &op)?;
    let rest = || -> Result<Expr, ParserError> {
        let mut operands = operands;
        while parser.parse_keyword(keyword) {
            operands.push(parser.parse_subexpr(precedence)?);
        }
        Ok(balanced(&mut with_lists(operands, &op).into_iter(), &op))
    };
    Some(rest())
}

/// The operands of `chain`, if there are as many as a short one has.
fn operands(chain: &Expr, op: &BinaryOperator) -> Option<Vec<Expr>> {
    let mut operands = Vec::new();
    let mut first = chain;
    while let Expr::BinaryOp { left, op: this, right } = first
        && this == op
    {
        operands.push(&**right);
        first = left;
    }
    operands.push(first);
    (operands.len() >= SHORT_MAX).then(|| operands.into_iter().rev().cloned().collect())
}

fn balanced(operands: &mut std::vec::IntoIter<Expr>, op: &BinaryOperator) -> Expr {
    fn tree(operands: &mut std::vec::IntoIter<Expr>, count: usize, op: &BinaryOperator) -> Expr {
        if count == 1 {
            return operands.next().expect("as many as were counted");
        }
        let left = Box::new(tree(operands, count.div_ceil(2), op));
        let right = Box::new(tree(operands, count / 2, op));
        Expr::BinaryOp { left, op: op.clone(), right }
    }
    let count = operands.len();
    tree(operands, count, op)
}

/// `operands`, with lists for what compares one column with constants of one kind, one operand after the other.
fn with_lists(operands: Vec<Expr>, op: &BinaryOperator) -> Vec<Expr> {
    let (compares, negated) = match op {
        BinaryOperator::And => (BinaryOperator::NotEq, true),
        _ => (BinaryOperator::Eq, false),
    };
    let mut all: Vec<Expr> = Vec::with_capacity(operands.len());
    let mut operands = operands.into_iter().peekable();
    while let Some(operand) = operands.next() {
        let Some((column, constant)) = compared(&operand, &compares) else {
            all.push(operand);
            continue;
        };
        let mut list = vec![constant.clone()];
        let same = |next: &Expr| {
            compared(next, &compares).is_some_and(|(other, value)| other == column && kind(value) == kind(constant))
        };
        while let Some(Expr::BinaryOp { right, .. }) = operands.next_if(same) {
            list.push(*right);
        }
        let expr = Box::new(column.clone());
        all.push(if list.len() == 1 { operand } else { Expr::InList { expr, list, negated } });
    }
    all
}

/// The column and the constant that `expr` compares by `op`.
fn compared<'a>(expr: &'a Expr, op: &BinaryOperator) -> Option<(&'a Expr, &'a Expr)> {
    let Expr::BinaryOp { left, op: this, right } = expr else { return None };
    let is_column = matches!(**left, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    (this == op && is_column && kind(right).is_some()).then_some((&**left, &**right))
}

/// Constants of one kind have one type with any column.
fn kind(constant: &Expr) -> Option<u8> {
    let Expr::Value(value) = constant else { return None };
    match &value.value {
        Value::Number(digits, _) if digits.len() <= 18 && digits.bytes().all(|digit| digit.is_ascii_digit()) => Some(0),
        Value::SingleQuotedString(_) => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::dialect::OgeeDialect;

    fn parsed(sql: &str) -> Expr {
        Parser::new(&OgeeDialect).try_with_sql(sql).unwrap().parse_expr().unwrap()
    }

    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
            _ => 0,
        }
    }

    #[test]
    fn long_chains_are_shallow_and_say_the_same() {
        for (each, of) in [("a > {}", "AND"), ("a > {}", "OR"), ("a > {} AND b < {}", "OR"), ("NOT a > {}", "AND")] {
            let operands: Vec<String> = (0..5000).map(|i| each.replace("{}", &i.to_string())).collect();
            let sql = operands.join(&format!(" {of} "));
            let expr = parsed(&sql);
            assert_eq!(expr.to_string(), sql);
            assert!(depth(&expr) <= 16, "{}", depth(&expr));
        }
        let short = "a = 1 OR a = 2 OR a = 3";
        assert_eq!(parsed(short).to_string(), short);
    }

    #[test]
    fn comparisons_of_a_column_become_lists() {
        let digits: Vec<String> = (0..20).map(|i| i.to_string()).collect();
        let list = digits.join(", ");
        let chain = |each: &str, of: &str| {
            digits.iter().map(|digit| each.replace("{}", digit)).collect::<Vec<_>>().join(&format!(" {of} "))
        };
        let equal = chain("t.a = {}", "OR");
        assert_eq!(parsed(&equal).to_string(), format!("t.a IN ({list})"));
        assert_eq!(parsed(&chain("a <> {}", "AND")).to_string(), format!("a NOT IN ({list})"));
        assert_eq!(
            parsed(&format!("{equal} OR b = 1 OR t.a = 'x'")).to_string(),
            format!("t.a IN ({list}) OR b = 1 OR t.a = 'x'")
        );
        let both = format!("a IN (1, 2) AND {}", chain("a <> {}", "AND"));
        assert_eq!(parsed(&both).to_string(), format!("a IN (1, 2) AND a NOT IN ({list})"));
        for other in ["a = {} + 0", "a = {}.5", "{} = a", "a + 1 = {}", "a <> {}"] {
            let chain = chain(other, "OR");
            assert_eq!(parsed(&chain).to_string(), chain);
        }
    }
}
