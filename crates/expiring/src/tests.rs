//! The map against a naive model, and its edges one by one.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{ExpiringMap, Limits};

const LIMITS: Limits = Limits { entries: 4, cost: 10, idle: Duration::from_secs(5) };

/// A list in the order of last use: key, value, cost and second of last use.
#[derive(Debug, Default)]
struct Model(Vec<(u8, u32, usize, u64)>);

impl Model {
    fn cost(&self) -> usize {
        self.0.iter().map(|entry| entry.2).sum()
    }

    fn take(&mut self, key: u8) -> Option<(u8, u32, usize, u64)> {
        let place = self.0.iter().position(|entry| entry.0 == key)?;
        Some(self.0.remove(place))
    }

    fn fits(&self, cost: usize) -> bool {
        self.0.len() < LIMITS.entries && self.cost() + cost <= LIMITS.cost
    }

    fn insert(&mut self, key: u8, value: u32, cost: usize, now: u64) -> Vec<(u8, u32)> {
        if cost > LIMITS.cost {
            return vec![(key, value)];
        }
        let mut left: Vec<_> = self.take(key).into_iter().collect();
        while !self.fits(cost) {
            left.push(self.0.remove(0));
        }
        self.0.push((key, value, cost, now));
        left.into_iter().map(|entry| (entry.0, entry.1)).collect()
    }

    fn try_insert(&mut self, key: u8, value: u32, cost: usize, now: u64) -> bool {
        let place = self.0.iter().position(|entry| entry.0 == key);
        let before = self.take(key);
        if self.fits(cost) {
            self.0.push((key, value, cost, now));
            return true;
        }
        if let (Some(place), Some(before)) = (place, before) {
            self.0.insert(place, before);
        }
        false
    }

