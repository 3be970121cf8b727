//! The six categories of tools.

use std::fmt;

/// What a tool can do, from harmless to most dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Reads, without side effects.
    Read,
    /// None of the others.
    Other,
    /// Creates or changes something that can be undone.
    Write,
    /// Runs code, or starts something whose effect depends on the arguments.
    Execute,
    /// Deletes or overwrites permanently.
    Destructive,
    /// Moves money or commits to paying.
    Financial,
}

impl Category {
    /// All categories, by rank.
    pub const ALL: [Category; 6] = [
        Category::Read,
        Category::Other,
        Category::Write,
        Category::Execute,
        Category::Destructive,
        Category::Financial,
    ];

    /// The lower-case name, which policies use after `@`.
    pub fn name(self) -> &'static str {
        match self {
            Category::Read => "read",
            Category::Other => "other",
            Category::Write => "write",
            Category::Execute => "execute",
            Category::Destructive => "destructive",
            Category::Financial => "financial",
        }
    }

    /// The name in title case, for reports.
    pub fn title(self) -> &'static str {
        match self {
            Category::Read => "Read",
            Category::Other => "Other",
            Category::Write => "Write",
            Category::Execute => "Execute",
            Category::Destructive => "Destructive",
            Category::Financial => "Financial",
        }
    }

    /// The category with this name.
    pub fn from_name(name: &str) -> Option<Category> {
        Category::ALL.into_iter().find(|category| category.name() == name)
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Category;

    #[test]
    fn categories_rank_from_read_to_financial() {
        assert!(Category::ALL.is_sorted());
        for category in Category::ALL {
            assert_eq!(Category::from_name(category.name()), Some(category));
        }
    }
}
