//! Giving way to others once.

use std::{
    future::poll_fn,
    mem,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

/// A turn of everybody else who is ready.
#[derive(Default)]
struct Turn(Mutex<State>);

#[derive(Default)]
struct State {
    is_over: bool,
    waiting: Option<Waker>,
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        let waiting = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_over = true;
            state.waiting.take()
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Lets everybody run who is ready now. The runtime's own `yield_now` is over as
/// soon as it is polled again, and a task may be polled again for any reason.
pub(super) async fn give_way() {
    let turn = Arc::new(Turn::default());
    let waker = Waker::from(Arc::clone(&turn));
    let mut others = pin!(tokio::task::yield_now());
    let mut has_begun = false;
    poll_fn(move |context| {
        {
            let mut state = turn.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.is_over {
                return Poll::Ready(());
            }
            state.waiting = Some(context.waker().clone());
        }
        if !mem::replace(&mut has_begun, true) {
            let _ = others.as_mut().poll(&mut Context::from_waker(&waker));
        }
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicBool, Ordering},
        task::{Context, Poll, Waker},
    };

    use super::give_way;

    #[tokio::test]
    async fn others_have_had_their_turn_however_often_it_is_polled() {
        static RAN: AtomicBool = AtomicBool::new(false);
        tokio::spawn(async { RAN.store(true, Ordering::Relaxed) });
        let mut turn = pin!(give_way());
        for _ in 0..3 {
            let polled = turn.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(polled, Poll::Pending);
        }
        assert!(!RAN.load(Ordering::Relaxed));
        turn.await;
        assert!(RAN.load(Ordering::Relaxed));
    }
}
