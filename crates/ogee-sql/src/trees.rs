//! Walks through plans and expressions, by way of functions that are given as pointers.
//!
//! DataFusion's walks are made anew for each function that is given to one: taking a plan apart and putting it together, with its expressions and subqueries, is ten thousand
//! lines of LLVM's each time. Those of seventy rules were two thirds of this crate's code, and of the time that compiling it took. Here each is made once.
//!
//! Not here: what is done at the nodes.

use datafusion::{
    common::tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    error::Result,
    logical_expr::{Expr, LogicalPlan},
};

/// What became of a node.
type Rewritten<T> = Result<Transformed<T>>;

/// A plan without its subqueries, or an expression.
pub(crate) trait Tree: TreeNode {
    /// `self` with `rewrite` done to all of its nodes, from the bottom.
    fn up(self, mut rewrite: impl FnMut(Self) -> Rewritten<Self>) -> Rewritten<Self> {
        up(self, &mut rewrite)
    }

    /// `self` with `rewrite` done to all of its nodes, from the top.
    fn down(self, mut rewrite: impl FnMut(Self) -> Rewritten<Self>) -> Rewritten<Self> {
        down(self, &mut rewrite)
    }

    /// Shows all nodes to `look`, from the top.
    fn each<'n>(&'n self, mut look: impl FnMut(&'n Self) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        each(self, &mut look)
    }

    /// Whether a node is `wanted`.
    fn has(&self, mut wanted: impl FnMut(&Self) -> Result<bool>) -> Result<bool> {
        has(self, &mut wanted)
    }
}

impl<T: TreeNode> Tree for T {}

fn up<T: TreeNode>(tree: T, rewrite: &mut dyn FnMut(T) -> Rewritten<T>) -> Rewritten<T> {
    tree.transform_up(rewrite)
}

fn down<T: TreeNode>(tree: T, rewrite: &mut dyn FnMut(T) -> Rewritten<T>) -> Rewritten<T> {
    tree.transform_down(rewrite)
}

fn each<'n, T: TreeNode>(
    tree: &'n T,
    look: &mut dyn FnMut(&'n T) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    tree.apply(look)
}

fn has<T: TreeNode>(tree: &T, wanted: &mut dyn FnMut(&T) -> Result<bool>) -> Result<bool> {
    tree.exists(wanted)
}

/// A plan with its subqueries.
pub(crate) trait Nodes: Sized {
    /// `self` with `rewrite` done to all nodes, and those of subqueries, from the bottom.
    fn nodes_up(self, rewrite: impl FnMut(LogicalPlan) -> Rewritten<LogicalPlan>) -> Rewritten<LogicalPlan>;

    /// `self` with `rewrite` done to the `wanted` nodes, from the bottom. Where there is none, which looking tells in a tenth of the time, nothing is taken apart.
    fn nodes_up_where(
        self,
        wanted: impl FnMut(&LogicalPlan) -> bool,
        rewrite: impl FnMut(LogicalPlan) -> Rewritten<LogicalPlan>,
    ) -> Rewritten<LogicalPlan>;

    /// `self` with `rewrite` done to all nodes, and those of subqueries, from the top.
    fn nodes_down(self, rewrite: impl FnMut(LogicalPlan) -> Rewritten<LogicalPlan>) -> Rewritten<LogicalPlan>;

    /// Shows all nodes, and those of subqueries, to `look`, from the top.
    fn each_node(&self, look: impl FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion>;

    /// Shows the expressions of the top node to `look`.
    fn each_expression(&self, look: impl FnMut(&Expr) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion>;

    /// `self` with `rewrite` done to the expressions of its top node.
    fn with_expressions(self, rewrite: impl FnMut(Expr) -> Rewritten<Expr>) -> Rewritten<LogicalPlan>;
}

impl Nodes for LogicalPlan {
    fn nodes_up(self, mut rewrite: impl FnMut(Self) -> Rewritten<Self>) -> Rewritten<Self> {
        nodes_up(self, &mut rewrite)
    }

    fn nodes_up_where(
        self,
        mut wanted: impl FnMut(&Self) -> bool,
        mut rewrite: impl FnMut(Self) -> Rewritten<Self>,
    ) -> Rewritten<Self> {
        if !has_node(&self, &mut wanted)? {
            return Ok(Transformed::no(self));
        }
        nodes_up(self, &mut |node| if wanted(&node) { rewrite(node) } else { Ok(Transformed::no(node)) })
    }

    fn nodes_down(self, mut rewrite: impl FnMut(Self) -> Rewritten<Self>) -> Rewritten<Self> {
        nodes_down(self, &mut rewrite)
    }

    fn each_node(&self, mut look: impl FnMut(&Self) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        each_node(self, &mut look)
    }

    fn each_expression(&self, mut look: impl FnMut(&Expr) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        each_expression(self, &mut look)
    }

    fn with_expressions(self, mut rewrite: impl FnMut(Expr) -> Rewritten<Expr>) -> Rewritten<Self> {
        with_expressions(self, &mut rewrite)
    }
}

fn nodes_up(
    plan: LogicalPlan,
    rewrite: &mut dyn FnMut(LogicalPlan) -> Rewritten<LogicalPlan>,
) -> Rewritten<LogicalPlan> {
    plan.transform_up_with_subqueries(rewrite)
}

fn nodes_down(
    plan: LogicalPlan,
    rewrite: &mut dyn FnMut(LogicalPlan) -> Rewritten<LogicalPlan>,
) -> Rewritten<LogicalPlan> {
    plan.transform_down_with_subqueries(rewrite)
}

fn each_node(
    plan: &LogicalPlan,
    look: &mut dyn FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    plan.apply_with_subqueries(look)
}

fn has_node(plan: &LogicalPlan, wanted: &mut dyn FnMut(&LogicalPlan) -> bool) -> Result<bool> {
    let mut found = false;
    each_node(plan, &mut |node| {
        found = wanted(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn each_expression(
    plan: &LogicalPlan,
    look: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    plan.apply_expressions(look)
}

fn with_expressions(plan: LogicalPlan, rewrite: &mut dyn FnMut(Expr) -> Rewritten<Expr>) -> Rewritten<LogicalPlan> {
    plan.map_expressions(rewrite)
}
