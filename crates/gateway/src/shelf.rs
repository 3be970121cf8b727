//! Room for work, kept to be used again.
//!
//! Every request needs room of some thousand bytes while it is answered. What is as
//! large as that the allocator does not keep at hand for each thread, so threads
//! keep some of it by themselves.

use std::{
    any::Any,
    cell::RefCell,
    pin::Pin,
    task::{Context, Poll},
};

/// Rooms of one kind that a thread keeps.
const MOST: usize = 64;

type Room<F> = Pin<Box<Option<F>>>;

thread_local! {
    /// For each kind of work its empty rooms, as `Vec<Room<F>>`.
    static ROOMS: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Does something with the empty rooms for one kind of work; nothing while the
/// thread ends.
fn with_rooms<F: 'static, T>(see: impl FnOnce(&mut Vec<Room<F>>) -> T) -> Option<T> {
    let found = ROOMS.try_with(|kinds| {
        let mut kinds = kinds.try_borrow_mut().ok()?;
        let known = kinds.iter().position(|kind| kind.is::<Vec<Room<F>>>());
        let place = known.unwrap_or_else(|| {
            kinds.push(Box::new(Vec::<Room<F>>::new()));
            kinds.len() - 1
        });
        kinds.get_mut(place)?.downcast_mut().map(see)
    });
    found.ok().flatten()
}

/// Work in a room of its own, so that whoever has it needs little room for it.
pub(crate) struct Housed<F: Future + 'static>(Option<Room<F>>);

impl<F: Future + 'static> Housed<F> {
    /// Work that is begun in its room: it is large, and would be moved there whole.
    #[inline]
    pub(crate) fn new(begin: impl FnOnce() -> F) -> Housed<F> {
        let room = with_rooms(Vec::pop).flatten();
        let mut room = room.unwrap_or_else(|| Box::pin(None));
        room.set(Some(begin()));
        Housed(Some(room))
    }

    /// Ends the work and keeps its room.
    fn leave(&mut self) {
        let Some(mut room) = self.0.take() else { return };
        room.set(None);
        with_rooms(|rooms| {
            if rooms.len() < MOST {
                rooms.push(room);
            }
        });
    }
}

impl<F: Future + 'static> Future for Housed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let work = self.0.as_mut().and_then(|room| room.as_mut().as_pin_mut());
        let Some(work) = work else { return Poll::Pending };
        let done = work.poll(context);
        if done.is_ready() {
            self.leave();
        }
        done
    }
}

impl<F: Future + 'static> Drop for Housed<F> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future,
        pin::{Pin, pin},
        sync::Arc,
        task::{Context, Poll, Waker},
    };

    use super::{Housed, MOST, Room, with_rooms};

    /// Work that holds something, and is done when it is first polled unless told
    /// otherwise.
    async fn work(held: Arc<()>, is_endless: bool) -> usize {
        if is_endless {
            future::pending::<()>().await;
        }
        Arc::strong_count(&held)
    }

    fn poll<F: Future>(work: Pin<&mut F>) -> Poll<F::Output> {
        work.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// How many rooms this thread keeps for such work.
    fn kept<F: Future + 'static>(_: &Housed<F>) -> usize {
        with_rooms(|rooms: &mut Vec<Room<F>>| rooms.len()).unwrap()
    }

    #[test]
    fn what_is_done_or_given_up_lets_go_of_what_it_held_and_leaves_its_room() {
        let held = Arc::new(());
        let mut done = Housed::new(|| work(Arc::clone(&held), false));
        assert_eq!(poll(pin!(&mut done)), Poll::Ready(2));
        assert_eq!((Arc::strong_count(&held), kept(&done)), (1, 1));
        // The room is used again, and not kept twice.
        let mut endless = Housed::new(|| work(Arc::clone(&held), true));
        assert_eq!((poll(pin!(&mut endless)), kept(&done)), (Poll::Pending, 0));
        drop(endless);
        assert_eq!((Arc::strong_count(&held), kept(&done)), (1, 1));
    }

    #[test]
    fn no_more_are_kept_than_are_of_use() {
        let held = Arc::new(());
        let many: Vec<_> =
            (0..MOST + 5).map(|_| Housed::new(|| work(Arc::clone(&held), true))).collect();
        drop(many);
        assert_eq!(Arc::strong_count(&held), 1);
        assert_eq!(kept(&Housed::new(|| work(held, true))), MOST - 1);
    }
}
