//! An upper bound on the steps of validation, computed before any arguments arrive.
//!
//! A tool's definition comes from an untrusted server, and a small schema can need
//! an astronomical number of steps: two references at each of forty levels double
//! forty times. So the worst case is computed from the schema alone, for every depth
//! of arguments, and a schema that would take too long is refused.

use serde_json::Value as Json;

use super::locations::{Location, Locations, locations};

/// The maximum depth of arguments: more than the message parser allows.
const DEEPEST: usize = 64;
/// The longest chain of subschemas for one value.
const LONGEST_CHAIN: usize = 64;
/// The maximum number of nested validations, because each takes stack space.
const MOST_OPEN: u64 = 512;
/// The maximum number of steps for one value of the arguments and its ancestors.
const MOST_STEPS: u64 = 100_000;
/// The maximum number of steps for all values; about a fifth of a second.
const MOST_WORK: u64 = 50_000_000;

/// The worst-case cost of validating arguments.
#[derive(Debug)]
pub(super) struct Cost {
    /// Steps for one value, by the depth of the arguments.
    steps: Vec<u64>,
    /// The size of its patterns, in bytes.
    pub(super) pattern_bytes: usize,
}

impl Cost {
    /// The cost of a schema, or why it cannot be computed or is too high.
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

    /// Why arguments of this depth and size are not validated.
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

/// The worst case for a value at one location, with a given number of levels below it.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    /// Steps to validate the value and one path down into it.
    steps: u64,
    /// Steps to find out which of its members or items the location evaluates.
    marking: u64,
    /// The number of nested validations.
    open: u64,
}

/// Computes the loads of all locations for one level more than `below`.
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

/// Computes one location's load from those of the locations that it refers to.
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

/// The load of a location; zero below the last level.
fn get(loads: &[Load], at: usize) -> Load {
    loads.get(at).copied().unwrap_or_default()
}

fn sum(steps: impl IntoIterator<Item = u64>) -> u64 {
    steps.into_iter().fold(0, u64::saturating_add)
}

/// The locations sorted topologically: each comes after those that it applies to the same value.
fn order(locations: &[Location]) -> Result<Vec<usize>, String> {
    let mut walk = Walk { locations, heights: vec![0; locations.len()], order: Vec::new() };
    for at in 0..locations.len() {
        walk.visit(at, 0)?;
    }
    Ok(walk.order)
}

struct Walk<'l> {
    locations: &'l [Location],
    /// The longest chain from each location; 0 if not yet known.
    heights: Vec<usize>,
    order: Vec<usize>,
}

impl Walk<'_> {
    /// The longest chain from `at`; `above` locations are being visited already.
    ///
    /// A cycle is an endless chain, so the same bound detects both, and it limits the recursion
    /// here too.
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
