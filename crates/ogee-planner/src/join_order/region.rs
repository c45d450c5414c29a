//! The part of a plan whose joins may change places.
//!
//! Inner joins and cross products, with the filters and the projections of columns between them, and those outer, semi, anti and mark joins
//! whose outer side is in there too. What they join are *relations*: any other plan. All expressions are brought to the same *global*
//! columns, numbered through all relations, so that no name matters.
//!
//! Barriers are full joins, limits, aggregates, volatile expressions, and whatever else is not named above.
//!
//! Not here: how many rows there are (`weigh`), the plan that comes out (`rebuild`).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field, FieldRef, Schema},
    common::{
        JoinSide, JoinType, NullEquality, ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, conjunction,
        expressions::{BinaryExpr, CastExpr, Column, IsNullExpr, Literal},
        utils::{collect_columns, split_conjunction},
    },
    physical_plan::{
        ExecutionPlan,
        filter::FilterExec,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, utils::JoinFilter},
        projection::ProjectionExec,
    },
};

use super::{
    profile::reindexed,
    relation_set::{RELATIONS_MAX, RelationSet},
};

pub(super) type Expr = Arc<dyn PhysicalExpr>;

/// What is joined, and on what.
#[derive(Debug, Default)]
pub(super) struct Region {
    pub(super) relations: Vec<Relation>,
    /// What each global column is.
    pub(super) globals: Vec<Global>,
    pub(super) classes: Vec<Vec<Member>>,
    pub(super) equalities: Vec<Equality>,
    pub(super) predicates: Vec<Predicate>,
    /// The columns of the region.
    pub(super) outputs: Vec<Expr>,
}

#[derive(Clone, Debug)]
pub(super) struct Global {
    pub(super) relation: usize,
    pub(super) field: FieldRef,
}

#[derive(Debug)]
pub(super) struct Relation {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// The global numbers of the plan's columns.
    pub(super) columns: std::ops::Range<usize>,
    pub(super) dependent: Option<DependentJoin>,
}

/// How a relation is joined that is the inner side of something else than an inner join.
#[derive(Debug)]
pub(super) struct DependentJoin {
    /// As if the relation were on the right.
    pub(super) join_type: JoinType,
    /// Expressions over the outer side and over the relation.
    pub(super) on: Vec<(Expr, Expr)>,
    pub(super) filter: Option<Expr>,
    pub(super) null_equality: NullEquality,
    pub(super) null_aware: bool,
    /// The column that a mark join adds.
    pub(super) mark: Option<usize>,
    /// What must be there before, also for what must be there before.
    pub(super) needs: RelationSet,
}

/// An expression over one freely joined relation that is equal to the others of its class.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) relation: usize,
    pub(super) expr: Expr,
}

/// Two expressions that are equal but of no class: over several relations, over dependent ones, or where NULL equals NULL.
#[derive(Debug)]
pub(super) struct Equality {
    pub(super) left: Expr,
    pub(super) right: Expr,
    /// What the sides need.
    pub(super) sides: (RelationSet, RelationSet),
    pub(super) null_equality: NullEquality,
}

#[derive(Debug)]
pub(super) struct Predicate {
    pub(super) expr: Expr,
    pub(super) needs: RelationSet,
}

impl Equality {
    pub(super) fn needs(&self) -> RelationSet {
        self.sides.0.union(self.sides.1)
    }

    /// As a predicate.
    pub(super) fn expr(&self) -> Expr {
        let op = match self.null_equality {
            NullEquality::NullEqualsNothing => Operator::Eq,
            NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
        };
        Arc::new(BinaryExpr::new(Arc::clone(&self.left), op, Arc::clone(&self.right)))
    }
}

/// Whether `plan` is a join that may change its place.
fn is_movable_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let movable = |join_type: &JoinType, filter: Option<&JoinFilter>| {
        *join_type != JoinType::Full && filter.is_none_or(|filter| is_stable(filter.expression()))
    };
    if plan.fetch().is_some() {
        return false;
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        movable(join.join_type(), join.filter())
            && join.on().iter().all(|(left, right)| is_stable(left) && is_stable(right))
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        movable(join.join_type(), join.filter())
    } else {
        plan.is::<CrossJoinExec>()
    }
}

