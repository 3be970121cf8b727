//! Slugs: names in the form used in URLs and file names.
//!
//! A slug consists of lower-case ASCII letters, digits and hyphens. If the slug of a
//! server is taken, a few characters of the name's digest are appended; a server keeps
//! the slug it has. The slug of a tool is unique within its server only.

use std::collections::HashSet;

use crate::digest;

/// The longest slug, without a digest.
const LONGEST: usize = 60;
/// Characters of the digest that make a slug unique.
const DIGEST: usize = 6;
/// Names that some file systems reserve for devices, and names that the site uses.
const RESERVED: [&str; 8] = ["con", "prn", "aux", "nul", "index", "servers", "attacks", "search"];

/// The default slug of a name. It is never empty.
pub fn slug(name: &str) -> String {
    let mut slug = String::new();
    let mut is_cut = false;
    for character in name.chars() {
        if slug.len() >= LONGEST {
            is_cut = true;
            break;
        }
        if character.is_ascii_alphanumeric() {
            slug.push(character.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(slug.trim_end_matches('-').len());
    let says_enough = !slug.is_empty() && !is_cut && slug.len() * 3 >= name.len();
    if says_enough && !is_reserved(&slug) { slug } else { append_digest(&slug, name) }
}

fn is_reserved(slug: &str) -> bool {
    let is_port =
        |prefix| slug.strip_prefix(prefix).is_some_and(|rest: &str| rest.len() == 1 && rest != "0");
    RESERVED.contains(&slug) || is_port("com") || is_port("lpt")
}

/// The slug with a part of the name's digest.
fn append_digest(slug: &str, name: &str) -> String {
    let digest = digest::of_text(name, DIGEST);
    if slug.is_empty() { format!("x-{digest}") } else { format!("{slug}-{digest}") }
}

/// The set of slugs in use, from which new ones are derived.
#[derive(Debug, Default)]
pub struct Slugs(HashSet<String>);

impl Slugs {
    /// Reserves a unique slug for a name.
    pub fn take(&mut self, name: &str) -> String {
        let taken = free(name, |slug| self.0.contains(slug));
        self.0.insert(taken.clone());
        taken
    }
}

/// The first free slug for a name.
pub(crate) fn free(name: &str, mut is_taken: impl FnMut(&str) -> bool) -> String {
    let plain = slug(name);
    if !is_taken(&plain) {
        return plain;
    }
    let apart = append_digest(&plain, name);
    if !is_taken(&apart) {
        return apart;
    }
    // Two names with the same slug and digest only occur if somebody constructs them.
    let numbered = (2_u32..).map(|number| format!("{apart}-{number}"));
    numbered.into_iter().find(|slug| !is_taken(slug)).unwrap_or(apart)
}

#[cfg(test)]
mod tests {
    use super::{Slugs, slug};

    #[test]
    fn names_become_slugs() {
        for (name, expected) in [
            ("github", "github"),
            ("@modelcontextprotocol/server-filesystem", "modelcontextprotocol-server-filesystem"),
            ("awslabs.eks-mcp-server", "awslabs-eks-mcp-server"),
            ("Ant Design  Components!", "ant-design-components"),
        ] {
            assert_eq!(slug(name), expected);
        }
    }

    #[test]
    fn hostile_names_have_safe_and_unique_slugs() {
        let long = "a".repeat(5_000);
        let [one, other] = ["a", "b"].map(|end| "very-long-".repeat(20) + end);
        let names = [
            "",
            "..",
            "../../etc/passwd",
            "CON",
            "nul",
            "com1",
            "长亭",
            "\u{0}",
            "<b>",
            &long,
            &one,
            &other,
            "index",
        ];
        let slugs: Vec<String> = names.iter().map(|name| slug(name)).collect();
        for slug in &slugs {
            assert!(
                slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            );
            assert!(!slug.is_empty() && slug.len() <= 70, "{slug}");
            assert!(!["con", "nul", "com1", "index"].contains(&slug.as_str()));
        }
        let mut distinct = slugs.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), slugs.len(), "{slugs:?}");
    }

    #[test]
    fn a_server_keeps_its_slug() {
        let mut slugs = Slugs::default();
        let first = slugs.take("a_b");
        let second = slugs.take("a-b");
        let third = slugs.take("A.B");
        assert_eq!(first, "a-b");
        assert!(second.starts_with("a-b-") && third.starts_with("a-b-") && second != third);
    }
}
