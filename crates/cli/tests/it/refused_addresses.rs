//! Servers at addresses that a stored server may not have: refused when they are added.

use crate::sluice::Folder;

/// Addresses that are private in every form, and one that is not.
const REFUSED: [&str; 4] = [
    "http://127.0.0.1:9/mcp",
    "http://localhost:9/mcp",
    "https://10.1.2.3/canary-path/mcp",
    "http://[::1]:9/mcp",
];

#[test]
fn a_server_that_can_never_be_reached_is_refused_with_the_setting() {
    let folder = Folder::new();
    let up = folder.up(&[]);
    for url in REFUSED {
        let refused = up.run(&["server", "add", "far", "--url", url]).exits(1);
        for part in ["`url` is refused: `", "`upstreams.allow_private`", "hint: list the range"] {
            assert!(refused.err.contains(part), "{url}: {refused:?}");
        }
        assert!(!refused.err.contains("canary"), "{refused:?}");
    }
    assert_eq!(
        up.run(&["server", "list", "--json"]).exits(0).json()["servers"],
        "[]".parse::<serde_json::Value>().unwrap()
    );
    up.run(&["server", "add", "near", "--url", "https://203.0.114.1/mcp"]).exits(0);
    for url in REFUSED {
        let refused = up.run(&["server", "edit", "near", "--url", url]).exits(1);
        assert!(refused.err.contains("`upstreams.allow_private`"), "{url}: {refused:?}");
    }
    let shown = up.run(&["server", "show", "near", "--json"]).exits(0).json();
    assert_eq!(shown["url"], "https://203.0.114.1/mcp");
    // A host that has no address now may have one later.
    up.run(&["server", "add", "later", "--url", "https://mcp.invalid/mcp"]).exits(0);
    assert_eq!(up.end(), 0);
    folder.write("sluice.toml", "[upstreams]\nallow_private = [\"127.0.0.0/8\"]\n");
    let up = folder.up(&[]);
    up.run(&["server", "add", "far", "--url", REFUSED[0]]).exits(0);
    up.run(&["server", "edit", "near", "--url", REFUSED[1]]).exits(0);
    up.run(&["server", "edit", "near", "--url", REFUSED[2]]).exits(1);
}