    fn expire(&mut self, now: u64, is_in_use: impl Fn(u8) -> bool) -> Vec<(u8, u32)> {
        let is_over = |entry: &(u8, u32, usize, u64)| {
            now - entry.3 >= LIMITS.idle.as_secs() && !is_in_use(entry.0)
        };
        let over = self.0.iter().filter(|entry| is_over(entry)).map(|one| (one.0, one.1)).collect();
        self.0.retain(|entry| !is_over(entry));
        over
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Insert(u8, u32, usize),
    TryInsert(u8, u32, usize),
    GetOrInsert(u8, u32),
    Get(u8),
    Touch(u8),
    Remove(u8),
    /// Keys from this on may leave.
    Evict(u8),
    /// Keys below this are in use.
    Expire(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..7_u8;
    prop_oneof![
        (key.clone(), any::<u32>(), 0..12_usize).prop_map(|(k, v, c)| Step::Insert(k, v, c)),
        (key.clone(), any::<u32>(), 0..12_usize).prop_map(|(k, v, c)| Step::TryInsert(k, v, c)),
        (key.clone(), any::<u32>()).prop_map(|(k, v)| Step::GetOrInsert(k, v)),
        key.clone().prop_map(Step::Get),
        key.clone().prop_map(Step::Touch),
        key.clone().prop_map(Step::Remove),
        key.clone().prop_map(Step::Evict),
        key.prop_map(Step::Expire),
        (0..4_u64).prop_map(Step::Wait),
    ]
}

/// Takes one step in both, and compares what they say.
fn take(step: Step, map: &mut ExpiringMap<u8, u32>, model: &mut Model, start: Instant, now: u64) {
    let at = start + Duration::from_secs(now);
    match step {
        Step::Insert(key, value, cost) => {
            assert_eq!(map.insert(key, value, cost, at), model.insert(key, value, cost, now));
        }
        Step::TryInsert(key, value, cost) => {
            let before = model.0.iter().find(|entry| entry.0 == key).map(|entry| entry.1);
            let expected = if model.try_insert(key, value, cost, now) {
                Ok(before)
            } else {
                Err((key, value))
            };
            assert_eq!(map.try_insert(key, value, cost, at), expected);
        }
        Step::GetOrInsert(key, value) => {
            let before = model.0.iter().find(|entry| entry.0 == key).map(|entry| entry.1);
            let left = if before.is_some() { Vec::new() } else { model.insert(key, value, 0, now) };
            let (found, evicted) = map.get_or_insert_with(key, at, || value);
            assert_eq!((*found, evicted), (before.unwrap_or(value), left));
        }
        Step::Get(key) => {
            let expected = model.0.iter().find(|entry| entry.0 == key).map(|entry| entry.1);
            assert_eq!(map.get(&key).copied(), expected);
            assert_eq!(map.get_mut(&key).copied(), expected);
        }
        Step::Touch(key) => {
            let touched = map.touch(&key, at).map(|(key, value)| (*key, *value));
            let expected = model.take(key);
            assert_eq!(touched, expected.map(|entry| (entry.0, entry.1)));
            model.0.extend(expected.map(|entry| (entry.0, entry.1, entry.2, now)));
        }
        Step::Remove(key) => assert_eq!(map.remove(&key), model.take(key).map(|entry| entry.1)),
        Step::Evict(from) => {
            let oldest = model.0.iter().find(|entry| entry.0 >= from).map(|entry| entry.0);
            let expected = oldest.and_then(|key| model.take(key)).map(|entry| (entry.0, entry.1));
            assert_eq!(map.evict_where(|key, _| *key >= from), expected);
        }
        Step::Expire(below) => {
            let expected = model.expire(now, |key| key < below);
            assert_eq!(map.expire(at, |key, _| *key < below), expected);
        }
        Step::Wait(_) => {}
    }
}

proptest! {
    #[test]
    fn the_map_does_what_a_list_would(steps in proptest::collection::vec(step(), 0..200)) {
        let (start, mut now) = (moment(), 0);
        let mut map = ExpiringMap::new(LIMITS);
        let mut model = Model::default();
        for step in steps {
            if let Step::Wait(seconds) = step {
                now += seconds;
            }
            take(step, &mut map, &mut model, start, now);
            let entries: Vec<_> = map.iter().map(|(key, value)| (*key, *value)).collect();
            let expected: Vec<_> = model.0.iter().map(|entry| (entry.0, entry.1)).collect();
            prop_assert_eq!(entries, expected);
            prop_assert_eq!((map.len(), map.cost()), (model.0.len(), model.cost()));
            prop_assert_eq!(map.order.len(), map.len());
            prop_assert!(map.len() <= LIMITS.entries && map.cost() <= LIMITS.cost);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "any moment will do to count from")]
fn moment() -> Instant {
    Instant::now()
}

#[test]
fn an_entry_that_never_fits_evicts_nobody() {
    let mut map = ExpiringMap::new(LIMITS);
    assert_eq!(map.insert("a", 1, 10, moment()), []);
    assert_eq!(map.insert("b", 2, 11, moment()), [("b", 2)]);
    assert_eq!(map.get("a"), Some(&1));
    let mut none = ExpiringMap::new(Limits { entries: 0, ..Limits::NONE });
    assert_eq!(none.insert("a", 1, 0, moment()), [("a", 1)]);
}

#[test]
fn a_clock_read_before_another_call_does_not_disturb_the_order() {
    let start = moment();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut map = ExpiringMap::new(LIMITS);
    map.insert("a", 1, 1, at(10));
    map.insert("b", 2, 1, at(0));
    assert_eq!(map.expire(at(14), |_, _| false), []);
    assert_eq!(map.expire(at(15), |_, _| false), [("a", 1), ("b", 2)]);
}

#[test]
fn without_limits_nothing_expires() {
    let mut map = ExpiringMap::new(Limits::NONE);
    map.insert("a", 1, usize::MAX, moment());
    assert_eq!(map.expire(moment() + Duration::from_hours(24), |_, _| false), []);
    assert_eq!(map.insert("b", 2, 1, moment()), [("a", 1)], "costs do not overflow");
}
