//! An upper bound on the steps of validation, computed before any arguments arrive.
//!
//! A tool's definition comes from an untrusted server, and a small schema can need
//! an astronomical number of steps: two references at each of forty levels double
//! forty times. So the worst case is computed from the schema alone, for every depth
//! of arguments, and a schema that would take too long is refused.

use serde_json::Value as Json;

use super::locations::{Location, Locations, locations};

/// Levels of arguments: more than the reader of messages lets through.
const DEEPEST: usize = 64;
/// Subschemas in a row for one value.
const LONGEST_CHAIN: usize = 64;
/// Subschemas open at once: each holds some of the stack.
const MOST_OPEN: u64 = 512;
/// Steps for one value of the arguments together with all that it is inside of.
const MOST_STEPS: u64 = 100_000;
/// Steps for all values; about a fifth of a second.
const MOST_WORK: u64 = 50_000_000;

/// What checking arguments can cost.
#[derive(Debug)]
pub(super) struct Cost {
    /// Steps for one value, by the depth of the arguments.
    steps: Vec<u64>,
    /// Bytes of its patterns.
    pub(super) pattern_bytes: usize,
}

impl Cost {
    /// The cost of a schema, or why there is no saying or it is too high.
    pub(super) fn of(schema: &Json) -> Result<Cost, String> {
        let Locations { all: locations, pattern_bytes } = locations(schema)?;
        let order = order(&locations)?;
        let mut steps = Vec::new();
        let mut below = Vec::new();
        for _ in 0..=DEEPEST {
            let level = level(&locations, &order, &below);
            let root = get(&level, 0);
            if root.steps > MOST_STEPS || root.open > MOST_OPEN {
                break;
            }
            steps.push(root.steps);
            below = level;
        }
        if steps.len() < 2 {
            return Err("checking arguments could take too long".into());
        }
        Ok(Cost { steps, pattern_bytes })
    }

    /// Why arguments `depth` levels deep and of this size are not checked.
    pub(super) fn refuse(&self, depth: usize, size: u64) -> Option<&'static str> {
        match self.steps.get(depth) {
            None => Some("they are nested too deeply for this schema to be checked"),
            Some(steps) if steps.saturating_mul(size) > MOST_WORK => {
                Some("they are too large for this schema to be checked")
            }
            Some(_) => None,
        }
    }
}

/// The worst case for a value at one location, with so many levels below it.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    /// Steps to check the value and one way down into it.
    steps: u64,
    /// Steps to find out which of its members or items the location looks at.
    marking: u64,
    /// Subschemas open at once.
    open: u64,
}

/// The loads of all locations for one more level than `below`.
fn level(locations: &[Location], order: &[usize], below: &[Load]) -> Vec<Load> {
    let mut loads = vec![Load::default(); locations.len()];
    for &at in order {
        let load = locations.get(at).map(|location| load(location, &loads, below));
        if let (Some(place), Some(load)) = (loads.get_mut(at), load) {
            *place = load;
        }
    }
    loads
}

/// One location's load, from those of the locations it leads to.
fn load(location: &Location, here: &[Load], below: &[Load]) -> Load {
    let same = || location.same.iter().map(|&at| get(here, at));
    let one = || location.one.iter().map(|&at| get(below, at));
    let each = || location.each.iter().map(|&at| get(below, at));

    let checking = sum(same().map(|load| load.steps));
    let inside = sum(each().map(|load| load.steps));
    let marking = sum([location.own, checking, sum(same().map(|load| load.marking)), inside]);
    let largest = one().map(|load| load.steps).max().unwrap_or_default();
    let again = if location.unevaluated { marking } else { 0 };
    let open = same().chain(one()).chain(each()).map(|load| load.open).max().unwrap_or_default();
    Load {
        steps: sum([location.own, checking, again, largest, inside]),
        marking,
        open: open.saturating_add(1),
    }
}

/// Below the last level there is nothing to check.
fn get(loads: &[Load], at: usize) -> Load {
    loads.get(at).copied().unwrap_or_default()
}

fn sum(steps: impl IntoIterator<Item = u64>) -> u64 {
    steps.into_iter().fold(0, u64::saturating_add)
}

/// The locations in such an order that each comes after those it leads to with
/// the same value.
fn order(locations: &[Location]) -> Result<Vec<usize>, String> {
    let mut walk = Walk { locations, heights: vec![0; locations.len()], order: Vec::new() };
    for at in 0..locations.len() {
        walk.visit(at, 0)?;
    }
    Ok(walk.order)
}

struct Walk<'l> {
    locations: &'l [Location],
    /// The longest chain from each location; 0 where it is not known yet.
    heights: Vec<usize>,
    order: Vec<usize>,
}

impl Walk<'_> {
    /// The longest chain from `at`; `above` locations are being visited already.
    ///
    /// A cycle is a chain without end, so both are found by the same bound, which
    /// also bounds the recursion here.
    fn visit(&mut self, at: usize, above: usize) -> Result<usize, String> {
        let known = self.heights.get(at).copied().unwrap_or_default();
        let mut height = known;
        if known == 0 && above < LONGEST_CHAIN {
            let same = self.locations.get(at).map(|location| location.same.as_slice());
            for &next in same.unwrap_or_default() {
                height = height.max(self.visit(next, above + 1)?);
            }
            height += 1;
            self.order.push(at);
            self.heights.iter_mut().skip(at).take(1).for_each(|place| *place = height);
        }
        if height == 0 || above + height > LONGEST_CHAIN {
            return Err(format!("more than {LONGEST_CHAIN} references follow each other in it"));
        }
        Ok(height)
    }
}

#[cfg(test)]
mod tests;
