//! A bounded map for state about clients and servers that is kept in memory: sessions,
//! subscriptions, owners of resources.
//!
//! Entries are ordered by their last use. When an [`ExpiringMap`] is full, it evicts the least
//! recently used entry ([`ExpiringMap::insert`]) or refuses the new one
//! ([`ExpiringMap::try_insert`]); [`ExpiringMap::expire`] removes entries that were idle for too
//! long. [`ExpiringMap::touch`] counts as a use, [`ExpiringMap::get`] does not: a store that evicts
//! the oldest entry calls `get`, one that evicts the least recently used (LRU) calls `touch`. Every
//! removed entry is returned, so that the caller can close it.
//!
//! The caller passes the time in and does the locking.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::{Duration, Instant},
};

/// The limits of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub entries: usize,
    /// The maximum total cost of all entries, for instance in bytes.
    pub cost: usize,
    /// An entry expires after being unused for this long.
    pub idle: Duration,
}

impl Limits {
    /// No limits, as a base for others.
    pub const NONE: Limits = Limits { entries: usize::MAX, cost: usize::MAX, idle: Duration::MAX };
}

/// A map within [`Limits`], ordered by last use.
#[derive(Debug)]
pub struct ExpiringMap<K, V> {
    limits: Limits,
    entries: HashMap<K, Entry<V>>,
    /// Keys by the number of their last use, the least recently used first.
    order: BTreeMap<u64, K>,
    next: u64,
    cost: usize,
    /// The latest time that was passed in, so that times never decrease along the order.
    latest: Option<Instant>,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    cost: usize,
    used: Instant,
    /// Its key in `order`.
    number: u64,
}

impl<K: Clone + Eq + Hash, V> ExpiringMap<K, V> {
    pub fn new(limits: Limits) -> ExpiringMap<K, V> {
        ExpiringMap {
            limits,
            entries: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
            cost: 0,
            latest: None,
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The total cost of all entries.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Whether one more entry of this cost fits.
    pub fn has_room(&self, cost: usize) -> bool {
        self.len() < self.limits.entries
            && self.cost.checked_add(cost).is_some_and(|sum| sum <= self.limits.cost)
    }

    /// Inserts an entry, and evicts the least recently used ones until it fits. Returns everything
    /// that was removed: the evicted entries, the previous value of the key, or the new entry
    /// itself if it would not fit into an empty map.
    pub fn insert(&mut self, key: K, value: V, cost: usize, now: Instant) -> Vec<(K, V)> {
        if cost > self.limits.cost || self.limits.entries == 0 {
            return vec![(key, value)];
        }
        let mut left: Vec<_> = self.remove_entry(&key).into_iter().collect();
        while !self.has_room(cost) {
            let Some(oldest) = self.evict_where(|_, _| true) else { break };
            left.push(oldest);
        }
        self.place(key, value, cost, now);
        left
    }

    /// Inserts an entry if it fits without eviction, and returns the previous value of the key;
    /// otherwise returns the new entry as the error.
    pub fn try_insert(
        &mut self,
        key: K,
        value: V,
        cost: usize,
        now: Instant,
    ) -> Result<Option<V>, (K, V)> {
        let freed = self.entries.get(&key).map(|entry| entry.cost);
        let fits = match freed {
            Some(freed) => (self.cost - freed).saturating_add(cost) <= self.limits.cost,
            None => self.has_room(cost),
        };
        if !fits {
            return Err((key, value));
        }
        let before = self.remove(&key);
        self.place(key, value, cost, now);
        Ok(before)
    }

    /// Returns the value of a key, inserted at no cost if it is missing, and the entries evicted to
    /// make room for it. This does not count as a use of an existing value.
    pub fn get_or_insert_with(
        &mut self,
        key: K,
        now: Instant,
        make: impl FnOnce() -> V,
    ) -> (&mut V, Vec<(K, V)>) {
        let mut left = Vec::new();
        let (used, number) = (self.pass_time(now), self.next);
        if !self.entries.contains_key(&key) {
            while !self.has_room(0) {
                let Some(oldest) = self.evict_where(|_, _| true) else { break };
                left.push(oldest);
            }
            self.next += 1;
            self.order.insert(number, key.clone());
        }
        let make = || Entry { value: make(), cost: 0, used, number };
        (&mut self.entries.entry(key).or_insert_with(make).value, left)
    }

    fn place(&mut self, key: K, value: V, cost: usize, now: Instant) {
        let used = self.pass_time(now);
        let number = self.next;
        self.next += 1;
        self.cost += cost;
        self.order.insert(number, key.clone());
        self.entries.insert(key, Entry { value, cost, used, number });
    }

    /// The value of a key. This does not count as a use.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Like [`ExpiringMap::get`], but mutable.
    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Marks an entry as the most recently used one.
    pub fn touch<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, now: Instant) -> Option<(&K, &mut V)>
    where
        K: Borrow<Q>,
    {
        let used = self.pass_time(now);
        let entry = self.entries.get_mut(key)?;
        let number = self.next;
        self.next += 1;
        let own = self.order.remove(&entry.number)?;
        (entry.number, entry.used) = (number, used);
        let key = self.order.entry(number).or_insert(own);
        Some((key, &mut entry.value))
    }

    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.remove_entry(key).map(|(_, value)| value)
    }

    fn remove_entry<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        let (key, entry) = self.entries.remove_entry(key)?;
        self.order.remove(&entry.number);
        self.cost -= entry.cost;
        Some((key, entry.value))
    }

    /// Evicts the least recently used entry for which `may_leave` is true.
    pub fn evict_where(&mut self, may_leave: impl Fn(&K, &V) -> bool) -> Option<(K, V)> {
        let key = self.iter().find(|(key, value)| may_leave(key, value))?.0.clone();
        self.remove_entry(&key)
    }

    /// Removes the entries that were idle for the limit's time, except those for which `is_in_use`
    /// is true.
    pub fn expire(&mut self, now: Instant, is_in_use: impl Fn(&K, &V) -> bool) -> Vec<(K, V)> {
        let now = self.pass_time(now);
        let idle = self.limits.idle;
        let is_over = |entry: &Entry<V>| now.saturating_duration_since(entry.used) >= idle;
        // They are ordered by last use, so all others are younger.
        let old = self.order.values().map_while(|key| {
            let entry = self.entries.get(key)?;
            is_over(entry).then_some((key, &entry.value))
        });
        let over: Vec<K> =
            old.filter(|(key, value)| !is_in_use(key, value)).map(|(key, _)| key.clone()).collect();
        over.iter().filter_map(|key| self.remove_entry(key)).collect()
    }

    /// All entries, the least recently used first.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.order.values().filter_map(|key| {
            let (key, entry) = self.entries.get_key_value(key)?;
            Some((key, &entry.value))
        })
    }

    fn pass_time(&mut self, now: Instant) -> Instant {
        let latest = self.latest.map_or(now, |latest| latest.max(now));
        *self.latest.insert(latest)
    }
}

#[cfg(test)]
mod tests;
