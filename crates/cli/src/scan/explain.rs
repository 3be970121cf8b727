//! Explains why a server could not be scanned, with its error output and a hint.

use std::time::Duration;

use sluice_classify::visible;
use sluice_config::span;
use sluice_scan::{AskError, Place, Trouble};
use sluice_stdio::NOBODY_ASKED;
use sluice_upstream::client::ClientError;

/// Lines of the server's error output that are shown.
const SHOWN: usize = 8;

/// The text for people.
pub(super) fn explain(error: &AskError, place: &Place, timeout: Duration) -> String {
    let text = describe_trouble(&error.trouble, timeout);
    match place {
        Place::Command { .. } => format!("{text}{}", explain_command(error)),
        Place::Url { .. } => format!("{text}{}", hint_for_url(&error.trouble)),
    }
}

fn explain_command(error: &AskError) -> String {
    let AskError { trouble, has_ended, lines, stray } = error;
    if matches!(trouble, Trouble::NotStarted(_)) {
        return String::new();
    }
    let shown = lines.iter().skip(lines.len().saturating_sub(SHOWN));
    let shown: Vec<String> = shown.map(|line| format!("\n  {}", plain(line))).collect();
    let wrote = match (shown.concat().as_str(), has_ended) {
        ("", true) => "\nit wrote nothing that says why".to_owned(),
        ("", false) => String::new(),
        (lines, _) => format!("\nthe last it wrote:{lines}"),
    };
    let stray = stray.as_ref().map(|line| {
        let line = plain(line);
        format!("\nits output is not JSON-RPC, so it is probably not an MCP server; the first line:\n  {line}")
    });
    let hint = match trouble {
        _ if *has_ended => {
            "\nhint: try the command by itself; it may need an argument or a variable"
        }
        Trouble::Late if stray.is_some() => {
            "\nhint: is it the command that starts the server over standard input and output?"
        }
        Trouble::Late => "\nhint: one that is downloaded first may need longer: `--timeout 5m`",
        Trouble::Client(_) | Trouble::NotStarted(_) => "",
    };
    format!("{}{wrote}{hint}", stray.unwrap_or_default())
}

/// A line without colours and other control characters.
pub(super) fn plain(line: &str) -> String {
    visible(&anstream::adapter::strip_str(line).to_string())
}

fn describe_trouble(trouble: &Trouble, timeout: Duration) -> String {
    match trouble {
        Trouble::NotStarted(error) => error.to_string(),
        Trouble::Late => {
            format!("the server did not answer within {}", span::format_span(timeout))
        }
        Trouble::Client(ClientError::Send(error)) => {
            let text = error.to_string();
            // A command has no connection, so these words are dropped.
            text.strip_prefix("the connection was lost: ").unwrap_or(&text).to_owned()
        }
        // The command echoes our own message.
        Trouble::Client(ClientError::Refused { message, .. }) if message == NOBODY_ASKED => {
            "the command echoes its input: it does not speak MCP".into()
        }
        Trouble::Client(error) => format!("the server cannot be scanned: {error}"),
    }
}

fn hint_for_url(trouble: &Trouble) -> &'static str {
    match trouble {
        Trouble::Client(ClientError::Status { status: 401 | 403, .. }) => {
            "\nhint: give its credential, such as `--header 'Authorization: env:NAME'`"
        }
        Trouble::Client(ClientError::Status { status: 300..=399, .. }) => {
            "\nhint: redirects are not followed: give the address that it leads to"
        }
        Trouble::Client(ClientError::Status { status: 404 | 405, .. }) => {
            "\nhint: many servers are at the path `/mcp` or `/sse`"
        }
        Trouble::Client(ClientError::Send(_)) => "\nhint: is it running, and is the address right?",
        _ => "",
    }
}
