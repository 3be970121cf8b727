//! Every tool through the real binary: what it sends to the image, and that the
//! image's answer comes back as it is.

use serde_json::{Value, json};
use sluice_testkit::{PharoImage, Reply};

use super::{Image, Server};

/// Names, titles and schemas of the server that this one stands in for.
const EXPECTED: &str = include_str!("../../../../pharo/tests/it/tools.json");

/// A schema without what is said to people.
fn bare(schema: &Value) -> Value {
    let mut schema = schema.clone();
    for property in schema["properties"].as_object_mut().unwrap().values_mut() {
        property.as_object_mut().unwrap().remove("description").expect("a description");
    }
    schema
}

#[tokio::test]
async fn the_list_is_that_of_the_original() {
    let mut server = Server::start(&[]);
    let listed = server.request("tools/list", json!({})).await;
    let tools: Vec<_> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            json!({
                "name": tool["name"],
                "title": tool["title"],
                "inputSchema": bare(&tool["inputSchema"]),
                "outputSchema": tool["outputSchema"],
            })
        })
        .collect();
    let expected: Value = serde_json::from_str(EXPECTED).unwrap();
    assert_eq!(tools.len(), 22);
    assert_eq!(Value::from(tools), expected);
}

/// A call, what the image is asked for it, and the result in the image's answer.
type Example = (&'static str, Value, &'static str, Value);

fn reading() -> Vec<Example> {
    let source = "testClassMethodCcc\n\t^ #TestClassMethodCCC";
    vec![
        ("eval", json!({"code": "2 * 3"}), "POST /eval {\"code\":\"2 * 3\"}", json!(6)),
        (
            "get_method_source",
            json!({"class_name": "SisFixtureClassForTest", "method_name": "testClassMethodCcc", "is_class_method": true}),
            "GET /get-method-source?class_name=SisFixtureClassForTest&method_name=testClassMethodCcc&is_class_method=true",
            json!(source),
        ),
        (
            "get_method_source",
            json!({"class_name": "SisFixtureClassForTest class", "method_name": "testClassMethodCcc"}),
            "GET /get-method-source?class_name=SisFixtureClassForTest+class&method_name=testClassMethodCcc&is_class_method=false",
            json!(source),
        ),
        (
            "get_class_comment",
            json!({"class_name": "SisFixtureClassForTest"}),
            "GET /get-class-comment?class_name=SisFixtureClassForTest",
            json!("SisFixtureClassForTest is a fixture class for SIS testing"),
        ),
        (
            "search_classes_like",
            json!({"class_name_query": "sisfix"}),
            "GET /search-classes-like?class_name_query=sisfix",
            json!(["SisFixtureClassForTest"]),
        ),
        (
            "search_traits_like",
            json!({"trait_name_query": "SisFix"}),
            "GET /search-traits-like?trait_name_query=SisFix",
            json!(["SisFixtureTraitForTest"]),
        ),
        (
            "search_methods_like",
            json!({"method_name_query": "testMethodA"}),
            "GET /search-methods-like?method_name_query=testMethodA",
            json!(["testMethodAaa", "testMethodAab"]),
        ),
    ]
}

fn searching() -> Vec<Example> {
    let reference = |method: &str| json!([{"class": "SisFixtureClassForTest", "method": method, "package": "Sis-Tests"}]);
    vec![
        (
            "search_implementors",
            json!({"method_name": "testMethodAaa"}),
            "GET /search-implementors?method_name=testMethodAaa",
            reference("testMethodAaa"),
        ),
        (
            "search_references",
            json!({"method_name_or_symbol": "TestSymbolBBB"}),
            "GET /search-references?program_symbol=TestSymbolBBB",
            reference("testMethodBbb"),
        ),
        (
            "search_references_to_class",
            json!({"class_name": "SisTest"}),
            "GET /search-references-to-class?class_name=SisTest",
            reference("testMethodAaa"),
        ),
    ]
}

