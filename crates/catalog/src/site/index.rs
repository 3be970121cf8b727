//! The index page, and the data of its search.

use std::fmt::Write as _;

use crate::{Server, Stats};
use sluice_classify::Category;
use sluice_classify::visible;
use sluice_wire::json::write_string;

use super::{Paged, html::Html};
use crate::count::count_noun;

/// The data of all servers for the index, collected while pages are written.
#[derive(Debug)]
pub(super) struct Index {
    data: String,
    /// The page so far: its head and the list of servers.
    page: Html,
}

impl Index {
    /// Starts an index; with counts, unless the site is about one server only.
    pub(super) fn new(stats: Option<&Stats>) -> Index {
        let mut page = Html::begin("Catalogue of MCP servers and tools", "");
        head(&mut page, stats);
        Index { data: String::new(), page }
    }

    /// Adds a server: `[slug, name, worst, [[tool, category, slug?], …]]`.
    pub(super) fn add(&mut self, server: &Server, tools: &[Paged]) {
        let code = |category: Category| Category::ALL.iter().position(|other| *other == category);
        let worst = server.worst().and_then(code);
        self.data.push_str(if self.data.is_empty() { "\n[" } else { ",\n[" });
        // Writing to a string cannot fail.
        let _ = write_string(&mut self.data, &server.slug);
        self.data.push(',');
        let _ = write_string(&mut self.data, &visible(&server.name));
        let worst = worst.map_or_else(|| "-1".to_owned(), |worst| worst.to_string());
        let _ = write!(self.data, ",{worst},[");
        for (place, Paged { tool, slug }) in tools.iter().enumerate() {
            self.data.push_str(if place > 0 { ",[" } else { "[" });
            let _ = write_string(&mut self.data, &visible(&tool.name));
            let _ = write!(self.data, ",{}", code(tool.traits.category).unwrap_or_default());
            if *slug != tool.name {
                self.data.push(',');
                let _ = write_string(&mut self.data, slug);
            }
            self.data.push(']');
        }
        self.data.push_str("]]");
        let html = &mut self.page;
        html.raw("<li>")
            .link(&format!("servers/{}/index.html", server.slug), &server.name)
            .raw(" ");
        if let Some(worst) = server.worst() {
            html.badge(worst);
        }
        let known = server.tools().map(|tools| count_noun(tools, "tool"));
        let tools = known.unwrap_or_else(|| "tools not known".to_owned());
        html.raw("<span class=\"signals\">").text(&tools).raw("</span></li>\n");
    }

    /// The data for the search as a script, because pages opened from disk may not fetch.
    pub(super) fn data(&self) -> String {
        let names = Category::ALL.map(|category| format!("\"{}\"", category.name())).join(",");
        format!(
            "\"use strict\";\nconst CATEGORIES = [{names}];\nconst SERVERS = [{}\n];\n",
            self.data
        )
    }

    pub(super) fn page(self) -> String {
        let mut html = self.page;
        html.raw("</ul>\n</section>\n<script src=\"data.js\"></script>\n<script src=\"search.js\"></script>\n");
        html.end()
    }
}

fn head(html: &mut Html, stats: Option<&Stats>) {
    html.raw("<h1>Catalogue of MCP servers and tools</h1>\n");
    if let Some(stats) = stats {
        html.raw("<p>").text(&count_noun(stats.servers, "server")).raw(" and ");
        html.text(&count_noun(stats.tools, "tool")).raw(
            ": what each lets an agent do, why it is thought so, and which policy to start from.",
        );
        html.raw("</p>\n<ul class=\"counts\">\n");
        for (category, tools) in stats.categories.iter().rev() {
            html.raw("<li>").badge(*category).text(&format!(" {tools}")).raw("</li>\n");
        }
        html.raw("</ul>\n");
    }
    html.raw("<form role=\"search\" id=\"search\" hidden>\n<label for=\"words\">Search servers and tools</label>\n");
    html.raw("<input id=\"words\" type=\"search\" autocomplete=\"off\" spellcheck=\"false\">\n");
    html.raw("<label for=\"category\">Category</label>\n<select id=\"category\">\n<option value=\"\">any</option>\n");
    for category in Category::ALL.into_iter().rev() {
        html.raw("<option>").raw(category.name()).raw("</option>\n");
    }
    html.raw("</select>\n</form>\n<p id=\"said\" role=\"status\"></p>\n<ul id=\"found\" class=\"cards\"></ul>\n");
    html.raw("<noscript><p>Search needs scripts; the list below does not.</p></noscript>\n");
    html.raw("<section id=\"all\">\n<h2>Servers</h2>\n<ul class=\"cards\">\n");
}
