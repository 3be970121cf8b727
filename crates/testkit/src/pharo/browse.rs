//! The code in the image: packages, classes and methods, found and listed,
//! exported, loaded and tested.

use std::{fmt::Write as _, fs, path::Path};

use sluice_wire::json::Quoted;

use super::{
    Query,
    envelope::{Raised, list, success},
};

/// A class or trait.
struct Class {
    name: &'static str,
    package: &'static str,
    is_trait: bool,
    comment: &'static str,
    variables: &'static [&'static str],
    methods: &'static [Method],
}

struct Method {
    selector: &'static str,
    on_class_side: bool,
    source: &'static str,
    /// Selectors, symbols and classes that it mentions.
    mentions: &'static [&'static str],
}

const fn method(
    selector: &'static str,
    source: &'static str,
    mentions: &'static [&'static str],
) -> Method {
    Method { selector, on_class_side: false, source, mentions }
}

const PACKAGES: [&str; 4] = ["Sis-Core", "Sis-Tests", "Sis-Tests-Dummy", "System-Object Events"];
/// Packages that add methods to classes of others.
const EXTENSIONS: [(&str, &str); 1] = [("System-Object Events", "Object")];
const CLASSES: [Class; 7] = [
    class("Object", "Kernel", &[]),
    class("SisServer", "Sis-Core", &[]),
    class("SisTest", "Sis-Tests", &[method("testEval", "testEval\n\tself assert: true", &[])]),
    Class {
        comment: "SisFixtureClassForTest is a fixture class for SIS testing",
        variables: &["instVarA", "instVarB"],
        ..class(
            "SisFixtureClassForTest",
            "Sis-Tests",
            &[
                method("testMethodAaa", "testMethodAaa\n\t^ SisTest", &["SisTest"]),
                method(
                    "testMethodAab",
                    "testMethodAab\n\t^ self testMethodAaa",
                    &["testMethodAaa"],
                ),
                method("testMethodBbb", "testMethodBbb\n\t^ #TestSymbolBBB", &["TestSymbolBBB"]),
                Method {
                    on_class_side: true,
                    ..method(
                        "testClassMethodCcc",
                        "testClassMethodCcc\n\t^ #TestClassMethodCCC",
                        &["TestClassMethodCCC"],
                    )
                },
            ],
        )
    },
    Class { is_trait: true, ..class("SisFixtureTraitForTest", "Sis-Tests", &[]) },
    class(
        "SisDummyTest",
        "Sis-Tests-Dummy",
        &[method("testOne", "testOne", &[]), method("testTwo", "testTwo", &[])],
    ),
    class("SisDummyTest2", "Sis-Tests-Dummy", &[method("testThree", "testThree", &[])]),
];

const fn class(name: &'static str, package: &'static str, methods: &'static [Method]) -> Class {
    Class { name, package, is_trait: false, comment: "", variables: &[], methods }
}

/// The answer of a route; `None` if there is none of that name.
pub(super) fn answer(route: &str, query: &Query) -> Option<Result<String, Raised>> {
    let result = match route {
        "/list-packages" => Ok(list(PACKAGES)),
        "/list-classes" => query.require("package_name").map(classes_of),
        "/list-extended-classes" => query.require("package_name").map(list_extensions),
        "/list-methods" => query.require("package_name").map(methods_of),
        "/get-class-source" => query.require("class_name").and_then(find).map(source),
        "/get-class-comment" => query
            .require("class_name")
            .and_then(find)
            .map(|class| Quoted(class.comment).to_string()),
        "/get-method-source" => method_source(query),
        "/search-classes-like" => query.require("class_name_query").map(|text| like(text, false)),
        "/search-traits-like" => query.require("trait_name_query").map(|text| like(text, true)),
        "/search-methods-like" => query.require("method_name_query").map(selectors),
        "/search-implementors" => {
            query.require("method_name").map(|name| places(|method| method.selector == name))
        }
        "/search-references" => query.require("program_symbol").map(mentioning),
        "/search-references-to-class" => query.require("class_name").map(mentioning),
        "/run-package-test" => query
            .require("package_name")
            .map(|name| run_tests(CLASSES.iter().filter(|class| class.package == name))),
        "/run-class-test" => {
            query.require("class_name").and_then(find).map(|class| run_tests([class].into_iter()))
        }
        "/export-package" => export(query),
        "/import-package" => import(query),
        "/install-project" => install(query),
        _ => return None,
    };
    Some(result.map(|json| success(&json)))
}

fn find(name: &str) -> Result<&'static Class, Raised> {
    CLASSES.iter().find(|class| class.name == name).ok_or_else(|| Raised::not_found(name))
}

fn classes_of(package: &str) -> String {
    let mut names: Vec<_> =
        CLASSES.iter().filter(|class| class.package == package).map(|class| class.name).collect();
    names.sort_unstable();
    list(names)
}

fn list_extensions(package: &str) -> String {
    list(EXTENSIONS.iter().filter(|(from, _)| *from == package).map(|(_, class)| *class))
}

