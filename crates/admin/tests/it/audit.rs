//! The audit log over the API, and calls that wait.

use sluice_policy::Timestamp;
use sluice_store::{Approval, Filter, GrantRef, Kind, Outcome, PolicyRef, Record, new_id};

use crate::fixture::TestApi;

/// So many records, every third a denial.
async fn filled(count: i64) -> TestApi {
    let api = TestApi::new();
    for number in 0..count {
        let at = Timestamp::from_millis(1_700_000_000_000 + number);
        let outcome = if number % 3 == 0 { Outcome::Deny } else { Outcome::Allow };
        api.store.append_deferred(Record {
            server: Some("files".into()),
            outcome: Some(outcome),
            message: Some(format!("r{number}")),
            ..Record::new(new_id(at), at, Kind::Decision)
        });
    }
    api.store.flush().await.unwrap();
    api
}

/// The messages of a page, and where the next one begins.
async fn page(api: &TestApi, query: &str) -> (Vec<String>, Option<String>, String) {
    let page = api.get(&format!("/api/v1/audit?{query}")).await.expect(200);
    let records = page["records"].as_array().unwrap();
    let messages = records.iter().map(|one| one["message"].as_str().unwrap().to_owned()).collect();
    let newest = page["newest"].as_str().unwrap().to_owned();
    (messages, page["next"].as_str().map(str::to_owned), newest)
}

#[tokio::test]
async fn the_newest_come_first_page_by_page() {
    let api = filled(7).await;
    let (messages, next, newest) = page(&api, "limit=3").await;
    assert_eq!(messages, ["r6", "r5", "r4"]);
    let (messages, next, _) = page(&api, &format!("limit=3&cursor={}", next.unwrap())).await;
    assert_eq!(messages, ["r3", "r2", "r1"]);
    assert_eq!(page(&api, &format!("after={newest}")).await, (vec![], None, newest.clone()));
    let (messages, next, _) = page(&api, &format!("limit=3&cursor={}", next.unwrap())).await;
    assert_eq!((messages, next), (vec!["r0".to_owned()], None));
}

#[tokio::test]
async fn following_goes_on_from_the_newest() {
    let api = filled(3).await;
    let (_, _, newest) = page(&api, "").await;
    let nothing_more = (Vec::new(), None, newest.clone());
    assert_eq!(page(&api, &format!("after={newest}")).await, nothing_more);
    let at = Timestamp::from_millis(1_700_000_009_000);
    let record = Record { message: Some("late".into()), ..Record::new(new_id(at), at, Kind::Auth) };
    api.store.append(record).await.unwrap();
    let (messages, _, now) = page(&api, &format!("after={newest}")).await;
    assert_eq!(messages, ["late"]);
    assert_ne!(now, newest);
    let none = api.get("/api/v1/audit?kind=drift").await.expect(200);
    let start = none["newest"].as_str().unwrap();
    let (messages, ..) = page(&api, &format!("after={start}&limit=2")).await;
    assert_eq!(messages, ["r0", "r1"]);
}

#[tokio::test]
async fn filters_narrow_the_log() {
    let api = filled(7).await;
    assert_eq!(page(&api, "outcome=deny").await.0, ["r6", "r3", "r0"]);
    assert_eq!(page(&api, "since=2023-11-14T22:13:20.005Z").await.0, ["r6", "r5"]);
    assert_eq!(page(&api, "until=2023-11-14T22:13:20.001Z").await.0, ["r0"]);
    assert_eq!(page(&api, "since=24h").await.0, Vec::<String>::new());
    assert_eq!(page(&api, "kind=admin").await.0, Vec::<String>::new());
    assert_eq!(page(&api, "server=files&limit=1").await.0, ["r6"]);
    let newest = page(&api, "").await.2;
    let both = format!("after={newest}&cursor={newest}");
    for wrong in [
        "kind=x",
        "outcome=approve",
        "after=x",
        "since=noon",
        "request=7",
        "limit=x",
        "colour=1",
        "after=0",
        "cursor=7",
        &both,
    ] {
        api.get(&format!("/api/v1/audit?{wrong}")).await.expect(400);
    }
}

#[tokio::test]
async fn an_export_is_the_log_itself() {
    let api = filled(2_500).await;
    let export = api.get("/api/v1/audit/export").await;
    assert_eq!(export.header("content-type"), "application/x-ndjson");
    let page = api.store.page(&Filter::default(), usize::MAX).await.unwrap();
    let log: String = page.entries.iter().map(|entry| entry.text() + "\n").collect();
    assert!(export.text == log, "{} of {} bytes", export.text.len(), log.len());
    let lines = |text: &str| text.lines().count();
    let some = api.get("/api/v1/audit/export?limit=1200").await;
    assert_eq!(lines(&some.text), 1_200);
    let denials = api.get("/api/v1/audit/export?outcome=deny").await;
    assert_eq!(lines(&denials.text), 834);
    assert_eq!(api.get("/api/v1/audit/export?tool=none").await.text, "");
}

#[tokio::test]
async fn a_log_that_is_whole_verifies() {
    let api = filled(5).await;
    let path = "/api/v1/audit/verify";
    let request = crate::fixture::request(axum::http::Method::POST, path, "", "");
    let verified = api.send(request).await;
    let expected = r#"{"ok":true,"records":5,"pruned_through":null,"faults":[],"head":null}"#;
    assert_eq!(verified.text, expected);
}

#[tokio::test]
async fn heads_that_are_none_or_too_many_are_refused() {
    let api = filled(5).await;
    let head = |version: u8, at: &str| {
        format!(
            r#"{{"head":{version},"at":"{at}","incarnation":"","seq":1,"hash":"","signer":"","signature":""}}"#
        )
    };
    let good = head(1, "2026-01-01T12:00:00.000Z");
    let many = vec![good.as_str(); 1_001].join(",");
    for (heads, status) in [
        (good.as_str(), 200),
        (&head(2, "2026-01-01T12:00:00.000Z"), 400),
        (&head(1, "today"), 400),
        ("{}", 400),
        (&many, 400),
    ] {
        let path = "/api/v1/audit/heads/compare";
        let body = format!(r#"{{"heads":[{heads}]}}"#);
        let request =
            crate::fixture::request(axum::http::Method::POST, path, "application/json", &body);
        let answer = api.send(request).await.expect(status);
        if status == 200 {
            assert_eq!(answer["ok"], false, "{answer}");
        }
    }
}

#[tokio::test]
async fn calls_that_wait_are_listed() {
    let api = TestApi::new();
    let at = Timestamp::from_millis(1_700_000_000_000);
    let approval = |digest: &str, end| Approval {
        digest: digest.into(),
        server: "files".into(),
        grant: GrantRef { id: "g".into(), label: "laptop".into() },
        principal: None,
        tool: "delete".into(),
        rule: "r".into(),
        approvers: 1,
        message: "ask".into(),
        policy: PolicyRef { name: "p".into(), version: "v".into() },
        arg_keys: vec!["path".into()],
        requested_at: at,
        expires_at: Timestamp::from_millis(end),
    };
    for (digest, end) in [("over", 1_700_000_000_001), ("waits", 32_000_000_000_000)] {
        let record = Record::new(new_id(at), at, Kind::Approval);
        api.store.hold(approval(digest, end), record).await.unwrap();
    }
    let list = api.get("/api/v1/approvals").await.expect(200);
    assert_eq!(list["approvals"].as_array().unwrap().len(), 1);
    assert_eq!(list["approvals"][0]["tool"], "delete");
}
