//! The graph of a region: what its relations, equalities and predicates amount to in rows.

use datafusion::common::JoinType;

use super::{
    estimate::{keys_selectivity, partners, passed_on, without},
    graph::{Composite, Dependent, Edge, Equality, JoinGraph, Predicate, Vertex},
    profile::{Column, Facts, Match, Profile, Purpose},
    region::{DependentJoin, Expr, Region},
    relation_set::RelationSet,
    sample,
    selectivity::Scope,
};

/// The sampled columns that [`weigh`] looks at for the classes of `region`, so that they can be read together.
pub(super) fn compared(region: &Region, profiles: &[Profile]) -> Vec<sample::Columns> {
    let columns = columns_of(region, profiles);
    let mut sampled = Vec::new();
    for members in &region.classes {
        let members: Vec<Column> = members.iter().filter_map(|member| passed_on(&member.expr, &columns)).collect();
        for (i, column) in members.iter().enumerate() {
            let others = || members.iter().enumerate().filter(|&(other, _)| other != i).map(|(_, other)| other);
            // Its values are drawn from a key's.
            let drawn = others().any(|other| column.refers_to(other));
            if !drawn && column.is_counted_in_sample() || others().any(|other| column.is_looked_into_for(other)) {
                sampled.extend(column.sampled(Purpose::Order));
            }
        }
    }
    sampled
}

/// What is known of each global column.
fn columns_of(region: &Region, profiles: &[Profile]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::with_capacity(region.globals.len());
    for (global, known) in region.globals.iter().enumerate() {
        let relation = &region.relations[known.relation];
        columns.push(if relation.columns.contains(&global) {
            profiles[known.relation].columns[global - relation.columns.start].clone()
        } else {
            Profile::of_facts(1.0, vec![Facts::distinct(2.0)]).columns.swap_remove(0)
        });
    }
    columns
}

/// The graph of `region`, whose relations give what `profiles` say.
pub(super) fn weigh(region: &Region, profiles: &[Profile]) -> JoinGraph {
    let columns = columns_of(region, profiles);
    let weights = Weights { profiles, columns: &columns };
    let mut graph = JoinGraph { classes: region.classes.len(), ..JoinGraph::default() };
    for (number, relation) in region.relations.iter().enumerate() {
        let rows = profiles[number].rows.max(1e-3);
        let dependent = relation.dependent.as_ref().map(|join| Dependent {
            needs: join.needs,
            factor: weights.factor(join, number).max(1e-9),
            hashes: !join.on.is_empty(),
            may_build: !join.null_aware,
        });
        if let Some(dependent) = &dependent {
            let right = RelationSet::single(number);
            graph.edges.push(Edge { left: dependent.needs, right, hashes: dependent.hashes });
        }
        let kept = region.kept(RelationSet::single(number));
        let schema = relation.plan.schema();
        let width = kept.iter().filter(|global| relation.columns.contains(global)).map(|global| {
            let at = global - relation.columns.start;
            profiles[number].columns[at].facts().bytes(schema.field(at).data_type())
        });
        graph.vertices.push(Vertex { rows, width: width.sum(), dependent });
    }
    weights.add_classes(region, &mut graph);
    for equality in &region.equalities {
        let (left, right) = equality.sides;
        graph.edges.push(Edge { left, right, hashes: true });
        let selectivity = weights.matched(&equality.left, left, &equality.right, right).0.selectivity;
        graph.predicates.push(Predicate { needs: equality.needs(), selectivity });
    }
    for predicate in &region.predicates {
        let selectivity = Scope { columns: &columns }.selectivity(&predicate.expr).max(1e-9);
        graph.predicates.push(Predicate { needs: predicate.needs, selectivity });
        for relation in predicate.needs.iter().filter(|&relation| graph.vertices[relation].dependent.is_none()) {
            let right = RelationSet::single(relation);
            let left = predicate.needs.minus(right);
            let closed = left.iter().all(|other| {
                graph.vertices[other].dependent.as_ref().is_none_or(|dependent| dependent.needs.is_subset(left))
            });
            if closed && !left.is_empty() {
                graph.edges.push(Edge { left, right, hashes: false });
            }
        }
    }
    graph.connect();
    graph.sort();
    graph
}

/// What comparing two expressions gives, and the columns that these are.
type Compared = (Match, Option<Column>, Option<Column>);

