//! An HTML writer: our own markup is written as it is, all other text is escaped.

use sluice_classify::{Category, Risk};

use sluice_classify::visible;

/// A page being written.
#[derive(Debug)]
pub(super) struct Html {
    text: String,
    /// The relative path from the page to the site's root.
    up: &'static str,
}

impl Html {
    /// Starts a page, with a link back to the catalogue.
    pub(super) fn begin(title: &str, up: &'static str) -> Html {
        let mut html = Html { text: String::with_capacity(4 << 10), up };
        html.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        html.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'self'\">\n");
        html.raw("<meta name=\"referrer\" content=\"no-referrer\">\n<title>");
        html.text(title).raw("</title>\n<link rel=\"stylesheet\" href=\"").raw(up);
        html.raw(
            "style.css\">\n</head>\n<body>\n<header>\n<nav aria-label=\"Catalogue\">\n<a href=\"",
        )
        .raw(up);
        html.raw("index.html\">Catalogue</a>\n<a href=\"").raw(up);
        html.raw("attacks.html\">Attack patterns</a>\n</nav>\n</header>\n<main>\n");
        html
    }

    /// Writes our own markup unescaped.
    pub(super) fn raw(&mut self, markup: &str) -> &mut Html {
        self.text.push_str(markup);
        self
    }

    /// Writes untrusted text, escaped.
    pub(super) fn text(&mut self, text: &str) -> &mut Html {
        for character in visible(text).chars() {
            match character {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\'' => self.text.push_str("&#39;"),
                other => self.text.push(other),
            }
        }
        self
    }

    /// Writes an element that contains only text.
    pub(super) fn element(&mut self, name: &'static str, text: &str) -> &mut Html {
        self.raw("<").raw(name).raw(">").text(text).raw("</").raw(name).raw(">\n")
    }

    /// Writes a heading, and starts a section.
    pub(super) fn heading(&mut self, text: &str) -> &mut Html {
        self.element("h2", text)
    }

    /// Writes a list of texts.
    pub(super) fn list<T: AsRef<str>>(&mut self, items: impl IntoIterator<Item = T>) -> &mut Html {
        self.raw("<ul>\n");
        for item in items {
            self.element("li", item.as_ref());
        }
        self.raw("</ul>\n")
    }

    /// Writes a link within the site; the address consists of slugs.
    pub(super) fn link(&mut self, address: &str, text: &str) -> &mut Html {
        let up = self.up;
        self.raw("<a href=\"").raw(up).text(address).raw("\">").text(text).raw("</a>")
    }

    /// Writes a category as a coloured word.
    pub(super) fn badge(&mut self, category: Category) -> &mut Html {
        let risk = Risk::from(category).name();
        self.raw("<span class=\"badge ").raw(risk).raw("\">").raw(category.name()).raw("</span>")
    }

    pub(super) fn end(mut self) -> String {
        self.raw("</main>\n<footer>\n<p>Made by <code>sluice catalog export</code>. ");
        self.raw("What a tool can do is judged from its definition alone; it is evidence, not proof.</p>\n</footer>\n</body>\n</html>\n");
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::Html;

    #[test]
    fn text_cannot_become_markup() {
        let mut html = Html::begin("</title><script>", "");
        html.text("<b>'\"&\u{202e}\u{0}").link("a\"b", "<i>");
        let page = html.end();
        assert!(page.contains("<title>&lt;/title&gt;&lt;script&gt;</title>"));
        assert!(page.contains("&lt;b&gt;&#39;&quot;&amp;\\u{202e}\\u{0}"));
        assert!(page.contains("<a href=\"a&quot;b\">&lt;i&gt;</a>"));
    }
}