/// Whether `expr` is the same however often it is evaluated.
fn is_stable(expr: &Expr) -> bool {
    !datafusion::physical_expr_common::physical_expr::is_volatile(expr)
}

/// Whether `expr` may just as well be computed later, and several times.
fn is_light(expr: &Expr) -> bool {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => is_light(cast.expr()),
        None => expr.is::<Column>() || expr.is::<Literal>(),
    }
}

/// What `plan` passes on from its input, if joins may move through it.
fn passed_through(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        (plan.fetch().is_none() && is_stable(filter.predicate())).then(|| filter.input())
    } else {
        let projection = plan.downcast_ref::<ProjectionExec>()?;
        projection.expr().iter().all(|projected| is_light(&projected.expr)).then(|| projection.input())
    }
}

/// Whether there is a join to move at the top of `plan`.
fn leads_to_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    is_movable_join(plan) || passed_through(plan).is_some_and(leads_to_join)
}

/// The sides of a join: the outer one, where it has one, first.
struct Sides<'p> {
    outer: &'p Arc<dyn ExecutionPlan>,
    inner: &'p Arc<dyn ExecutionPlan>,
    /// Whether the outer side is on the right.
    swapped: bool,
}

impl<'p> Sides<'p> {
    fn of(plan: &'p Arc<dyn ExecutionPlan>, join_type: JoinType) -> Self {
        let children = plan.children();
        match join_type {
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                Self { outer: children[1], inner: children[0], swapped: true }
            }
            _ => Self { outer: children[0], inner: children[1], swapped: false },
        }
    }
}

fn join_type(plan: &Arc<dyn ExecutionPlan>) -> JoinType {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        *join.join_type()
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        *join.join_type()
    } else {
        JoinType::Inner
    }
}

/// Relations of the region whose topmost node is `plan`.
fn count(plan: &Arc<dyn ExecutionPlan>) -> usize {
    if is_movable_join(plan) {
        let join_type = join_type(plan);
        let sides = Sides::of(plan, join_type);
        count(sides.outer) + if join_type == JoinType::Inner { count(sides.inner) } else { 1 }
    } else if leads_to_join(plan) {
        passed_through(plan).map_or(1, count)
    } else {
        1
    }
}

