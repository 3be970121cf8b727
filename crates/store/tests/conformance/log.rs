//! The log: typed records, chained text, pages, filters.

use std::time::Duration;

use sluice_store::{
    Actor, Cursor, Entry, Filter, GrantRef, Kind, Outcome, PolicyRef, Record, UpstreamRef, new_id,
};

use crate::fixture::{Fixture, later, record};

const COUNT: i64 = 2_500;

/// A record with everything in it that a caller can put there.
fn full() -> Record {
    let id = new_id(later(1));
    Record {
        request: Some(id),
        server: Some("notes".into()),
        grant: Some(GrantRef { id: "g".into(), label: "lap\"top".into() }),
        principal: Some("a\\b\n\u{1}é".into()),
        session: Some("s".into()),
        method: Some("tools/call".into()),
        tool: Some("add\0".into()),
        outcome: Some(Outcome::ShadowDeny),
        target: Some("file:///x".into()),
        actor: Some(Actor { address: Some("::1".into()), ..Actor::local("t", "ada") }),
        approval: Some("a1".into()),
        rule: Some("/tools/x".into()),
        message: Some(String::new()),
        policy: Some(PolicyRef { name: "p".into(), version: "v".into() }),
        arg_keys: vec!["a".into(), "b\"".into()],
        arg_digest: Some([0xab; 32]),
        arg_values: Some(r#"{"a":[1.50]}"#.into()),
        upstream: Some(UpstreamRef { status: Some(200), is_error: Some(true), micros: 5 }),
        micros: Some(7),
        ..Record::new(id, later(1), Kind::Decision)
    }
}

pub(crate) async fn a_record_comes_back_as_it_was_written(fixture: Fixture) {
    let upstream = Some(UpstreamRef { status: None, is_error: None, micros: 1 });
    let bare = Record { upstream, ..Record::new(new_id(later(2)), later(2), Kind::Drift) };
    for record in [full(), bare.clone(), record(Outcome::Deny)] {
        fixture.store.append(record.clone()).await.unwrap();
        let newest = Filter { newest_first: true, ..Filter::default() };
        let page = fixture.store.page(&newest, 1).await.unwrap();
        assert_eq!(page.entries[0].record, record);
    }
    fixture.verify().await;
}

pub(crate) async fn the_chain_covers_the_exported_text(fixture: Fixture) {
    for _ in 0..3 {
        fixture.store.append(full()).await.unwrap();
    }
    let texts: Vec<_> = fixture.entries().await.iter().map(Entry::text).collect();
    let mut prev = "0".repeat(64);
    let key = fixture.key().derive("sluicegate log chain");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.as_bytes());
    for text in texts {
        let exported: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(exported["prev"], *prev);
        let (hashed, rest) = text.split_once(r#","hash":""#).unwrap();
        let digest = ring::hmac::sign(&key, hashed.as_bytes());
        let digits: Vec<_> = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        prev = digits.concat();
        assert_eq!(rest, format!("{prev}\"}}"));
    }
}

/// The record with this number: one a second, with something different in each.
fn numbered(number: i64) -> Record {
    let kind = if number % 10 == 0 { Kind::Outcome } else { Kind::Decision };
    let record = Record::new(new_id(later(number)), later(number), kind);
    let label = format!("label{}", number % 5).into();
    Record {
        request: Some(record.id),
        server: Some(format!("server{}", number % 3).into()),
        grant: Some(GrantRef { id: format!("g{}", number % 7).into(), label }),
        principal: (number % 6 == 0).then(|| "alice".into()),
        tool: Some(if number % 1_000 == 1 { "rare" } else { "common" }.into()),
        outcome: Some(if number % 4 == 0 { Outcome::Deny } else { Outcome::Allow }),
        message: Some(number.to_string()),
        rule: (number % 500 == 3).then(|| "(hidden)".into()),
        session: (number % 700 == 9).then(|| "s-9".into()),
        ..record
    }
}

/// A store with so many records, more than two blocks of them.
async fn fill(fixture: &Fixture) {
    for number in 1..=COUNT {
        fixture.store.append_deferred(numbered(number));
        if number % 100 == 0 {
            fixture.store.flush().await.unwrap();
        }
    }
}

async fn numbers(fixture: &Fixture, filter: &Filter, limit: usize) -> Vec<i64> {
    let page = fixture.store.page(filter, limit).await.unwrap();
    let number = |entry: &Entry| entry.record.message.as_deref().unwrap().parse().unwrap();
    page.entries.iter().map(number).collect()
}

/// Whether a filter finds exactly the records with these numbers, either way round.
async fn check(fixture: &Fixture, filter: Filter, expected: impl Fn(i64) -> bool) {
    let mut all: Vec<i64> = (1..=COUNT).filter(|number| expected(*number)).collect();
    assert_eq!(numbers(fixture, &filter, usize::MAX).await, all, "{filter:?}");
    let first: Vec<_> = all.iter().copied().take(3).collect();
    assert_eq!(numbers(fixture, &filter, 3).await, first, "{filter:?}");
    all.reverse();
    let newest_first = Filter { newest_first: true, ..filter };
    assert_eq!(numbers(fixture, &newest_first, usize::MAX).await, all, "{newest_first:?}");
    all.truncate(3);
    assert_eq!(numbers(fixture, &newest_first, 3).await, all, "{newest_first:?}");
}

pub(crate) async fn each_filter_finds_exactly_its_records(fixture: Fixture) {
    fill(&fixture).await;
    let any = Filter::default;
    let text = |text: &str| Some(text.to_owned());
    check(&fixture, any(), |_| true).await;
    check(&fixture, Filter { server: text("server1"), ..any() }, |n| n % 3 == 1).await;
    check(&fixture, Filter { grant: text("g3"), ..any() }, |n| n % 7 == 3).await;
    check(&fixture, Filter { grant: text("label3"), ..any() }, |n| n % 5 == 3).await;
    check(&fixture, Filter { tool: text("rare"), ..any() }, |n| n % 1_000 == 1).await;
    check(&fixture, Filter { principal: text("alice"), ..any() }, |n| n % 6 == 0).await;
    check(&fixture, Filter { outcome: Some(Outcome::Deny), ..any() }, |n| n % 4 == 0).await;
    check(&fixture, Filter { kind: Some(Kind::Outcome), ..any() }, |n| n % 10 == 0).await;
    check(&fixture, Filter { rule: text("(hidden)"), ..any() }, |n| n % 500 == 3).await;
    check(&fixture, Filter { session: text("s-9"), ..any() }, |n| n % 700 == 9).await;
    check(&fixture, Filter { tool: text("none"), ..any() }, |_| false).await;
    check(&fixture, Filter { tool: text("%"), ..any() }, |_| false).await;
    let both = Filter { tool: text("rare"), server: text("server2"), ..any() };
    check(&fixture, both, |n| n % 1_000 == 1 && n % 3 == 2).await;
}

pub(crate) async fn filters_combine_with_time_and_position(fixture: Fixture) {
    fill(&fixture).await;
    let entries = fixture.entries().await;
    let place = |number: usize| Some(entries[number - 1].cursor);
    let any = Filter::default;
    check(&fixture, Filter { since: Some(later(1_000)), ..any() }, |n| n >= 1_000).await;
    check(&fixture, Filter { until: Some(later(1_500)), ..any() }, |n| n < 1_500).await;
    check(&fixture, Filter { after: place(1_023), ..any() }, |n| n > 1_023).await;
    check(&fixture, Filter { before: place(2_049), ..any() }, |n| n < 2_049).await;
    let all = Filter {
        since: Some(later(900)),
        until: Some(later(2_200)),
        after: place(1_000),
        before: place(2_100),
        outcome: Some(Outcome::Deny),
        ..any()
    };
    check(&fixture, all, |n| n > 1_000 && n < 2_100 && n % 4 == 0).await;
}

pub(crate) async fn pages_follow_each_other_in_both_directions(fixture: Fixture) {
    fill(&fixture).await;
    for newest_first in [false, true] {
        let mut filter = Filter { newest_first, outcome: Some(Outcome::Deny), ..Filter::default() };
        let mut found = Vec::new();
        loop {
            let page = fixture.store.page(&filter, 100).await.unwrap();
            assert!(page.entries.len() <= 100);
            found.extend(page.entries.into_iter().map(|entry| entry.record.message.unwrap()));
            match page.next {
                Some(next) if newest_first => filter.before = Some(next),
                Some(next) => filter.after = Some(next),
                None => break,
            }
        }
        let mut expected: Vec<_> =
            (1..=COUNT).filter(|n| n % 4 == 0).map(|n| n.to_string()).collect();
        if newest_first {
            expected.reverse();
        }
        assert_eq!(found, expected);
    }
}

pub(crate) async fn a_request_finds_its_decision_and_its_outcome(fixture: Fixture) {
    fill(&fixture).await;
    let decision = numbered(3_000);
    fixture.store.append(decision.clone()).await.unwrap();
    let outcome = Record { request: decision.request, ..numbered(3_010) };
    fixture.store.append(outcome).await.unwrap();
    let requests: Vec<_> = decision.request.into_iter().collect();
    let filter = Filter { requests: requests.clone(), ..Filter::default() };
    assert_eq!(numbers(&fixture, &filter, 10).await, [3_000, 3_010]);
    let earlier = fixture.entries().await[6].record.clone();
    let requests = requests.into_iter().chain(earlier.request).collect();
    let filter = Filter { requests, newest_first: true, ..Filter::default() };
    assert_eq!(numbers(&fixture, &filter, 10).await, [3_010, 3_000, 7]);
}

pub(crate) async fn deferred_records_are_written_soon(fixture: Fixture) {
    for _ in 0..10 {
        fixture.store.append_deferred(record(Outcome::Allow));
    }
    let written = async {
        while fixture.store.page(&Filter::default(), 20).await.unwrap().entries.len() < 10 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), written).await.unwrap();
    assert_eq!(fixture.verify().await, 10);
}

pub(crate) async fn a_cursor_survives_its_text(fixture: Fixture) {
    fixture.store.append(record(Outcome::Allow)).await.unwrap();
    let cursor = fixture.entries().await[0].cursor;
    assert_eq!(cursor.to_string().parse(), Ok(cursor));
    assert!(Cursor::START < cursor);
    for wrong in [
        "",
        "x",
        "-1",
        "0",
        "1",
        "1.5",
        "99999999999999999999",
        "log-",
        "log--1",
        "log-+1",
        "log-01",
        "log-A",
        "log-ffffffffffffffff",
    ] {
        assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
    }
}
