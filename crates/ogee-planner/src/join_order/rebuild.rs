//! The plan of a region in a given order.
//!
//! Each join keeps the columns that something above it reads. Of a class of equal expressions a set of relations stands for all by one
//! representative, so that a join compares each class once.

use std::{collections::BTreeSet, sync::Arc};

use datafusion::{
    arrow::datatypes::Schema,
    common::{JoinSide, JoinType, NullEquality},
    error::Result,
    physical_expr::{conjunction, projection::ProjectionExpr, utils::collect_columns},
    physical_plan::{
        ExecutionPlan,
        filter::{FilterExec, FilterExecBuilder},
        joins::{
            CrossJoinExec, HashJoinExecBuilder, NestedLoopJoinExecBuilder, PartitionMode,
            utils::{ColumnIndex, JoinFilter},
        },
        projection::ProjectionExec,
    },
};

use super::{
    profile::reindexed,
    region::{DependentJoin, Equality, Expr, Region},
    relation_set::RelationSet,
    tree::JoinTree,
};

/// A plan and the global number of each of its columns.
struct Part {
    plan: Arc<dyn ExecutionPlan>,
    columns: Vec<usize>,
    relations: RelationSet,
}

/// The condition of a join.
struct Condition {
    /// Over the columns of the build side and of the probe side.
    on: Vec<(Expr, Expr)>,
    null_equality: NullEquality,
    /// What else is to be true, over global columns.
    filter: Vec<Expr>,
}

/// The plan that joins `region` as `tree` says, with the columns of `schema`.
pub(super) fn rebuild(region: &Region, tree: &JoinTree, schema: &Schema) -> Result<Arc<dyn ExecutionPlan>> {
    let part = region.build(tree)?;
    let outputs = region
        .outputs
        .iter()
        .zip(schema.fields())
        .map(|(expr, field)| Ok(ProjectionExpr { expr: part.local(expr)?, alias: field.name().clone() }));
    let outputs = outputs.collect::<Result<Vec<_>>>()?;
    let same = |(index, output): (usize, &ProjectionExpr)| {
        let column = output.expr.downcast_ref::<datafusion::physical_expr::expressions::Column>();
        column.is_some_and(|column| column.index() == index) && part.plan.schema().field(index).name() == &output.alias
    };
    let unchanged = outputs.len() == part.columns.len() && outputs.iter().enumerate().all(same);
    if unchanged && part.plan.schema().metadata() == schema.metadata() {
        return Ok(part.plan);
    }
    let plan = ProjectionExec::try_new(outputs.clone(), Arc::clone(&part.plan))?;
    // Where sides have changed, what is said about the schema may have.
    if plan.schema().metadata() != schema.metadata() {
        return Ok(Arc::new(ProjectionExec::try_new_with_schema_metadata(outputs, part.plan, schema)?));
    }
    Ok(Arc::new(plan))
}

impl Part {
    fn position(&self, global: usize) -> usize {
        self.columns
            .iter()
            .position(|&column| column == global)
            .expect("columns are kept until the last who needs them")
    }

    /// An expression over global columns as one over the columns of the part.
    fn local(&self, expr: &Expr) -> Result<Expr> {
        reindexed(expr, |global| self.position(global))
    }
}

fn globals<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> BTreeSet<usize> {
    exprs.into_iter().flat_map(collect_columns).map(|column| column.index()).collect()
}

/// Positions of `kept` in `columns`; `None` if these are all.
fn projection(columns: &[usize], kept: &BTreeSet<usize>) -> Option<Vec<usize>> {
    let positions: Vec<usize> = (0..columns.len()).filter(|&position| kept.contains(&columns[position])).collect();
    match positions.len() {
        all if all == columns.len() => None,
        // Rows without columns are only numbers; not every operator can count them.
        0 => Some(vec![0]),
        _ => Some(positions),
    }
}

impl Region {
    fn build(&self, tree: &JoinTree) -> Result<Part> {
        match tree {
            JoinTree::Relation(number) => {
                let relation = &self.relations[*number];
                let relations = RelationSet::single(*number);
                let columns: Vec<usize> = relation.columns.clone().collect();
                let part = Part { plan: Arc::clone(&relation.plan), columns, relations };
                let kept = self.kept(relations);
                project(part, &kept)
            }
            JoinTree::Join(build, probe) => {
                let (build, probe) = (self.build(build)?, self.build(probe)?);
                match (self.dependent_join(build.relations), self.dependent_join(probe.relations)) {
                    (None, None) => self.join_inner(build, probe),
                    (Some(join), _) => self.join_dependent(join, build, probe, true),
                    (None, Some(join)) => self.join_dependent(join, build, probe, false),
                }
            }
        }
    }

    fn dependent_join(&self, relations: RelationSet) -> Option<&DependentJoin> {
        self.relations[relations.only()?].dependent.as_ref()
    }

