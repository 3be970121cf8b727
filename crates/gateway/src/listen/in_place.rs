//! Work that wakes itself, polled again in place.
//!
//! One task holds a connection and the request on it, which hand bytes to each
//! other through channels, so the task wakes itself several times a call. The
//! runtime would queue it behind others, or where it has several threads wake
//! another to take it. What is woken from within its own poll is polled again at
//! once instead.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;
use pin_project_lite::pin_project;

/// Nobody polls, and nothing has happened since.
const IDLE: u8 = 0;
/// It is being polled, and nothing has happened since that began.
const POLLED: u8 = 1;
/// Something has happened that it has not been polled for.
const RUNG: u8 = 2;

/// How often work is polled in a row, so that it gives way to others.
const MOST: usize = 8;

/// What rings when work can go on.
#[derive(Debug, Default)]
struct Bell {
    state: AtomicU8,
    /// The task that polls.
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Whoever polls looks again before it stops, and who has been woken will poll.
        if self.state.swap(RUNG, Ordering::AcqRel) == IDLE {
            self.task.wake();
        }
    }
}

pin_project! {
    /// See the module.
    #[derive(Debug)]
    pub(super) struct InPlace<F> {
        #[pin]
        work: F,
        bell: Arc<Bell>,
        waker: Waker,
    }
}

impl<F: Future> InPlace<F> {
    pub(super) fn new(work: F) -> InPlace<F> {
        let bell = Arc::new(Bell::default());
        InPlace { work, waker: Arc::clone(&bell).into(), bell }
    }
}

impl<F: Future> Future for InPlace<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let bell = this.bell;
        bell.task.register(context.waker());
        for _ in 0..MOST {
            bell.state.swap(POLLED, Ordering::AcqRel);
            if let Poll::Ready(output) =
                this.work.as_mut().poll(&mut Context::from_waker(this.waker))
            {
                return Poll::Ready(output);
            }
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            if bell.state.compare_exchange(POLLED, IDLE, success, failure).is_ok() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        pin::Pin,
        sync::{
            Arc, Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll, Wake, Waker},
    };

    use super::{InPlace, MOST};

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Counted {
        fn poll<F: Future + Unpin>(self: &Arc<Self>, work: &mut F) -> Poll<F::Output> {
            Pin::new(work).poll(&mut Context::from_waker(&Arc::clone(self).into()))
        }

        fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// Wakes itself so many times, then is done.
    fn restless(times: usize) -> impl Future<Output = ()> {
        let mut left = times;
        poll_fn(move |context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    #[test]
    fn what_wakes_itself_is_polled_again_without_its_task_being_woken() {
        let task = Arc::new(Counted::default());
        let mut work = InPlace::new(restless(MOST - 1));
        assert_eq!(task.poll(&mut work), Poll::Ready(()));
        assert_eq!(task.count(), 0);
    }

    #[test]
    fn what_never_rests_gives_way_and_goes_on_later() {
        let task = Arc::new(Counted::default());
        let mut work = InPlace::new(restless(MOST + 1));
        assert_eq!(task.poll(&mut work), Poll::Pending);
        assert_eq!(task.count(), 1);
        assert_eq!(task.poll(&mut work), Poll::Ready(()));
        assert_eq!(task.count(), 1);
    }

    #[test]
    fn what_happens_between_polls_wakes_the_task_once() {
        let task = Arc::new(Counted::default());
        let kept: Arc<Mutex<Option<Waker>>> = Arc::default();
        let keep = Arc::clone(&kept);
        let mut work = InPlace::new(poll_fn(move |context| -> Poll<()> {
            *keep.lock().unwrap() = Some(context.waker().clone());
            Poll::Pending
        }));
        for round in 1..4 {
            assert_eq!(task.poll(&mut work), Poll::Pending);
            let waker = kept.lock().unwrap().clone().unwrap();
            waker.wake_by_ref();
            waker.wake();
            assert_eq!(task.count(), round);
        }
    }

    /// Threads that ring at any moment are all heard.
    #[test]
    fn nothing_that_happens_while_it_is_polled_is_missed() {
        const RINGS: usize = 20_000;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        runtime.unwrap().block_on(async move {
            let sending = tokio::spawn(async move {
                for ring in 0..RINGS {
                    sender.send(ring).await.unwrap();
                }
            });
            let heard = tokio::spawn(InPlace::new(async move {
                let mut heard = 0;
                while receiver.recv().await.is_some() {
                    heard += 1;
                }
                heard
            }));
            sending.await.unwrap();
            assert_eq!(heard.await.unwrap(), RINGS);
        });
    }
}