impl Region {
    /// The region whose topmost node is `plan`, if that belongs to one, of at most as many relations as sets have room for.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        if !leads_to_join(plan) || count(plan) > RELATIONS_MAX {
            return Ok(None);
        }
        let mut region = Self::default();
        region.outputs = region.gather(plan)?;
        Ok(Some(region))
    }

    /// Takes `plan` in; its columns as expressions over the global ones.
    fn gather(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Expr>> {
        if is_movable_join(plan) {
            return self.gather_join(plan);
        }
        if !leads_to_join(plan) {
            return Ok(self.add(plan));
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let columns = self.gather(filter.input())?;
            self.add_predicate(&substituted(filter.predicate(), &columns)?);
            return Ok(projected(columns, filter.projection().as_deref()));
        }
        let projection = plan.downcast_ref::<ProjectionExec>().expect("nothing else is passed through");
        let columns = self.gather(projection.input())?;
        projection.expr().iter().map(|projected| substituted(&projected.expr, &columns)).collect()
    }

    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Vec<Expr> {
        let (relation, first) = (self.relations.len(), self.globals.len());
        let global = |field: &FieldRef| Global { relation, field: Arc::clone(field) };
        self.globals.extend(plan.schema().fields().iter().map(global));
        let columns = first..self.globals.len();
        self.relations.push(Relation { plan: Arc::clone(plan), columns: columns.clone(), dependent: None });
        columns.map(|column| self.column(column)).collect()
    }

    /// A global column as an expression.
    fn column(&self, global: usize) -> Expr {
        Arc::new(Column::new(self.globals[global].field.name(), global))
    }

    fn gather_join(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Expr>> {
        let join_type = join_type(plan);
        let sides = Sides::of(plan, join_type);
        let (on, filter, null_equality, null_aware, projection) =
            if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
                (join.on().to_vec(), join.filter(), join.null_equality(), join.null_aware, join.projection.as_deref())
            } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
                (Vec::new(), join.filter(), NullEquality::NullEqualsNothing, false, join.projection().as_deref())
            } else {
                (Vec::new(), None, NullEquality::NullEqualsNothing, false, None)
            };
        let first = self.relations.len();
        let outer = self.gather(sides.outer)?;
        let inner = if join_type == JoinType::Inner { self.gather(sides.inner)? } else { self.add(sides.inner) };
        let on = on.iter().map(|(left, right)| {
            let (of_outer, of_inner) = if sides.swapped { (right, left) } else { (left, right) };
            Ok((substituted(of_outer, &outer)?, substituted(of_inner, &inner)?))
        });
        let on = on.collect::<Result<Vec<_>>>()?;
        let (left, right) = if sides.swapped { (&inner, &outer) } else { (&outer, &inner) };
        let filter = filter.map(|filter| {
            let columns = filter.column_indices().iter().map(|column| match column.side {
                JoinSide::Left => Arc::clone(&left[column.index]),
                _ => Arc::clone(&right[column.index]),
            });
            substituted(filter.expression(), &columns.collect::<Vec<_>>())
        });
        let filter = filter.transpose()?;

        let columns = if join_type == JoinType::Inner {
            on.into_iter().for_each(|(left, right)| self.add_equality(left, right, null_equality));
            filter.iter().for_each(|filter| self.add_predicate(filter));
            [outer, inner].concat()
        } else {
            let relation = self.relations.len() - 1;
            let of_left = |side| if sides.swapped { JoinType::swap(&side) } else { side };
            let join_type = of_left(join_type);
            let outer_exprs = on.iter().map(|(outer, _)| outer).chain(&filter);
            let named = outer_exprs.fold(RelationSet::EMPTY, |set, expr| set.union(self.needs(expr)));
            let named = named.minus(RelationSet::single(relation));
            let needs = if named.is_empty() { RelationSet::single(first) } else { named };
            let mark = (join_type == JoinType::LeftMark).then(|| {
                let field = Arc::new(Field::new("mark", DataType::Boolean, false));
                self.globals.push(Global { relation, field });
                self.globals.len() - 1
            });
            self.relations[relation].dependent =
                Some(DependentJoin { join_type, on, filter, null_equality, null_aware, mark, needs });
            match join_type {
                JoinType::Left if sides.swapped => [inner, outer].concat(),
                JoinType::Left => [outer, inner].concat(),
                JoinType::LeftMark => [outer, mark.map(|mark| self.column(mark)).into_iter().collect()].concat(),
                _ => outer,
            }
        };
        Ok(projected(columns, projection))
    }

    /// The relations whose columns `expr` reads, and what must be there before these.
    fn needs(&self, expr: &Expr) -> RelationSet {
        collect_columns(expr).iter().fold(RelationSet::EMPTY, |set, column| {
            let relation = self.globals[column.index()].relation;
            let before = self.relations[relation].dependent.as_ref().map_or(RelationSet::EMPTY, |join| join.needs);
            set.union(RelationSet::single(relation)).union(before)
        })
    }

    fn add_predicate(&mut self, predicate: &Expr) {
        for part in split_conjunction(predicate) {
            if self.add_null_equality(part) {
                continue;
            }
            let needs = self.needs(part);
            // What reads no column decides about any relation.
            let needs = if needs.is_empty() { RelationSet::single(0) } else { needs };
            self.predicates.push(Predicate { expr: Arc::clone(part), needs });
        }
    }

    /// Takes `part` as an equality for which NULL equals NULL, if it is one between relations.
    fn add_null_equality(&mut self, part: &Expr) -> bool {
        let Some(both) = part.downcast_ref::<BinaryExpr>() else { return false };
        if *both.op() != Operator::IsNotDistinctFrom {
            return false;
        }
        let schema = Schema::new(self.globals.iter().map(|global| Arc::clone(&global.field)).collect::<Vec<_>>());
        let (left, right) = (both.left(), both.right());
        let same_type =
            left.data_type(&schema).ok().is_some_and(|of| right.data_type(&schema).is_ok_and(|to| of == to));
        let sides = (self.needs(left), self.needs(right));
        if !same_type || sides.0.intersects(sides.1) || sides.0.is_empty() || sides.1.is_empty() {
            return false;
        }
        let (left, right) = (Arc::clone(left), Arc::clone(right));
        self.equalities.push(Equality { left, right, sides, null_equality: NullEquality::NullEqualsNull });
        true
    }

    fn add_equality(&mut self, left: Expr, right: Expr, null_equality: NullEquality) {
        let sides = (self.needs(&left), self.needs(&right));
        let equality = Equality { left, right, sides, null_equality };
        if sides.0.intersects(sides.1) || sides.0.is_empty() || sides.1.is_empty() {
            self.add_predicate(&equality.expr());
        } else {
            self.equalities.push(equality);
        }
    }

    /// Makes inner joins of outer ones whose inner side has a column that is equal to something: rows without a partner have NULL there, and are dropped.
    fn free_outer_joins(&mut self) {
        let is_rejecting = |region: &Self, relation: usize| {
            let is_of = |expr: &Expr| of_column(expr).is_some_and(|column| region.globals[column].relation == relation);
            let mut strict =
                region.equalities.iter().filter(|equality| equality.null_equality == NullEquality::NullEqualsNothing);
            strict.any(|equality| is_of(&equality.left) || is_of(&equality.right))
        };
        let is_outer =
            |relation: &Relation| relation.dependent.as_ref().is_some_and(|join| join.join_type == JoinType::Left);
        let next = |region: &Self| {
            (0..region.relations.len())
                .find(|&relation| is_outer(&region.relations[relation]) && is_rejecting(region, relation))
        };
        let mut freed = false;
        while let Some(relation) = next(self) {
            freed = true;
            let Some(join) = self.relations[relation].dependent.take() else { continue };
            join.on.into_iter().for_each(|(left, right)| self.add_equality(left, right, join.null_equality));
            join.filter.iter().for_each(|filter| self.add_predicate(filter));
        }
        if freed {
            // What waited for such a relation need not wait for what that waited for.
            for equality in std::mem::take(&mut self.equalities) {
                self.add_equality(equality.left, equality.right, equality.null_equality);
            }
            for predicate in std::mem::take(&mut self.predicates) {
                self.add_predicate(&predicate.expr);
            }
        }
    }

    /// Makes anti joins of outer ones of which only rows without a partner are wanted: those that have NULL where the inner side has a key.
    fn exclude_partners(&mut self) -> Result<()> {
        for relation in 0..self.relations.len() {
            let Relation { columns, dependent, .. } = &self.relations[relation];
            let Some(join) = dependent.as_ref().filter(|join| {
                join.join_type == JoinType::Left && join.null_equality == NullEquality::NullEqualsNothing
            }) else {
                continue;
            };
            let is_key = |expr: &Expr| expr.is::<Column>() && join.on.iter().any(|(_, inner)| inner.eq(expr));
            let tells = |predicate: &Predicate| {
                predicate.expr.downcast_ref::<IsNullExpr>().is_some_and(|is_null| is_key(is_null.arg()))
            };
            let reads = |expr: &Expr| collect_columns(expr).iter().any(|column| columns.contains(&column.index()));
            let others = self.relations.iter().enumerate().filter(|(other, _)| *other != relation);
            let mut others = others.filter_map(|(_, other)| other.dependent.as_ref());
            if !self.predicates.iter().any(tells)
                || self.predicates.iter().any(|predicate| !tells(predicate) && reads(&predicate.expr))
                || self.equalities.iter().any(|equality| reads(&equality.left) || reads(&equality.right))
                || others.any(|join| join.on.iter().any(|(outer, _)| reads(outer)) || join.filter.iter().any(reads))
            {
                continue;
            }
            let value = |global: usize| -> Result<Expr> {
                let Global { field, .. } = &self.globals[global];
                Ok(match columns.contains(&global) {
                    true => Arc::new(Literal::new(ScalarValue::try_from(field.data_type())?)),
                    false => Arc::new(Column::new(field.name(), global)),
                })
            };
            let values = (0..self.globals.len()).map(value).collect::<Result<Vec<_>>>()?;
            let outputs = self.outputs.iter().map(|output| substituted(output, &values)).collect::<Result<_>>()?;
            let told: Vec<bool> = self.predicates.iter().map(tells).collect();
            let mut told = told.into_iter();
            self.predicates.retain(|_| told.next() == Some(false));
            self.outputs = outputs;
            if let Some(join) = &mut self.relations[relation].dependent {
                join.join_type = JoinType::LeftAnti;
            }
        }
        Ok(())
    }

    /// Forms classes of equalities, and moves what is about one relation into its plan.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.free_outer_joins();
        self.exclude_partners()?;
        let mut others = Vec::new();
        for equality in std::mem::take(&mut self.equalities) {
            match self.members(&equality) {
                Some((left, right)) => self.unite(left, right),
                None => others.push(equality),
            }
        }
        self.equalities = others;
        // Joins compare one member of a relation; that the others are equal to it follows for each relation by itself.
        for class in &mut self.classes {
            let mut first: Vec<Member> = Vec::new();
            for member in class.drain(..) {
                match first.iter().find(|known| known.relation == member.relation) {
                    None => first.push(member),
                    Some(known) => {
                        let expr = Arc::new(BinaryExpr::new(Arc::clone(&known.expr), Operator::Eq, member.expr));
                        self.predicates.push(Predicate { expr, needs: RelationSet::single(member.relation) });
                    }
                }
            }
            *class = first;
        }
        let mut own: Vec<Vec<Expr>> = vec![Vec::new(); self.relations.len()];
        let relations = &self.relations;
        self.predicates.retain(|predicate| match predicate.needs.only() {
            Some(relation) if relations[relation].dependent.is_none() => {
                own[relation].push(Arc::clone(&predicate.expr));
                false
            }
            _ => true,
        });
        for (relation, predicates) in self.relations.iter_mut().zip(own) {
            if !predicates.is_empty() {
                let first = relation.columns.start;
                let predicate = reindexed(&conjunction(predicates), |global| global - first)?;
                relation.plan = Arc::new(FilterExec::try_new(predicate, Arc::clone(&relation.plan))?);
            }
        }
        Ok(())
    }

    /// The sides of `equality` as members of a class, if they can be.
    fn members(&self, equality: &Equality) -> Option<(Member, Member)> {
        let member = |expr: &Expr, needs: RelationSet| {
            let relation = needs.only().filter(|&relation| self.relations[relation].dependent.is_none())?;
            Some(Member { relation, expr: Arc::clone(expr) })
        };
        let (left, right) = (member(&equality.left, equality.sides.0)?, member(&equality.right, equality.sides.1)?);
        let same_type = self.data_type(&left)? == self.data_type(&right)?;
        (same_type && equality.null_equality == NullEquality::NullEqualsNothing).then_some((left, right))
    }

    fn data_type(&self, member: &Member) -> Option<DataType> {
        let relation = &self.relations[member.relation];
        let local = reindexed(&member.expr, |global| global - relation.columns.start).ok()?;
        local.data_type(&relation.plan.schema()).ok()
    }

    fn unite(&mut self, left: Member, right: Member) {
        let has = |class: &Vec<Member>, member: &Member| class.iter().any(|known| known.expr.eq(&member.expr));
        let class_of = |classes: &[Vec<Member>], member: &Member| classes.iter().position(|class| has(class, member));
        match (class_of(&self.classes, &left), class_of(&self.classes, &right)) {
            (None, None) => self.classes.push(vec![left, right]),
            (Some(class), None) => self.classes[class].push(right),
            (None, Some(class)) => self.classes[class].push(left),
            (Some(one), Some(other)) if one != other => {
                let moved = std::mem::take(&mut self.classes[other]);
                self.classes[one].extend(moved);
                self.classes.swap_remove(other);
            }
            (Some(_), Some(_)) => {}
        }
    }
}

/// The number of the column that `expr` is, types aside.
fn of_column(expr: &Expr) -> Option<usize> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => of_column(cast.expr()),
        None => expr.downcast_ref::<Column>().map(Column::index),
    }
}

/// `expr` with each column replaced by the expression of that number.
fn substituted(expr: &Expr, columns: &[Expr]) -> Result<Expr> {
    Arc::clone(expr)
        .transform_up(|node| match node.downcast_ref::<Column>() {
            Some(column) => Ok(Transformed::yes(Arc::clone(&columns[column.index()]))),
            None => Ok(Transformed::no(node)),
        })
        .data()
}

fn projected(columns: Vec<Expr>, projection: Option<&[usize]>) -> Vec<Expr> {
    match projection {
        None => columns,
        Some(kept) => kept.iter().map(|&column| Arc::clone(&columns[column])).collect(),
    }
}