fn listing_and_running() -> Vec<Example> {
    vec![
        (
            "list_packages",
            json!({}),
            "GET /list-packages",
            json!(["Sis-Core", "Sis-Tests", "Sis-Tests-Dummy", "System-Object Events"]),
        ),
        (
            "list_classes",
            json!({"package_name": "Sis-Tests-Dummy"}),
            "GET /list-classes?package_name=Sis-Tests-Dummy",
            json!(["SisDummyTest", "SisDummyTest2"]),
        ),
        (
            "list_extended_classes",
            json!({"package_name": "System-Object Events"}),
            "GET /list-extended-classes?package_name=System-Object+Events",
            json!(["Object"]),
        ),
        (
            "list_methods",
            json!({"package_name": "Sis-Tests-Dummy"}),
            "GET /list-methods?package_name=Sis-Tests-Dummy",
            json!([
                "SisDummyTest2>>#testThree",
                "SisDummyTest>>#testOne",
                "SisDummyTest>>#testTwo"
            ]),
        ),
        (
            "run_class_test",
            json!({"class_name": "SisDummyTest"}),
            "GET /run-class-test?class_name=SisDummyTest",
            json!("2 ran, 2 passed, 0 skipped, 0 expected failures, 0 failures, 0 errors"),
        ),
        (
            "run_package_test",
            json!({"package_name": "Sis-Tests-Dummy"}),
            "GET /run-package-test?package_name=Sis-Tests-Dummy",
            json!("3 ran, 3 passed, 0 skipped, 0 expected failures, 0 failures, 0 errors"),
        ),
        (
            "install_project",
            json!({"project_name": "P", "repository_url": "github://a/b:main/src", "load_groups": ""}),
            "GET /install-project?project_name=P&repository_url=github%3A%2F%2Fa%2Fb%3Amain%2Fsrc",
            json!("Installed: BaselineOfP"),
        ),
    ]
}

#[tokio::test]
async fn every_call_reaches_the_image_and_comes_back_as_it_is() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag()]);
    for (tool, arguments, sent, expected) in
        [reading(), searching(), listing_and_running()].concat()
    {
        let result = server.call(tool, arguments).await;
        assert_eq!(image.requests().last().unwrap(), sent);
        answers(&result, &json!({"success": true, "result": expected}));
    }
    let source =
        server.call("get_class_source", json!({"class_name": "SisFixtureClassForTest"})).await;
    assert!(source["structuredContent"]["result"].as_str().unwrap().contains("instVarB"));
}

/// The image's object, for programs and as text, without an error.
#[track_caller]
fn answers(result: &Value, expected: &Value) {
    assert_eq!(result["structuredContent"], *expected);
    assert_eq!(result["isError"], false);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), *expected);
}

#[tokio::test]
async fn packages_and_settings_are_written() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag()]);
    let path = image.folder.path().to_str().unwrap();
    let package = json!({"package_name": "Sis-Tests-Dummy", "path": path});
    for tool in ["export_package", "import_package"] {
        let result = server.call(tool, package.clone()).await;
        assert_eq!(result["structuredContent"]["success"], true, "{result}");
    }
    assert!(image.folder.path().join("Sis-Tests-Dummy/SisDummyTest.class.st").exists());
    let settings = json!({"settings": {"stack_size": 42, "any_key": [null]}});
    answers(
        &server.call("apply_settings", settings).await,
        &json!({"success": true, "result": "Settings applied successfully"}),
    );
    let settings = server.call("get_settings", json!({})).await["structuredContent"].take();
    assert_eq!(settings["result"]["stackSize"], 42);
    assert_eq!(settings["result"]["anyKey"], json!([null]));
}

#[tokio::test]
async fn a_picture_of_the_screen_is_shown() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag(), "--host=127.0.0.1"]);
    let shown = server.call("read_screen", json!({"target_type": "spec"})).await;
    let structured = &shown["structuredContent"]["result"];
    assert_eq!(structured["target_type"], "spec");
    let file = std::fs::read(structured["screenshot"].as_str().unwrap()).unwrap();
    let picture = &shown["content"][1];
    assert_eq!((&picture["type"], &picture["mimeType"]), (&json!("image"), &json!("image/png")));
    let data = data_encoding::BASE64.decode(picture["data"].as_str().unwrap().as_bytes());
    assert_eq!(data.unwrap(), file);
    let plain = server.call("read_screen", json!({"capture_screenshot": false})).await;
    assert_eq!(plain["content"].as_array().unwrap().len(), 1);
    assert_eq!(plain["structuredContent"]["result"]["screenshot"], Value::Null);
}

#[tokio::test]
async fn only_screenshots_are_shown() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag()]);
    let secret = image.folder.path().join("secret.png");
    std::fs::write(&secret, b"\x89PNG\r\n\x1a\nsecret").unwrap();
    let text = image.folder.path().join("pharo-ui-1.png");
    std::fs::write(&text, "no picture").unwrap();
    for path in [secret, text, image.folder.path().join("pharo-ui-missing.png")] {
        let answer = json!({"success": true, "result": {"screenshot": path}});
        image.answer_with(Some(Reply::json(answer.to_string())));
        let shown = server.call("read_screen", json!({})).await;
        assert_eq!(shown["content"].as_array().unwrap().len(), 1, "{path:?}");
        assert_eq!(shown["isError"], false);
    }
}

