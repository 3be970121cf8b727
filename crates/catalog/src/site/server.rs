//! The page of a server.

use crate::{Server, ability};
use sluice_classify::{Category, Risk, SignalKind};
use sluice_wire::json::{Bounds, Document, Value};

use super::{Paged, Recommend, html::Html};
use crate::count::count_noun;

/// Entries of the recommended policy shown on the page.
const MOST_ENTRIES: usize = 200;

pub(super) fn page(server: &Server, tools: &[Paged], recommend: Recommend) -> String {
    let mut html = Html::begin(&server.name, "../../");
    html.element("h1", &server.name);
    head(&mut html, server);
    if server.counts.is_none() {
        html.heading("Tools")
            .element("p", "Not known: the registry names servers and not their tools.");
        return html.end();
    }
    html.heading("It lets an agent").raw("<ul>\n");
    for category in Category::ALL.into_iter().rev() {
        let count = server.counts.map_or(0, |counts| counts.of(category));
        if count > 0 {
            html.raw("<li>")
                .badge(category)
                .text(&format!(" {} ({count})", ability(category)))
                .raw("</li>\n");
        }
    }
    html.raw("</ul>\n").heading("Tools").raw("<ul class=\"cards\">\n");
    for Paged { tool, slug } in tools {
        html.raw("<li>").link(&format!("servers/{}/{slug}.html", server.slug), &tool.name);
        html.raw(" ").badge(tool.traits.category);
        if tool.traits.findings.total() > 0 {
            html.raw(" <span class=\"badge warning\">warning</span>");
        }
        html.raw("<span class=\"signals\">");
        let signals: Vec<&str> = tool.traits.signals.kinds().map(SignalKind::name).collect();
        html.text(&signals.join(", ")).raw("</span></li>\n");
    }
    html.raw("</ul>\n");
    policy(&mut html, tools, recommend);
    html.end()
}

fn head(html: &mut Html, server: &Server) {
    if let Some(worst) = server.worst() {
        html.raw("<p class=\"level\">").badge(worst);
        let (risk, tools) = (Risk::from(worst), server.tools().unwrap_or_default());
        let tools = count_noun(tools, "tool");
        html.text(&format!(" {risk} risk: the worst of {tools}")).raw("</p>\n");
    }
    html.raw("<p class=\"from\">From <code>").text(&server.source).raw("</code>");
    if let Some(version) = &server.version {
        html.text(&format!(", version {version}"));
    }
    html.raw("</p>\n");
    if let Some(description) = &server.description {
        html.element("blockquote", description);
    }
    let about = server.about.as_deref();
    let about = about.and_then(|text| Document::parse(text, &Bounds::default()).ok());
    for key in ["packages", "remotes", "repository"] {
        let values = about.as_ref().and_then(|about| about.root().get(key)?.items());
        for value in values.into_iter().flatten().filter_map(Value::as_str) {
            // Third-party addresses are shown, but not as links.
            html.raw("<p class=\"from\"><code>").text(value).raw("</code></p>\n");
        }
    }
    if server.findings > 0 {
        html.raw("<p class=\"alarm\">Signs of poisoning in its definitions: ");
        html.text(&server.findings.to_string()).raw("</p>\n");
    }
}

fn policy(html: &mut Html, tools: &[Paged], recommend: Recommend) {
    let all: Vec<_> = tools.iter().map(|one| &one.tool).collect();
    html.heading("Recommended policy").list((recommend.policy)(&all).effect);
    let text = (recommend.policy)(all.get(..MOST_ENTRIES).unwrap_or(&all)).text;
    html.raw("<details>\n<summary>As a file</summary>\n<pre><code>");
    for line in text.lines() {
        html.text(line).raw("\n");
    }
    html.raw("</code></pre>\n</details>\n");
    if tools.len() > MOST_ENTRIES {
        html.element("p", "Only the first entries; `sluice catalog show --policy` prints all.");
    }
}