fn methods_of(package: &str) -> String {
    let classes = CLASSES.iter().filter(|class| class.package == package);
    let mut names: Vec<_> = classes
        .flat_map(|class| class.methods.iter().map(|method| full_name(class, method)))
        .collect();
    names.sort_unstable();
    list(names)
}

fn full_name(class: &Class, method: &Method) -> String {
    let side = if method.on_class_side { " class" } else { "" };
    format!("{}{side}>>#{}", class.name, method.selector)
}

/// In Tonel, more or less.
fn source(class: &'static Class) -> String {
    Quoted(&tonel(class)).to_string()
}

fn tonel(class: &Class) -> String {
    let Class { name, package, comment, variables, .. } = class;
    let kind = if class.is_trait { "Trait" } else { "Class" };
    let mut text = format!("\"\n{comment}\n\"\n{kind} {{\n\t#name : '{name}',\n");
    for variable in *variables {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\t#instVars : '{variable}',");
    }
    let _ = writeln!(text, "\t#package : '{package}'\n}}");
    for method in class.methods {
        let _ = writeln!(text, "\n{} [\n{}\n]", full_name(class, method), method.source);
    }
    text
}

/// `Foo class` means the class side, whatever the flag says.
fn method_source(query: &Query) -> Result<String, Raised> {
    let name = query.require("class_name")?;
    let selector = query.require("method_name")?;
    let (name, is_class_side) = match name.split_whitespace().collect::<Vec<_>>()[..] {
        [name, _] => (name, true),
        _ => (name, query.flag("is_class_method", false)),
    };
    let class = find(name)?;
    let fits =
        |method: &&Method| method.selector == selector && method.on_class_side == is_class_side;
    let method = class.methods.iter().find(fits).ok_or_else(|| Raised::not_found(selector))?;
    Ok(Quoted(method.source).to_string())
}

/// Names that begin with a text, whatever its case.
fn like(text: &str, is_trait: bool) -> String {
    let text = text.to_lowercase();
    let fits =
        |class: &&Class| class.is_trait == is_trait && class.name.to_lowercase().starts_with(&text);
    list(CLASSES.iter().filter(fits).map(|class| class.name))
}

fn selectors(text: &str) -> String {
    let all = CLASSES.iter().flat_map(|class| class.methods);
    let mut names: Vec<_> =
        all.map(|method| method.selector).filter(|name| name.starts_with(text)).collect();
    names.sort_unstable();
    names.dedup();
    list(names)
}

fn mentioning(name: &str) -> String {
    places(|method| method.mentions.contains(&name))
}

/// Methods that fit, each with its class and package.
fn places(fits: impl Fn(&Method) -> bool) -> String {
    let mut found = Vec::new();
    for class in &CLASSES {
        for method in class.methods.iter().filter(|method| fits(method)) {
            let side = if method.on_class_side { " class" } else { "" };
            found.push(format!(
                r#"{{"class":"{}{side}","method":"{}","package":"{}"}}"#,
                class.name, method.selector, class.package
            ));
        }
    }
    format!("[{}]", found.join(","))
}

fn run_tests<'c>(classes: impl Iterator<Item = &'c Class>) -> String {
    let tests = classes.flat_map(|class| class.methods).count();
    format!("\"{tests} ran, {tests} passed, 0 skipped, 0 expected failures, 0 failures, 0 errors\"")
}

fn export(query: &Query) -> Result<String, Raised> {
    let package = known_package(query)?;
    let path = Path::new(query.get("path").unwrap_or("/tmp")).join(package);
    let failed = |_| Raised::new("DirectoryDoesNotExist", "FileReference", "a FileReference");
    fs::create_dir_all(&path).map_err(failed)?;
    for class in CLASSES.iter().filter(|class| class.package == package) {
        fs::write(path.join(format!("{}.class.st", class.name)), tonel(class)).map_err(failed)?;
    }
    Ok(Quoted(&format!("{package} exported to: {}", path.display())).to_string())
}

fn import(query: &Query) -> Result<String, Raised> {
    let package = query.require("package_name")?;
    let path = Path::new(query.get("path").unwrap_or("/tmp")).join(package);
    if !path.is_dir() {
        return Err(Raised::new("FileDoesNotExistException", "FileReference", "a FileReference"));
    }
    Ok(Quoted(&format!("{package} imported from: {}", path.display())).to_string())
}

fn known_package(query: &Query) -> Result<&str, Raised> {
    let package = query.require("package_name")?;
    let is_known = PACKAGES.contains(&package);
    if is_known { Ok(package) } else { Err(Raised::not_found(package)) }
}

fn install(query: &Query) -> Result<String, Raised> {
    let project = query.require("project_name")?;
    query.require("repository_url")?;
    if query.get("load_groups").is_some_and(|groups| groups.contains("Missing")) {
        return Err(Raised::new("Error: Name not found: Missing", "MetacelloMCVersion", "1.0"));
    }
    let registration = format!("Installed: BaselineOf{project}");
    Ok(Quoted(&registration).to_string())
}
