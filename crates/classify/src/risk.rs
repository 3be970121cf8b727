//! Risk: the harm that a category can do, in four levels.

use std::fmt;

use crate::Category;

/// How much harm a tool can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    Low,
    Medium,
    High,
    Critical,
}

impl Risk {
    /// All levels, the lowest first.
    pub const ALL: [Risk; 4] = [Risk::Low, Risk::Medium, Risk::High, Risk::Critical];

    /// The lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Risk::Low => "low",
            Risk::Medium => "medium",
            Risk::High => "high",
            Risk::Critical => "critical",
        }
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Category> for Risk {
    fn from(category: Category) -> Risk {
        match category {
            Category::Read | Category::Other => Risk::Low,
            Category::Write => Risk::Medium,
            Category::Execute => Risk::High,
            Category::Destructive | Category::Financial => Risk::Critical,
        }
    }
}