    /// The columns of `relations` that are read above the join that completes them.
    pub(super) fn kept(&self, relations: RelationSet) -> BTreeSet<usize> {
        let mut kept = globals(&self.outputs);
        let pending = |needs: RelationSet| !needs.is_subset(relations);
        for class in &self.classes {
            if class.iter().any(|member| !relations.contains(member.relation)) {
                kept.extend(globals(self.representative(class, relations)));
            }
        }
        for equality in self.equalities.iter().filter(|equality| pending(equality.needs())) {
            kept.extend(globals([&equality.left, &equality.right]));
        }
        for predicate in self.predicates.iter().filter(|predicate| pending(predicate.needs)) {
            kept.extend(globals([&predicate.expr]));
        }
        for (number, relation) in self.relations.iter().enumerate() {
            if let Some(join) = &relation.dependent
                && (!relations.contains(number) || relations.len() == 1)
            {
                kept.extend(globals(join.on.iter().flat_map(|(left, right)| [left, right]).chain(&join.filter)));
            }
        }
        kept.retain(|&global| relations.contains(self.globals[global].relation));
        kept
    }

    /// What stands for the members of a class in `relations`.
    fn representative<'r>(&self, class: &'r [super::region::Member], relations: RelationSet) -> Option<&'r Expr> {
        let inside = class.iter().filter(|member| relations.contains(member.relation));
        inside.min_by_key(|member| member.relation).map(|member| &member.expr)
    }

    /// What becomes decidable when `build` and `probe` meet.
    fn condition(&self, build: &Part, probe: &Part) -> Result<Condition> {
        let (left, right) = (build.relations, probe.relations);
        let both = left.union(right);
        let new = |needs: RelationSet| needs.is_subset(both) && !needs.is_subset(left) && !needs.is_subset(right);
        let mut on = Vec::new();
        for class in &self.classes {
            if let (Some(of_build), Some(of_probe)) =
                (self.representative(class, left), self.representative(class, right))
            {
                on.push((build.local(of_build)?, probe.local(of_probe)?));
            }
        }
        let mut filter = Vec::new();
        let mut equalities: Vec<_> = self.equalities.iter().filter(|equality| new(equality.needs())).collect();
        // All keys of a hash join treat NULL alike: those of the other kind become part of the filter.
        equalities.sort_by_key(|equality| equality.null_equality != NullEquality::NullEqualsNothing);
        let mut null_equality = NullEquality::NullEqualsNothing;
        for equality in equalities {
            let (one, other) = equality.sides;
            let sides = if one.is_subset(left) && other.is_subset(right) {
                Some((&equality.left, &equality.right))
            } else if one.is_subset(right) && other.is_subset(left) {
                Some((&equality.right, &equality.left))
            } else {
                None
            };
            match sides {
                Some((of_build, of_probe)) if on.is_empty() || equality.null_equality == null_equality => {
                    null_equality = equality.null_equality;
                    on.push((build.local(of_build)?, probe.local(of_probe)?));
                }
                _ => filter.push(equality.expr()),
            }
        }
        filter.extend(self.predicates.iter().filter(|p| new(p.needs)).map(|predicate| Arc::clone(&predicate.expr)));
        Ok(Condition { on, null_equality, filter })
    }

    fn join_inner(&self, build: Part, probe: Part) -> Result<Part> {
        let condition = self.condition(&build, &probe)?;
        let relations = build.relations.union(probe.relations);
        let columns = [build.columns.clone(), probe.columns.clone()].concat();
        let kept = self.kept(relations);
        let filter = join_filter(condition.filter, &build, &probe)?;
        if condition.on.is_empty() && filter.is_none() {
            let plan = Arc::new(CrossJoinExec::new(build.plan, probe.plan));
            return project(Part { plan, columns, relations }, &kept);
        }
        let projection = projection(&columns, &kept);
        let join = Join {
            on: condition.on,
            filter,
            join_type: JoinType::Inner,
            null_equality: condition.null_equality,
            null_aware: false,
        };
        let plan = join.plan(build.plan, probe.plan, projection.clone())?;
        Ok(Part { plan, columns: chosen(columns, projection), relations })
    }

    /// Joins the relation of `join`, which is built if `builds`, with what it depends on.
    fn join_dependent(&self, join: &DependentJoin, build: Part, probe: Part, builds: bool) -> Result<Part> {
        let relations = build.relations.union(probe.relations);
        // What can be decided only now is decided for the rows that come out.
        let new = |needs: RelationSet| {
            needs.is_subset(relations) && !needs.is_subset(build.relations) && !needs.is_subset(probe.relations)
        };
        let equalities = self.equalities.iter().filter(|equality| new(equality.needs())).map(Equality::expr);
        let others = self
            .predicates
            .iter()
            .filter(|predicate| new(predicate.needs))
            .map(|predicate| Arc::clone(&predicate.expr));
        let predicates: Vec<Expr> = equalities.chain(others).collect();
        let kept = self.kept(relations);
        let mut below = kept.clone();
        below.extend(globals(&predicates));

        let (outer, inner) = if builds { (&probe, &build) } else { (&build, &probe) };
        let on = join.on.iter().map(|(of_outer, of_inner)| {
            let (of_outer, of_inner) = (outer.local(of_outer)?, inner.local(of_inner)?);
            Ok(if builds { (of_inner, of_outer) } else { (of_outer, of_inner) })
        });
        let on = on.collect::<Result<Vec<_>>>()?;
        let columns = match join.join_type {
            JoinType::Left => [build.columns.clone(), probe.columns.clone()].concat(),
            JoinType::LeftMark => outer.columns.iter().copied().chain(join.mark).collect(),
            _ => outer.columns.clone(),
        };
        let projection = projection(&columns, &below);
        let filter = join_filter(join.filter.iter().cloned().collect(), &build, &probe)?;
        let join = Join {
            on,
            filter,
            join_type: if builds { join.join_type.swap() } else { join.join_type },
            null_equality: join.null_equality,
            null_aware: join.null_aware,
        };
        let plan = join.plan(build.plan, probe.plan, projection.clone())?;
        let part = Part { plan, columns: chosen(columns, projection), relations };
        if predicates.is_empty() {
            return Ok(part);
        }
        let predicate = part.local(&conjunction(predicates))?;
        let projection = self::projection(&part.columns, &kept);
        let filter: FilterExec =
            FilterExecBuilder::new(predicate, part.plan).apply_projection(projection.clone())?.build()?;
        Ok(Part { plan: Arc::new(filter), columns: chosen(part.columns, projection), relations })
    }
}