struct Weights<'w> {
    profiles: &'w [Profile],
    /// Of each global column.
    columns: &'w [Column],
}

impl Weights<'_> {
    fn rows(&self, relations: RelationSet) -> f64 {
        relations.iter().map(|relation| self.profiles[relation].rows).fold(1.0, f64::max)
    }

    /// What comparing two expressions gives, and the columns that they are.
    fn matched(&self, left: &Expr, left_of: RelationSet, right: &Expr, right_of: RelationSet) -> Compared {
        match (passed_on(left, self.columns), passed_on(right, self.columns)) {
            (Some(left), Some(right)) => (Match::of_columns(&left, &right), Some(left), Some(right)),
            (left, right) => (Match::of_rows(self.rows(left_of), self.rows(right_of)), left, right),
        }
    }

    /// Rows after a dependent join for each row before.
    fn factor(&self, join: &DependentJoin, relation: usize) -> f64 {
        let (rows, inner) = (self.profiles[relation].rows, RelationSet::single(relation));
        let (mut matches, mut lefts, mut rights) = (Vec::new(), Vec::new(), Vec::new());
        for (left, right) in &join.on {
            let (matched, left, right) = self.matched(left, join.needs, right, inner);
            matches.push(matched);
            lefts.push(left);
            rights.push(right);
        }
        let condition = join.filter.as_ref().map_or(1.0, |filter| Scope { columns: self.columns }.selectivity(filter));
        let outer = self.rows(join.needs);
        let selectivity = keys_selectivity(&matches, (&lefts, &rights), (outer, rows)) * condition;
        let matched = || partners(&matches, rows, selectivity, condition);
        match join.join_type {
            JoinType::LeftSemi => matched(),
            JoinType::LeftAnti => without(matched()),
            JoinType::LeftMark => 1.0,
            _ => (rows * selectivity).max(1.0),
        }
    }

    /// Has the columns of a class that refer to a key in it take their values from that, which saves looking for them.
    fn relate<'e>(&self, members: impl Iterator<Item = &'e Expr>) {
        let columns: Vec<Column> = members.filter_map(|expr| passed_on(expr, self.columns)).collect();
        for (i, column) in columns.iter().enumerate() {
            let mut others = columns.iter().enumerate().filter(|&(other, _)| other != i).map(|(_, other)| other);
            if let Some(key) = others.find(|other| column.refers_to(other)) {
                column.draw_from(key);
            }
        }
    }

    /// All pairs of each class, and how selective pairs of relations are that several classes connect.
    fn add_classes(&self, region: &Region, graph: &mut JoinGraph) {
        let mut pairs: Vec<((usize, usize), Vec<Compared>)> = Vec::new();
        for (class, members) in region.classes.iter().enumerate() {
            self.relate(members.iter().map(|member| &member.expr));
            for (i, left) in members.iter().enumerate() {
                for right in &members[i + 1..] {
                    let (left, right) = if left.relation < right.relation { (left, right) } else { (right, left) };
                    let sets = (RelationSet::single(left.relation), RelationSet::single(right.relation));
                    let matched = self.matched(&left.expr, sets.0, &right.expr, sets.1);
                    let selectivity = matched.0.selectivity.max(1e-12);
                    graph.equalities.push(Equality { left: left.relation, right: right.relation, class, selectivity });
                    let pair = (left.relation, right.relation);
                    match pairs.iter_mut().find(|(known, _)| *known == pair) {
                        Some((_, matches)) => matches.push(matched),
                        None => {
                            graph.edges.push(Edge { left: sets.0, right: sets.1, hashes: true });
                            pairs.push((pair, vec![matched]));
                        }
                    }
                }
            }
        }
        for ((left, right), matches) in pairs.into_iter().filter(|(_, matches)| matches.len() > 1) {
            let (mut all, mut lefts, mut rights) = (Vec::new(), Vec::new(), Vec::new());
            for (matched, of_left, of_right) in matches {
                all.push(matched);
                lefts.push(of_left);
                rights.push(of_right);
            }
            let rows = (self.profiles[left].rows, self.profiles[right].rows);
            let selectivity = keys_selectivity(&all, (&lefts, &rights), rows).max(1e-12);
            graph.composites.push(Composite { left, right, selectivity });
        }
    }
}
