//! `EXCLUDE` of a window's frame, which a plan carries as a key of the window's partitions (`framed_rows`).
//!
//! Not here: what is left of a frame (`ogee-planner`).

/// Which rows around the current one a frame is without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exclusion {
    /// `EXCLUDE CURRENT ROW`.
    CurrentRow,
    /// `EXCLUDE GROUP`: the current row and its peers.
    Group,
    /// `EXCLUDE TIES`: its peers, not itself.
    Ties,
}

impl Exclusion {
    /// All that there are.
    pub const ALL: [Self; 3] = [Self::CurrentRow, Self::Group, Self::Ties];

    /// The name of its function.
    pub fn function_name(self) -> &'static str {
        match self {
            Self::CurrentRow => "ogee_exclude_current_row",
            Self::Group => "ogee_exclude_group",
            Self::Ties => "ogee_exclude_ties",
        }
    }

    /// That of the function `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|exclusion| exclusion.function_name() == name)
    }

    /// What is written.
    pub fn text(self) -> &'static str {
        match self {
            Self::CurrentRow => "EXCLUDE CURRENT ROW",
            Self::Group => "EXCLUDE GROUP",
            Self::Ties => "EXCLUDE TIES",
        }
    }
}
