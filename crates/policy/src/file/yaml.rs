//! Parses YAML text into a tree of nodes: the core schema of version 1.2, without
//! anchors, aliases and tags.

mod scalar;

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, options};

use super::{
    DEEPEST,
    node::{Content, Member, Node, Span},
    problem::Problems,
};

/// Parses the text. A syntax error stops parsing; a construct that is only not allowed is reported
/// and skipped, so that the rest can be checked too.
pub(crate) fn read(text: &[u8], problems: &mut Problems) -> Option<Node> {
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            problems.add(Span::at(error.valid_up_to()), "invalid UTF-8".into());
            return None;
        }
    };
    let settings: Options =
        options! { emit_anchor_events: true, emit_unresolved_aliases: true, emit_comments: false };
    let mut builder = Builder { problems, open: Vec::new(), root: None, documents: 0 };
    for event in Parser::new_from_str_with_options(text, settings) {
        match event {
            Ok((event, span)) => {
                let range = span.byte_range().unwrap_or_default();
                builder.take(event, Span { start: range.start, end: range.end })?;
            }
            Err(error) => {
                let offset = error.marker().byte_offset().unwrap_or(text.len());
                let message = match error.kind() {
                    ErrorKind::RecursionLimitExceeded => {
                        format!("the policy is nested deeper than {DEEPEST}")
                    }
                    kind => format!("not valid YAML: {kind}"),
                };
                match hint(text, offset) {
                    Some(hint) => {
                        builder.problems.add_with_hint(Span::at(offset), message, hint.into());
                    }
                    None => builder.problems.add(Span::at(offset), message),
                }
                return None;
            }
        }
    }
    if builder.root.is_none() && builder.problems.is_empty() {
        let hint = r#"begin with `version: "1"` and `default: deny`"#.into();
        builder.problems.add_with_hint(Span::at(0), "the policy is empty".into(), hint);
    }
    builder.root
}

/// The usual cause of an error on the line of `offset`.
fn hint(text: &str, offset: usize) -> Option<&'static str> {
    let start = text.get(..offset)?.rfind('\n').map_or(0, |place| place + 1);
    let line = text.get(start..)?.lines().next()?;
    let content = line.trim_start();
    let value = content.split_once(": ").map_or("", |(_, value)| value.trim_start());
    let needs_quotes = |text: &str| text.starts_with(['@', '%', '`', '*', '&', '!']);
    if line.len() > content.len() && line.starts_with('\t') {
        Some("indent with spaces, not tabs")
    } else if needs_quotes(content) || needs_quotes(value) {
        Some("put text that begins with `@`, `%`, `*`, `&` or `!` in quotes")
    } else if value.contains(": ") && !value.starts_with(['"', '\'', '{', '[']) {
        Some("put text that holds `: ` in quotes")
    } else if line.contains('"') && line.contains('\\') {
        Some("put text with backslashes in single quotes")
    } else {
        None
    }
}

struct Builder<'b> {
    problems: &'b mut Problems,
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
}

enum Open {
    List {
        start: usize,
        items: Vec<Node>,
    },
    /// `key` belongs to the member being parsed; it holds no text if the key was not a string.
    Object {
        start: usize,
        members: Vec<Member>,
        key: Option<(Option<Box<str>>, Span)>,
    },
}

impl Builder<'_> {
    /// Processes one event; `None` stops parsing.
    fn take(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        if event.tag().is_some() {
            self.refuse(span, "tag", "write the value itself");
            if matches!(event, Event::Scalar(..)) {
                self.place(Node { span, content: Content::Reported });
                return Some(());
            }
        }
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    self.problems.add(span, "a policy is one YAML document, not several".into());
                    return None;
                }
            }
            Event::Anchor(..) => self.refuse(span, "anchor", "write the value where it is needed"),
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                self.refuse(span, "alias", "put a pattern that begins with `*` in quotes");
                self.place(Node { span, content: Content::Reported });
            }
            Event::Scalar(text, style, ..) => self.scalar(&text, style, span),
            Event::SequenceStart(..) => {
                self.open(Open::List { start: span.start, items: Vec::new() }, span)?;
            }
            Event::MappingStart(..) => {
                let members = Vec::new();
                self.open(Open::Object { start: span.start, members, key: None }, span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            _ => {}
        }
        Some(())
    }

    fn refuse(&mut self, span: Span, what: &str, instead: &str) {
        let message = format!("a YAML {what} is not accepted in a policy");
        self.problems.add_with_hint(span, message, instead.into());
    }

    fn open(&mut self, open: Open, span: Span) -> Option<()> {
        if self.open.len() >= DEEPEST {
            self.problems.add(span, format!("the policy is nested deeper than {DEEPEST}"));
            return None;
        }
        self.open.push(open);
        Some(())
    }

    fn close(&mut self, span: Span) {
        let node =
            |start, content| Node { span: Span { start, end: span.end.max(start) }, content };
        match self.open.pop() {
            Some(Open::List { start, items }) => self.place(node(start, Content::List(items))),
            Some(Open::Object { start, members, .. }) => {
                self.place(node(start, Content::Object(members)));
            }
            None => {}
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: Span) {
        let is_key = matches!(self.open.last(), Some(Open::Object { key: None, .. }));
        // Keys are always text: a tool may be named `1`.
        if is_key || style != ScalarStyle::Plain {
            return self.place(Node { span, content: Content::String(text.into()) });
        }
        let content = scalar::resolve(text).unwrap_or_else(|message| {
            self.problems.add(span, message);
            Content::Reported
        });
        self.place(Node { span, content });
    }

    /// Adds a finished node to its parent.
    fn place(&mut self, node: Node) {
        match self.open.last_mut() {
            None => self.root = self.root.take().or(Some(node)),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Object { members, key, .. }) => {
                if let Some((key, key_span)) = key.take() {
                    members.extend(key.map(|key| Member { key, key_span, value: node }));
                    return;
                }
                if !matches!(node.content, Content::String(_) | Content::Reported) {
                    let message = format!("a key must be a string, found {}", node.kind());
                    self.problems.add(node.span, message);
                }
                *key = Some((node.as_str().map(Box::from), node.span));
            }
        }
    }
}
