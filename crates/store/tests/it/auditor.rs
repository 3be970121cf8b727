//! The database as an auditor reads it: with SQL alone, by the columns that
//! `docs/reference/data.md` describes.

use std::sync::Arc;

use sluice_store::{Clock, Kind, Outcome, Record, Store, new_id};

use crate::folder::{Folder, entries};

/// Decisions on two tools, some of them two hours old.
async fn fill(store: &Store) {
    let now = Clock::System.now().as_millis();
    for number in 0..60 {
        let age = if number % 3 == 0 { 2 * 3_600_000 } else { 60_000 };
        let at = sluice_policy::Timestamp::from_millis(now - age);
        let tool: Arc<str> = if number % 2 == 0 { "read" } else { "pay" }.into();
        let outcome = if number % 4 == 1 { Outcome::Hold } else { Outcome::Allow };
        let mut record = Record::new(new_id(at), at, Kind::Decision);
        (record.tool, record.outcome) = (Some(tool), Some(outcome));
        store.append_deferred(record);
    }
    store.flush().await.unwrap();
}

#[tokio::test]
async fn calls_per_tool_and_outcome_of_the_last_hour_are_one_select() {
    let folder = Folder::new();
    let store = folder.store();
    fill(&store).await;
    let connection = folder.connect();
    let mut statement = connection
        .prepare(
            "SELECT tool, outcome, count(*) FROM audit
             WHERE kind = 'decision' AND at_ms >= (unixepoch() - 3600) * 1000
             GROUP BY tool, outcome ORDER BY tool, outcome",
        )
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let found: Vec<(String, String, i64)> = rows.unwrap().map(Result::unwrap).collect();
    let expected = [("pay", "allow", 10), ("pay", "hold", 10), ("read", "allow", 20)];
    let expected = expected.map(|(tool, outcome, n)| (tool.to_owned(), outcome.to_owned(), n));
    assert_eq!(found, expected);
}

#[tokio::test]
async fn the_view_shows_what_is_exported() {
    let folder = Folder::new();
    let store = folder.store();
    fill(&store).await;
    let connection = folder.connect();
    for entry in entries(&store).await.unwrap() {
        let exported: serde_json::Value = serde_json::from_str(&entry.text()).unwrap();
        let sql = "SELECT at, kind, tool, outcome, chain, prev, hash FROM audit WHERE id = ?1";
        let id = exported["id"].as_str().unwrap();
        let columns = ["at", "kind", "tool", "outcome", "chain", "prev", "hash"];
        connection
            .query_row(sql, [id], |row| {
                for (column, name) in columns.iter().enumerate() {
                    assert_eq!(row.get::<_, String>(column)?, exported[name], "{name}");
                }
                Ok(())
            })
            .unwrap();
    }
}

/// Every table and column is described, and nothing is described that is not there.
#[test]
fn the_reference_describes_every_table_and_column() {
    let folder = Folder::new();
    drop(folder.store());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/data.md");
    let reference = std::fs::read_to_string(path).unwrap();
    let connection = folder.connect();
    let sql = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c
        WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%'";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    for row in rows {
        let (table, column): (String, String) = row.unwrap();
        let heading = format!("\n### `{table}`\n");
        let (_, part) = reference.split_once(&heading).unwrap_or_else(|| panic!("{heading}"));
        let part = part.split("\n### ").next().unwrap_or_default();
        assert!(part.contains(&format!("`{column}`")), "`{column}` of `{table}`");
    }
}
