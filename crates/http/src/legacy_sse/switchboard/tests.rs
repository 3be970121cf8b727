//! Who hears what, by the message and by who waits.

use sluice_wire::{json::Bounds, rpc::Id};
use tokio::sync::mpsc::Receiver;

use super::{MOST_KEPT, MOST_WAITING, Refused, SseDelivery, Switchboard};

fn id(number: u32) -> Id {
    Id::Integer(number.to_string())
}

async fn say(switchboard: &Switchboard, text: &str) {
    switchboard.take(text.to_owned(), &Bounds::default()).await.unwrap();
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
    let switchboard = Switchboard::new(false);
    let (_, mut one) = switchboard.wait(&id(1), Some("\"a\"".into())).unwrap();
    let (_, mut two) = switchboard.wait(&id(2), Some("7".into())).unwrap();
    for text in [answer(3), progress("7"), progress("\"a\""), answer(2), answer(2), answer(1)] {
        say(&switchboard, &text).await;
    }
    assert_eq!(heard(&mut one), Some(progress("\"a\"")));
    assert_eq!(heard(&mut one), Some(answer(1)));
    assert_eq!(heard(&mut two), Some(progress("7")));
    assert_eq!(heard(&mut two), Some(answer(2)));
    assert_eq!((heard(&mut one), heard(&mut two)), (None, None));
}

#[tokio::test]
async fn what_is_no_answer_is_heard_by_one() {
    let switchboard = Switchboard::new(false);
    say(&switchboard, NEWS).await;
    let mut listener = switchboard.listen().unwrap();
    assert_eq!(heard(&mut listener), Some(NEWS.into()));
    let (_, mut one) = switchboard.wait(&id(1), None).unwrap();
    say(&switchboard, NEWS).await;
    assert_eq!((heard(&mut one), heard(&mut listener)), (Some(NEWS.into()), None));
    let (_, mut two) = switchboard.wait(&id(2), None).unwrap();
    say(&switchboard, NEWS).await;
    assert_eq!((heard(&mut two), heard(&mut listener)), (None, Some(NEWS.into())));
    drop(listener);
    say(&switchboard, NEWS).await;
    assert_eq!((heard(&mut one), heard(&mut two)), (None, Some(NEWS.into())));
}

#[tokio::test]
async fn a_new_listener_takes_the_place_of_the_old() {
    let switchboard = Switchboard::new(false);
    let mut old = switchboard.listen().unwrap();
    let mut new = switchboard.listen().unwrap();
    say(&switchboard, NEWS).await;
    assert_eq!(old.recv().await, None);
    assert_eq!(heard(&mut new), Some(NEWS.into()));
}

#[tokio::test]
async fn only_so_much_is_kept() {
    let switchboard = Switchboard::new(false);
    for number in 0..MOST_KEPT + 10 {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"n":{number}}}}}"#);
        say(&switchboard, &text).await;
    }
    let mut listener = switchboard.listen().unwrap();
    assert!(heard(&mut listener).unwrap().contains("\"n\":10}"));
    let rest = std::iter::from_fn(|| heard(&mut listener)).count();
    assert_eq!(rest, MOST_KEPT - 1);
}

#[tokio::test]
async fn the_end_is_told_to_everybody_at_once() {
    let switchboard = Switchboard::new(false);
    let (_, mut one) = switchboard.wait(&id(1), None).unwrap();
    let (_, mut two) = switchboard.wait(&id(2), None).unwrap();
    let mut listener = switchboard.listen().unwrap();
    switchboard.end("gone");
    assert_eq!(heard(&mut one), Some("broken: gone".into()));
    assert_eq!(heard(&mut two), Some("broken: gone".into()));
    assert_eq!(listener.recv().await, None);
    assert_eq!(switchboard.wait(&id(3), None).unwrap_err(), Refused::Over);
    assert!(switchboard.is_over());
}

#[tokio::test]
async fn an_id_is_used_once_at_a_time() {
    let switchboard = Switchboard::new(false);
    let (first, said) = switchboard.wait(&id(1), None).unwrap();
    assert_eq!(switchboard.wait(&id(1), None).unwrap_err(), Refused::Twice);
    drop(said);
    switchboard.forget(&id(1), first);
    let (_, mut again) = switchboard.wait(&id(1), None).unwrap();
    switchboard.forget(&id(1), first);
    say(&switchboard, &answer(1)).await;
    assert_eq!(heard(&mut again), Some(answer(1)));
    let waiting: Vec<_> =
        (0..).map_while(|number| switchboard.wait(&id(number), None).ok()).collect();
    assert_eq!(waiting.len(), MOST_WAITING);
    assert_eq!(switchboard.wait(&id(9999), None).unwrap_err(), Refused::Full);
}

#[tokio::test]
async fn what_is_no_message_ends_the_stream() {
    let switchboard = Switchboard::new(false);
    let texts = [
        "{",
        r#"{"id":1,"result":{}}"#,
        r#"[{"jsonrpc":"2.0","method":"notifications/message"}]"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#,
    ];
    for text in texts {
        assert!(switchboard.take(text.into(), &Bounds::default()).await.is_err(), "{text}");
    }
}

/// Some servers keep a stream alive by events that carry nothing.
#[tokio::test]
async fn what_was_not_meant_as_a_message_is_skipped() {
    let switchboard = Switchboard::new(false);
    let (_, mut one) = switchboard.wait(&id(1), None).unwrap();
    for text in ["{}", "[]", "null", r#"{"ping":1}"#] {
        say(&switchboard, text).await;
    }
    say(&switchboard, &answer(1)).await;
    assert_eq!(heard(&mut one), Some(answer(1)));
}
