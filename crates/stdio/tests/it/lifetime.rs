//! Start and end of children: their environment, and that no process is left behind.

use sluice_stdio::Instances;
use sluice_upstream::Upstream;

use crate::client::{Server, runs, until};

#[tokio::test]
async fn the_environment_is_clean() {
    let server = Server::new("legacy", Instances::Shared);
    let answer = server.call("", "1", "env").await.unwrap();
    let names: Vec<_> =
        answer.text().split(' ').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
    // The shell adds some of its own.
    let own = ["PATH", "PWD", "OLDPWD", "RECORD", "SHLVL", "_"];
    assert!(names.iter().all(|name| own.contains(name)), "{names:?}");
    assert!(names.contains(&"RECORD"), "{names:?}");
}

#[tokio::test]
async fn a_child_ends_with_its_owner_and_takes_all_along() {
    let server = Server::new("legacy", Instances::Shared);
    let answer = server.call("", "1", "child").await.unwrap();
    let (own, grandchild) = answer.text().split_once(' ').unwrap();
    assert!(runs(own) && runs(grandchild));
    drop(server);
    until("both have ended", || !runs(own) && !runs(grandchild)).await;
}

#[tokio::test]
async fn a_child_can_be_started_before_it_is_needed() {
    let server = Server::new("legacy", Instances::Shared);
    let Upstream::Stdio(stdio) = &server.upstream else { panic!() };
    stdio.begin().await;
    let hello = || server.recorded().iter().filter(|line| line.contains("initialize\"")).count();
    assert_eq!(hello(), 1);
    assert_eq!(server.call("", "1", "echo").await.unwrap().status, 200);
    assert_eq!(hello(), 1, "the same child: {:?}", server.recorded());
}
