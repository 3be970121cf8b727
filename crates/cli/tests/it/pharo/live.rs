//! A real image, where there is one: run with `PHARO_SIS_PORT` set to the port
//! of an image that answers `1 + 1`, skipped otherwise.

use serde_json::json;

use super::Server;

#[tokio::test]
async fn a_live_image_answers() {
    let Some(port) = std::env::var_os("PHARO_SIS_PORT") else { return };
    let port = format!("--port={}", port.to_str().unwrap());
    let mut server = Server::start(&[&port]);
    if server.eval("1 + 1").await["structuredContent"]["result"] != 2 {
        return;
    }
    let factorial = server.eval("42 factorial").await["structuredContent"].take();
    let digits = "1405006117752879898543142606244511569936384000000000";
    assert_eq!(factorial["result"].to_string(), digits);
    let zero = server.eval("1 / 0").await["structuredContent"].take();
    assert_eq!(zero["success"], false);
    assert_eq!(zero["error"]["description"], "ZeroDivide");
    let unserialisable = server.eval("Object new").await["structuredContent"].take();
    assert!(unserialisable["error"].is_object(), "{unserialisable}");
    let packages = server.call("list_packages", json!({})).await["structuredContent"].take();
    assert!(packages["result"].as_array().unwrap().contains(&json!("Sis-Core")), "{packages}");
    let source = json!({"class_name": "SisServer class", "method_name": "startUp:"});
    let source = server.call("get_method_source", source).await["structuredContent"].take();
    assert!(source["result"].as_str().unwrap().starts_with("startUp:"), "{source}");
    let settings = server.call("get_settings", json!({})).await["structuredContent"].take();
    assert!(settings["result"]["stackSize"].is_number(), "{settings}");
}
