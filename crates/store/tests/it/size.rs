//! What a recorded call costs on disk.

use std::sync::Arc;

use sluice_store::{
    GrantRef, Kind, Outcome, PolicyRef, Record, Reservation, Reserved, Store, UpstreamRef, new_id,
};

use crate::folder::{Folder, NOW, charge};

const CALLERS: usize = 16;
const CALLS: usize = 300;

fn decision(session: &Arc<str>, tool: usize) -> Record {
    let record = Record::new(new_id(NOW), NOW, Kind::Decision);
    Record {
        request: Some(new_id(NOW)),
        server: Some("ledger".into()),
        grant: Some(GrantRef { id: "01KA2E8DXT5T4K0MHKBVX2TDSR".into(), label: "laptop".into() }),
        principal: Some("alice@example.com".into()),
        session: Some(Arc::clone(session)),
        method: Some("tools/call".into()),
        tool: Some(format!("transfer_money_{tool}").into()),
        outcome: Some(Outcome::Allow),
        policy: Some(PolicyRef { name: "standard".into(), version: "ba7816bf8f01cfea".into() }),
        arg_keys: ["amount", "currency", "to"].map(String::from).to_vec(),
        arg_digest: Some([0xb6; 32]),
        micros: Some(41),
        ..record
    }
}

fn outcome(decision: &Record) -> Record {
    Record {
        id: new_id(NOW),
        kind: Kind::Outcome,
        arg_keys: Vec::new(),
        arg_digest: None,
        upstream: Some(UpstreamRef { status: Some(200), is_error: Some(false), micros: 812 }),
        micros: Some(901),
        ..decision.clone()
    }
}

async fn call(store: &Store, session: &Arc<str>, number: usize) {
    let record = decision(session, number % 20);
    let outcome = outcome(&record);
    let id = record.request.unwrap();
    let charges = vec![charge(&format!("calls{}", number % 20), 1, 1 << 40)];
    let reserved =
        store.reserve(Reservation { id, charges, leases: Vec::new(), record: record.into() }).await;
    assert!(matches!(reserved, Ok(Reserved::Made { .. })));
    store.append_deferred(outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_call_takes_at_most_700_bytes() {
    let folder = Folder::new();
    let store = folder.store();
    let tasks: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (store, session) = (store.clone(), Arc::from(new_id(NOW).to_string()));
            tokio::spawn(async move {
                for number in 0..CALLS {
                    call(&store, &session, number).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    store.close().await.unwrap();
    // What an empty database takes is not a call's.
    let empty = Folder::new();
    empty.store().close().await.unwrap();
    let size = |folder: &Folder| std::fs::metadata(folder.database()).unwrap().len();
    let each = (size(&folder) - size(&empty)) / (CALLERS * CALLS) as u64;
    assert!((100..=700).contains(&each), "{each} bytes a call");
}
