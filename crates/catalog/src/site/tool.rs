//! The page of a tool.

use crate::{Evidence, Evident, Hit, Server, Tool, abilities, reasons_for_policy};

use super::{Paged, Recommend, html::Html};

/// The number of attack patterns, and of related tools, that are shown.
const MOST_ATTACKS: usize = 6;
const MOST_SIBLINGS: usize = 5;

pub(super) fn page(
    server: &Server,
    paged: &Paged,
    siblings: &[Paged],
    elsewhere: &[Hit],
    recommend: Recommend,
) -> String {
    let tool = &paged.tool;
    let traits = &tool.traits;
    let mut html = Html::begin(&format!("{} · {}", tool.name, server.name), "../../");
    html.raw("<p class=\"crumb\">")
        .link(&format!("servers/{}/index.html", server.slug), &server.name);
    html.raw("</p>\n").element("h1", &tool.name).raw("<p class=\"level\">").badge(traits.category);
    let (risk, confidence) = (traits.risk(), traits.confidence);
    html.text(&format!(" {risk} risk · {confidence} % confidence")).raw("</p>\n");
    html.raw("<p class=\"from\">From <code>").text(&server.source).raw("</code></p>\n");
    if let Some(description) = &tool.description {
        html.element("blockquote", description);
    }
    html.heading("It lets an agent").list(abilities(traits));
    html.heading("Why it needs a policy").list(reasons_for_policy(traits));
    evidence(&mut html, tool);
    html.heading("Attack patterns that use such access").raw("<ul>\n");
    for attack in traits.attacks().into_iter().take(MOST_ATTACKS) {
        html.raw("<li>").link(&format!("attacks.html#{}", attack.id), &attack.title).raw("</li>\n");
    }
    html.raw("</ul>\n");
    let recommended = (recommend.entry)(tool);
    html.heading("Recommended policy");
    for line in &recommended.effect {
        html.element("p", line);
    }
    html.raw("<pre><code>");
    for line in recommended.text.lines() {
        html.text(line).raw("\n");
    }
    html.raw("</code></pre>\n");
    write_related(&mut html, server, paged, siblings, elsewhere);
    html.end()
}

fn evidence(html: &mut Html, tool: &Tool) {
    let is_finding = |one: &&Evidence| matches!(one.what, Evident::Finding(_));
    html.heading("Evidence");
    let seen: Vec<&Evidence> = tool.evidence.iter().filter(|one| !is_finding(one)).collect();
    if seen.is_empty() {
        html.element("p", "Nothing in its definition says what it does.");
    } else {
        points(html, &seen);
    }
    let findings: Vec<&Evidence> = tool.evidence.iter().filter(is_finding).collect();
    if !findings.is_empty() {
        html.raw("<div class=\"alarm\">\n").heading("Signs of poisoning");
        points(html, &findings);
        html.raw("</div>\n");
    }
}

fn points(html: &mut Html, seen: &[&Evidence]) {
    html.raw("<ul>\n");
    for one in seen {
        html.raw("<li>");
        match &one.what {
            Evident::Reason(category, text) => html.badge(*category).raw(" ").text(text),
            Evident::Signal(kind) => html.text(&format!("signal {kind}")),
            Evident::Finding(kind) => html.text(kind.text()),
        };
        html.raw(" <span class=\"place\">").text(one.part.name());
        if let Some(parameter) = &one.parameter {
            html.raw(" of <code>").text(parameter).raw("</code>");
        }
        if !one.quote.is_empty() {
            html.raw(" <q>").text(&one.quote).raw("</q>");
        }
        html.raw("</span></li>\n");
    }
    html.raw("</ul>\n");
}

fn write_related(
    html: &mut Html,
    server: &Server,
    paged: &Paged,
    siblings: &[Paged],
    elsewhere: &[Hit],
) {
    let others = siblings.iter().filter(|other| other.slug != paged.slug).take(MOST_SIBLINGS);
    let others: Vec<&Paged> = others.collect();
    if others.is_empty() && elsewhere.is_empty() {
        return;
    }
    html.heading("Related tools").raw("<ul class=\"cards\">\n");
    for other in others {
        let address = format!("servers/{}/{}.html", server.slug, other.slug);
        html.raw("<li>").link(&address, &other.tool.name).raw(" ");
        html.badge(other.tool.traits.category).raw("</li>\n");
    }
    for hit in elsewhere {
        let text = format!("{} of {}", hit.tool, hit.server);
        let address = format!("servers/{}/index.html", hit.slug);
        html.raw("<li>").link(&address, &text).raw(" ").badge(hit.traits.category).raw("</li>\n");
    }
    html.raw("</ul>\n");
}
