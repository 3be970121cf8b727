//! A value of the provider that is fetched when it is first needed, and kept for a while.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};

use crate::ProviderError;

/// How long a value is kept.
const KEPT_FOR: Duration = Duration::from_hours(1);

/// How long a failure is answered again, so that many requests at once do not wait for
/// one time-out after the other.
const FAILURE_FOR: Duration = Duration::from_secs(2);

/// How many times a value may be fetched before its time, in each `REFETCH_WINDOW`.
const MOST_REFETCHES: usize = 3;
const REFETCH_WINDOW: Duration = Duration::from_mins(1);

/// A value that is fetched by one request for all that wait for it.
#[derive(Debug)]
pub(crate) struct Cached<T> {
    /// The lock is held while fetching, so others wait for the same answer.
    kept: Mutex<Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    value: Option<(Arc<T>, Instant)>,
    failure: Option<(ProviderError, Instant)>,
    /// When the value was fetched before its time.
    refetches: VecDeque<Instant>,
}

impl<T> Default for Cached<T> {
    fn default() -> Cached<T> {
        let kept = Kept { value: None, failure: None, refetches: VecDeque::new() };
        Cached { kept: Mutex::new(kept) }
    }
}

impl<T> Cached<T> {
    /// The value that is kept, or else a fetched one.
    pub(crate) async fn get(
        &self,
        fetch: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<Arc<T>, ProviderError> {
        let mut kept = self.kept.lock().await;
        if let Some((value, since)) = &kept.value
            && since.elapsed() < KEPT_FOR
        {
            return Ok(Arc::clone(value));
        }
        kept.fetch(fetch).await
    }

    /// A newer value than `seen`, which turned out to be old. None if the value was fetched too
    /// often lately.
    pub(crate) async fn refetch(
        &self,
        seen: &Arc<T>,
        fetch: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<Option<Arc<T>>, ProviderError> {
        let mut kept = self.kept.lock().await;
        if let Some((value, _)) = &kept.value
            && !Arc::ptr_eq(value, seen)
        {
            return Ok(Some(Arc::clone(value)));
        }
        if !kept.may_refetch() {
            return Ok(None);
        }
        kept.fetch(fetch).await.map(Some)
    }
}

impl<T> Kept<T> {
    async fn fetch(
        &mut self,
        fetch: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<Arc<T>, ProviderError> {
        if let Some((error, since)) = &self.failure
            && since.elapsed() < FAILURE_FOR
        {
            return Err(error.clone());
        }
        match fetch.await {
            Ok(value) => {
                let value = Arc::new(value);
                self.failure = None;
                self.value = Some((Arc::clone(&value), Instant::now()));
                Ok(value)
            }
            Err(error) => {
                self.failure = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }

    fn may_refetch(&mut self) -> bool {
        self.refetches.retain(|at| at.elapsed() < REFETCH_WINDOW);
        let is_allowed = self.refetches.len() < MOST_REFETCHES;
        if is_allowed {
            self.refetches.push_back(Instant::now());
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use tokio::{task::JoinSet, time};

    use super::Cached;
    use crate::{Endpoint, ProviderError};

    const FAILURE: ProviderError = ProviderError::TimedOut { endpoint: Endpoint::Keys };

    /// A value whose fetches are counted, each of which takes a second.
    #[derive(Default)]
    struct Counted {
        cached: Cached<usize>,
        fetches: AtomicUsize,
    }

    impl Counted {
        async fn fetch(&self, result: Result<(), ProviderError>) -> Result<usize, ProviderError> {
            let count = self.fetches.fetch_add(1, Ordering::SeqCst) + 1;
            time::sleep(Duration::from_secs(1)).await;
            result.map(|()| count)
        }

        async fn get(&self, result: Result<(), ProviderError>) -> Result<usize, ProviderError> {
            self.cached.get(self.fetch(result)).await.map(|value| *value)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_fetched_once_for_all_and_again_after_an_hour() {
        let counted = Arc::new(Counted::default());
        let mut tasks = JoinSet::new();
        for _ in 0..10 {
            let counted = Arc::clone(&counted);
            tasks.spawn(async move { counted.get(Ok(())).await });
        }
        assert!(tasks.join_all().await.iter().all(|value| *value == Ok(1)));
        time::advance(Duration::from_hours(1)).await;
        assert_eq!(counted.get(Ok(())).await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_to_all_who_waited_and_then_tried_again() {
        let counted = Arc::new(Counted::default());
        let mut tasks = JoinSet::new();
        for _ in 0..10 {
            let counted = Arc::clone(&counted);
            tasks.spawn(async move { counted.get(Err(FAILURE)).await });
        }
        assert!(tasks.join_all().await.iter().all(|value| *value == Err(FAILURE)));
        assert_eq!(counted.fetches.load(Ordering::SeqCst), 1);
        time::advance(Duration::from_secs(2)).await;
        assert_eq!(counted.get(Ok(())).await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn refetches_are_shared_and_limited() {
        let counted = Counted::default();
        let first = counted.cached.get(counted.fetch(Ok(()))).await.unwrap();
        let mut last = Arc::clone(&first);
        for expected in 2..=4 {
            let newer = counted.cached.refetch(&last, counted.fetch(Ok(()))).await.unwrap();
            last = newer.unwrap();
            assert_eq!(*last, expected);
        }
        assert_eq!(counted.cached.refetch(&last, counted.fetch(Ok(()))).await, Ok(None));
        let shared = counted.cached.refetch(&first, counted.fetch(Ok(()))).await.unwrap();
        assert_eq!(shared.as_deref(), Some(&4));
        time::advance(Duration::from_mins(1)).await;
        let newer = counted.cached.refetch(&last, counted.fetch(Ok(()))).await.unwrap();
        assert_eq!(newer.as_deref(), Some(&5));
    }
}
