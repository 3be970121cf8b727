//! The page of attack patterns.

use sluice_classify::attacks;

use super::html::Html;

pub(super) fn page() -> String {
    let mut html = Html::begin("Attack patterns", "");
    html.element("h1", "Attack patterns");
    html.element("p", "Known attacks through tools, and the policies that mitigate them.");
    for attack in attacks() {
        html.raw("<section id=\"").text(&attack.id).raw("\">\n");
        html.heading(&attack.title).element("p", &attack.text);
        html.raw("<p><strong>What holds it:</strong> ").text(&attack.stops).raw("</p>\n");
        if !attack.incidents.is_empty() {
            html.raw("<p>Seen:</p>\n").list(&attack.incidents);
        }
        let ids = [&attack.cves, &attack.owasp, &attack.atlas, &attack.safe_mcp];
        html.raw("<p class=\"ids\">");
        for id in ids.into_iter().flatten() {
            html.raw("<code>").text(id).raw("</code> ");
        }
        html.raw("</p>\n</section>\n");
    }
    html.end()
}