#[tokio::test]
async fn integers_keep_all_their_digits() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag()]);
    let call = json!({"name": "eval", "arguments": {"code": "1000 factorial"}});
    server.ask("tools/call", call).await;
    let line = server.hear().await.unwrap();
    // They stand twice: in the text, and for programs.
    let numbers: Vec<_> =
        line.split(|c: char| !c.is_ascii_digit()).filter(|digits| digits.len() > 100).collect();
    let [number, again] = numbers[..] else { panic!("{line}") };
    assert_eq!((number, number.len()), (again, 2568));
    assert!(number.starts_with("40238726007709377354") && number.ends_with(&"0".repeat(249)));
    let sum: u32 = number.chars().filter_map(|digit| digit.to_digit(10)).sum();
    assert_eq!(sum, 10_539);
}

#[tokio::test]
async fn failures_pass_as_they_are_unless_told_otherwise() {
    let image = Image::start().await;
    let mut plain = Server::start(&[&image.port_flag()]);
    let mut strict = Server::start(&[&image.port_flag(), "--tool-errors"]);
    for (code, success) in [("1 / 0", false), ("Dictionary new zork", false), ("Object new", true)]
    {
        let answered = plain.eval(code).await;
        let object = &answered["structuredContent"];
        assert_eq!((&object["success"], &object["result"]), (&json!(success), &Value::Null));
        assert!(object["error"]["description"].is_string(), "{object}");
        answers(&answered, object);
        let told = strict.eval(code).await;
        assert_eq!(told["isError"], true);
        assert_eq!(told["structuredContent"], *object);
    }
    assert_eq!(strict.eval("1 + 1").await["isError"], false);
    let zero = plain.eval("1 / 0").await["structuredContent"]["error"].take();
    assert_eq!(zero["description"], "ZeroDivide");
    assert_eq!(zero["receiver"], json!({"class": "SmallInteger", "self": "1", "variables": {}}));
    let groups = json!({"project_name": "P", "repository_url": "x", "load_groups": "Missing"});
    let missing = plain.call("install_project", groups).await["structuredContent"].take();
    let description = missing["error"]["description"].as_str().unwrap();
    assert!(description.starts_with("Error: Name not found"), "{description}");
}

/// What a call comes to that the image answers like this.
async fn answered(server: &mut Server, image: &PharoImage, reply: Reply) -> Value {
    image.answer_with(Some(reply));
    server.eval("1 + 1").await
}

#[tokio::test]
async fn an_invalid_answer_of_an_image_is_reported() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag()]);
    for (reply, expected) in [
        (Reply::new(500, "text/plain", "boom\r\n"), "HTTP error 500: boom\r\n"),
        (
            Reply::new(404, "text/plain", "Not Found /eval\r\n"),
            "HTTP error 404: Not Found /eval\r\n",
        ),
        (Reply::new(200, "text/html", "<html>"), "Invalid JSON response: "),
        (Reply::json(""), "Invalid JSON response: "),
        (Reply::json(r#"{"success": true, "success": false}"#), "Invalid JSON response: "),
    ] {
        let result = answered(&mut server, &image, reply).await;
        let error = result["structuredContent"]["error"].as_str().unwrap();
        assert!(error.starts_with(expected), "{error}");
        answers(&result, &json!({"success": false, "error": error}));
    }
    let list = answered(&mut server, &image, Reply::json("[1]")).await;
    assert_eq!(list["isError"], true);
    assert_eq!(list["structuredContent"], Value::Null);
}

#[tokio::test]
async fn wrong_arguments_are_said_and_not_sent() {
    let image = Image::start().await;
    let mut server = Server::start(&[&image.port_flag()]);
    for (tool, arguments, expected) in [
        ("eval", json!({}), "`code` is missing: it must be a string"),
        ("eval", json!({"code": 1}), "`code` must be a string"),
        ("list_packages", json!({"force": true}), "unknown argument `force`: this tool takes none"),
        ("eval_code", json!({"code": "1"}), "Unknown tool: 'eval_code'"),
    ] {
        let result = server.call(tool, arguments).await;
        assert_eq!(result["isError"], true);
        assert_eq!(result["content"][0]["text"], expected);
    }
    assert!(image.requests().is_empty());
}