/// A join of two plans.
struct Join {
    on: Vec<(Expr, Expr)>,
    filter: Option<JoinFilter>,
    join_type: JoinType,
    null_equality: NullEquality,
    null_aware: bool,
}

impl Join {
    fn plan(
        self,
        build: Arc<dyn ExecutionPlan>,
        probe: Arc<dyn ExecutionPlan>,
        projection: Option<Vec<usize>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.on.is_empty() {
            let join = NestedLoopJoinExecBuilder::new(build, probe, self.join_type)
                .with_filter(self.filter)
                .with_projection(projection);
            return Ok(Arc::new(join.build()?));
        }
        HashJoinExecBuilder::new(build, probe, self.on, self.join_type)
            .with_filter(self.filter)
            .with_projection(projection)
            .with_null_equality(self.null_equality)
            .with_null_aware(self.null_aware)
            .with_partition_mode(PartitionMode::CollectLeft)
            .build_exec()
    }
}

fn chosen(columns: Vec<usize>, projection: Option<Vec<usize>>) -> Vec<usize> {
    match projection {
        None => columns,
        Some(positions) => positions.into_iter().map(|position| columns[position]).collect(),
    }
}

/// `part` with the columns in `kept` only.
fn project(part: Part, kept: &BTreeSet<usize>) -> Result<Part> {
    let Some(positions) = projection(&part.columns, kept) else { return Ok(part) };
    let schema = part.plan.schema();
    let exprs = positions.iter().map(|&position| {
        let name = schema.field(position).name();
        let expr = Arc::new(datafusion::physical_expr::expressions::Column::new(name, position)) as Expr;
        ProjectionExpr { expr, alias: name.clone() }
    });
    let plan = Arc::new(ProjectionExec::try_new(exprs.collect::<Vec<_>>(), Arc::clone(&part.plan))?);
    Ok(Part { plan, columns: chosen(part.columns, Some(positions)), relations: part.relations })
}

/// Predicates over global columns as the filter of a join.
fn join_filter(predicates: Vec<Expr>, build: &Part, probe: &Part) -> Result<Option<JoinFilter>> {
    if predicates.is_empty() {
        return Ok(None);
    }
    let predicate = conjunction(predicates);
    let columns: Vec<usize> = globals([&predicate]).into_iter().collect();
    let (schema_build, schema_probe) = (build.plan.schema(), probe.plan.schema());
    let (mut indices, mut fields) = (Vec::new(), Vec::new());
    for &global in &columns {
        match build.columns.iter().position(|&column| column == global) {
            Some(index) => {
                indices.push(ColumnIndex { index, side: JoinSide::Left });
                fields.push(Arc::clone(&schema_build.fields()[index]));
            }
            None => {
                let index = probe.position(global);
                indices.push(ColumnIndex { index, side: JoinSide::Right });
                fields.push(Arc::clone(&schema_probe.fields()[index]));
            }
        }
    }
    let predicate =
        reindexed(&predicate, |global| columns.binary_search(&global).expect("collected from the same expression"))?;
    Ok(Some(JoinFilter::new(predicate, indices, Arc::new(Schema::new(fields)))))
}
