//! Which receiver gets which message.

use sluice_wire::{json::Bounds, rpc::Id};
use tokio::sync::mpsc::Receiver;

use super::{Dispatcher, MOST_KEPT, MOST_WAITING, Refused, SseDelivery};

fn id(number: u32) -> Id {
    Id::Integer(number.to_string())
}

async fn say(dispatcher: &Dispatcher, text: &str) {
    dispatcher.take(text.to_owned(), &Bounds::default()).await.unwrap();
}

fn heard(said: &mut Receiver<SseDelivery>) -> Option<String> {
    match said.try_recv().ok()? {
        SseDelivery::Besides(text) | SseDelivery::Answer { text, .. } => Some(text),
        SseDelivery::Broken(why) => Some(format!("broken: {why}")),
    }
}

const NEWS: &str = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;

fn progress(token: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token}}}}}"#
    )
}

fn answer(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

#[tokio::test]
async fn answers_and_progress_reach_their_own_request() {
    let dispatcher = Dispatcher::new(false);
    let (_, mut one) = dispatcher.wait(&id(1), Some("\"a\"".into())).unwrap();
    let (_, mut two) = dispatcher.wait(&id(2), Some("7".into())).unwrap();
    for text in [answer(3), progress("7"), progress("\"a\""), answer(2), answer(2), answer(1)] {
        say(&dispatcher, &text).await;
    }
    assert_eq!(heard(&mut one), Some(progress("\"a\"")));
    assert_eq!(heard(&mut one), Some(answer(1)));
    assert_eq!(heard(&mut two), Some(progress("7")));
    assert_eq!(heard(&mut two), Some(answer(2)));
    assert_eq!((heard(&mut one), heard(&mut two)), (None, None));
}

#[tokio::test]
async fn a_notification_reaches_exactly_one_receiver() {
    let dispatcher = Dispatcher::new(false);
    say(&dispatcher, NEWS).await;
    let mut listener = dispatcher.listen().unwrap();
    assert_eq!(heard(&mut listener), Some(NEWS.into()));
    let (_, mut one) = dispatcher.wait(&id(1), None).unwrap();
    say(&dispatcher, NEWS).await;
    assert_eq!((heard(&mut one), heard(&mut listener)), (Some(NEWS.into()), None));
    let (_, mut two) = dispatcher.wait(&id(2), None).unwrap();
    say(&dispatcher, NEWS).await;
    assert_eq!((heard(&mut two), heard(&mut listener)), (None, Some(NEWS.into())));
    drop(listener);
    say(&dispatcher, NEWS).await;
    assert_eq!((heard(&mut one), heard(&mut two)), (None, Some(NEWS.into())));
}

#[tokio::test]
async fn a_new_listener_takes_the_place_of_the_old() {
    let dispatcher = Dispatcher::new(false);
    let mut old = dispatcher.listen().unwrap();
    let mut new = dispatcher.listen().unwrap();
    say(&dispatcher, NEWS).await;
    assert_eq!(old.recv().await, None);
    assert_eq!(heard(&mut new), Some(NEWS.into()));
}

#[tokio::test]
async fn only_so_much_is_kept() {
    let dispatcher = Dispatcher::new(false);
    for number in 0..MOST_KEPT + 10 {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"n":{number}}}}}"#);
        say(&dispatcher, &text).await;
    }
    let mut listener = dispatcher.listen().unwrap();
    assert!(heard(&mut listener).unwrap().contains("\"n\":10}"));
    let rest = std::iter::from_fn(|| heard(&mut listener)).count();
    assert_eq!(rest, MOST_KEPT - 1);
}

#[tokio::test]
async fn the_end_is_told_to_everybody_at_once() {
    let dispatcher = Dispatcher::new(false);
    let (_, mut one) = dispatcher.wait(&id(1), None).unwrap();
    let (_, mut two) = dispatcher.wait(&id(2), None).unwrap();
    let mut listener = dispatcher.listen().unwrap();
    dispatcher.end("gone");
    assert_eq!(heard(&mut one), Some("broken: gone".into()));
    assert_eq!(heard(&mut two), Some("broken: gone".into()));
    assert_eq!(listener.recv().await, None);
    assert_eq!(dispatcher.wait(&id(3), None).unwrap_err(), Refused::Over);
    assert!(dispatcher.is_over());
}

#[tokio::test]
async fn an_id_is_used_once_at_a_time() {
    let dispatcher = Dispatcher::new(false);
    let (first, said) = dispatcher.wait(&id(1), None).unwrap();
    assert_eq!(dispatcher.wait(&id(1), None).unwrap_err(), Refused::Twice);
    drop(said);
    dispatcher.forget(&id(1), first);
    let (_, mut again) = dispatcher.wait(&id(1), None).unwrap();
    dispatcher.forget(&id(1), first);
    say(&dispatcher, &answer(1)).await;
    assert_eq!(heard(&mut again), Some(answer(1)));
    let waiting: Vec<_> =
        (0..).map_while(|number| dispatcher.wait(&id(number), None).ok()).collect();
    assert_eq!(waiting.len(), MOST_WAITING);
    assert_eq!(dispatcher.wait(&id(9999), None).unwrap_err(), Refused::Full);
}

#[tokio::test]
async fn an_invalid_message_ends_the_stream() {
    let dispatcher = Dispatcher::new(false);
    let texts = [
        "{",
        r#"{"id":1,"result":{}}"#,
        r#"[{"jsonrpc":"2.0","method":"notifications/message"}]"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#,
    ];
    for text in texts {
        assert!(dispatcher.take(text.into(), &Bounds::default()).await.is_err(), "{text}");
    }
}

/// Some servers keep a stream alive by events that carry nothing.
#[tokio::test]
async fn keep_alive_events_are_skipped() {
    let dispatcher = Dispatcher::new(false);
    let (_, mut one) = dispatcher.wait(&id(1), None).unwrap();
    for text in ["{}", "[]", "null", r#"{"ping":1}"#] {
        say(&dispatcher, text).await;
    }
    say(&dispatcher, &answer(1)).await;
    assert_eq!(heard(&mut one), Some(answer(1)));
}
