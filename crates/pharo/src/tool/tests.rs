//! What each tool sends to the image.

use sluice_wire::json::{Bounds, Document};

use super::{TOOLS, Tool};

/// `expected` is the method, the path with its query, and the body if there is one.
#[track_caller]
fn sends(tool: &str, arguments: &str, expected: &str) {
    let document = Document::parse(arguments, &Bounds::default()).unwrap();
    let request = Tool::find(tool).unwrap().request(Some(document.root())).unwrap();
    let body = std::str::from_utf8(request.body()).unwrap();
    let sent = format!("{} {} {body}", request.method(), request.uri());
    assert_eq!(sent.trim_end(), expected);
    let media_type = request.headers().get("content-type").map(|value| value.to_str().unwrap());
    assert_eq!(media_type, (!body.is_empty()).then_some("application/json"));
}

#[track_caller]
fn refuses(tool: &str, arguments: &str, expected: &str) {
    let document = Document::parse(arguments, &Bounds::default()).unwrap();
    let problem = Tool::find(tool).unwrap().request(Some(document.root())).unwrap_err();
    assert_eq!(problem.to_string(), expected);
}

#[test]
fn every_tool_is_its_http_call() {
    let package = r#"{"package_name": "Sis-Core"}"#;
    let class = r#"{"class_name": "Object"}"#;
    sends("eval", r#"{"code": "1 + 1"}"#, r#"POST /eval {"code":"1 + 1"}"#);
    sends("get_class_source", class, "GET /get-class-source?class_name=Object");
    sends("get_class_comment", class, "GET /get-class-comment?class_name=Object");
    let query = r#"{"class_name_query": "Sis"}"#;
    sends("search_classes_like", query, "GET /search-classes-like?class_name_query=Sis");
    let query = r#"{"method_name_query": "at:"}"#;
    sends("search_methods_like", query, "GET /search-methods-like?method_name_query=at%3A");
    let query = r#"{"trait_name_query": "T"}"#;
    sends("search_traits_like", query, "GET /search-traits-like?trait_name_query=T");
    let selector = r#"{"method_name": "at:put:"}"#;
    sends("search_implementors", selector, "GET /search-implementors?method_name=at%3Aput%3A");
    sends(
        "search_references",
        r#"{"method_name_or_symbol": "a b"}"#,
        "GET /search-references?program_symbol=a+b",
    );
    let expected = "GET /search-references-to-class?class_name=Object";
    sends("search_references_to_class", class, expected);
    sends("list_packages", "{}", "GET /list-packages");
    sends("list_classes", package, "GET /list-classes?package_name=Sis-Core");
    sends("list_extended_classes", package, "GET /list-extended-classes?package_name=Sis-Core");
    sends("list_methods", package, "GET /list-methods?package_name=Sis-Core");
    sends("run_package_test", package, "GET /run-package-test?package_name=Sis-Core");
    sends("run_class_test", class, "GET /run-class-test?class_name=Object");
    sends("get_settings", "{}", "GET /get-settings");
}

#[test]
fn omitted_arguments_have_their_defaults() {
    let method = r#"{"class_name": "A class", "method_name": "x:", "is_class_method": true}"#;
    let expected = "GET /get-method-source?class_name=A+class&method_name=x%3A&is_class_method=";
    sends("get_method_source", method, &format!("{expected}true"));
    sends(
        "get_method_source",
        &method.replace(r#", "is_class_method": true"#, ""),
        &format!("{expected}false"),
    );
    // The original takes flags as text, too.
    sends("get_method_source", &method.replace("true", "\"Yes\""), &format!("{expected}true"));
    sends("get_method_source", &method.replace("true", "\"false\""), &format!("{expected}false"));
    let package = r#"{"package_name": "A"}"#;
    sends("export_package", package, "GET /export-package?package_name=A&path=%2Ftmp");
    sends("import_package", package, "GET /import-package?package_name=A&path=%2Ftmp");
    let elsewhere = r#"{"package_name": "A", "path": "/srv/ä"}"#;
    let expected = "GET /export-package?package_name=A&path=%2Fsrv%2F%C3%A4";
    sends("export_package", elsewhere, expected);
    let expected = "GET /read-screen?target_type=world&capture_screenshot=true";
    sends("read_screen", "{}", expected);
    let spec = r#"{"target_type": "spec", "capture_screenshot": false}"#;
    sends("read_screen", spec, "GET /read-screen?target_type=spec&capture_screenshot=false");
}

#[test]
fn groups_are_sent_if_there_are_any() {
    let project = |groups: &str| {
        format!(r#"{{"project_name": "P", "repository_url": "github://a/b:main/src"{groups}}}"#)
    };
    let expected =
        "GET /install-project?project_name=P&repository_url=github%3A%2F%2Fa%2Fb%3Amain%2Fsrc";
    for none in ["", r#", "load_groups": null"#, r#", "load_groups": """#] {
        sends("install_project", &project(none), expected);
    }
    let groups = project(r#", "load_groups": "Core,Tests""#);
    sends("install_project", &groups, &format!("{expected}&load_groups=Core%2CTests"));
}

#[test]
fn bodies_keep_every_digit() {
    sends(
        "apply_settings",
        r#"{"settings": {"stack_size": 12345678901234567890123, "x": [1.10, null]}}"#,
        r#"POST /apply-settings {"settings":{"stack_size":12345678901234567890123,"x":[1.10,null]}}"#,
    );
    sends("eval", r#"{"code": "'\u00e4\n'"}"#, r#"POST /eval {"code":"'ä\n'"}"#);
}

#[test]
fn wrong_arguments_are_named() {
    refuses("eval", "{}", "`code` is missing: it must be a string");
    refuses("eval", r#"{"code": 1}"#, "`code` must be a string");
    let unknown = r#"{"code": "1", "force": true}"#;
    refuses("eval", unknown, "unknown argument `force`: expected `code`");
    refuses("list_packages", r#"{"a": 1}"#, "unknown argument `a`: this tool takes none");
    refuses("apply_settings", r#"{"settings": "x"}"#, "`settings` must be an object");
    let method = r#"{"class_name": "A", "method_name": "x", "is_class_method": 2}"#;
    refuses("get_method_source", method, "`is_class_method` must be true or false");
    refuses("export_package", r#"{"package_name": "A", "path": null}"#, "`path` must be a string");
}

#[test]
fn a_call_without_arguments_has_none() {
    let request = Tool::find("list_packages").unwrap().request(None).unwrap();
    assert_eq!(request.uri(), "/list-packages");
    assert!(Tool::find("eval_code").is_none());
    assert!(TOOLS.iter().all(|tool| tool.path == format!("/{}", tool.name.replace('_', "-"))));
}
