//! Options: the address of the image, and time limits.

use std::time::Duration;

use sluice_wire::json::{Bounds, Document, Kind, Value};

/// The default port of the image.
pub const DEFAULT_PORT: u16 = 8086;
/// The default time limit, which is that of the original.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The options of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The host that runs the image.
    pub host: String,
    pub port: u16,
    /// The time limit of one call.
    pub timeout: Duration,
    /// Whether a failure in the image is reported as a tool error, with `isError: true`.
    pub tool_errors: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            host: "localhost".into(),
            port: DEFAULT_PORT,
            timeout: DEFAULT_TIMEOUT,
            tool_errors: false,
        }
    }
}

/// Why options are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    #[error("`options` must be an object")]
    NotAnObject,
    #[error("unknown option `{0}`: there are `host`, `port`, `timeout` and `tool_errors`")]
    Unknown(String),
    #[error("option `{name}` must be {expected}")]
    Wrong { name: &'static str, expected: &'static str },
    #[error("`{0}` is not a valid host: write a name or an IP address")]
    Host(String),
}

impl Options {
    /// These options, overridden by those in a JSON object; `span` parses a duration such as `30s`.
    pub fn overlaid(
        self,
        json: &str,
        span: impl Fn(&str) -> Option<Duration>,
    ) -> Result<Options, OptionsError> {
        let document = Document::parse(json, &Bounds::default());
        let document = document.map_err(|_| OptionsError::NotAnObject)?;
        let members = document.root().members().ok_or(OptionsError::NotAnObject)?;
        let mut options = self;
        for (key, value) in members {
            match key.as_str().unwrap_or_default() {
                "host" => options.host = require_option("host", "a text", text(value))?,
                "port" => {
                    options.port = require_option("port", "a number from 1 to 65535", port(value))?;
                }
                "timeout" => {
                    let timeout = value.as_str().and_then(&span);
                    options.timeout =
                        require_option("timeout", "a span of time such as `30s`", timeout)?;
                }
                "tool_errors" => {
                    let flag = value.as_bool().filter(|_| value.kind() == Kind::Bool);
                    options.tool_errors = require_option("tool_errors", "true or false", flag)?;
                }
                other => return Err(OptionsError::Unknown(other.chars().take(64).collect())),
            }
        }
        Ok(options)
    }

    /// The image's address as a URL, without a path.
    pub fn url(&self) -> String {
        let Options { host, port, .. } = self;
        if host.contains(':') && !host.starts_with('[') {
            format!("http://[{host}]:{port}")
        } else {
            format!("http://{host}:{port}")
        }
    }
}

fn require_option<T>(
    name: &'static str,
    expected: &'static str,
    value: Option<T>,
) -> Result<T, OptionsError> {
    value.ok_or(OptionsError::Wrong { name, expected })
}

fn text(value: Value<'_>) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn port(value: Value<'_>) -> Option<u16> {
    value.as_number()?.parse().ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Options;

    fn read(json: &str) -> Result<Options, String> {
        let span = |text: &str| text.strip_suffix('s')?.parse().ok().map(Duration::from_secs);
        Options::default().overlaid(json, span).map_err(|error| error.to_string())
    }

    #[test]
    fn options_override_the_defaults() {
        assert_eq!(read("{}"), Ok(Options::default()));
        let read = read(r#"{"port": 9090, "host": "::1", "timeout": "5s", "tool_errors": true}"#);
        let expected = Options {
            host: "::1".into(),
            port: 9090,
            timeout: Duration::from_secs(5),
            tool_errors: true,
        };
        assert_eq!(read, Ok(expected.clone()));
        assert_eq!(expected.url(), "http://[::1]:9090");
        assert_eq!(Options::default().url(), "http://localhost:8086");
    }

    #[test]
    fn wrong_options_are_refused() {
        for (json, expected) in [
            ("[]", "`options` must be an object"),
            (
                r#"{"prot": 1}"#,
                "unknown option `prot`: there are `host`, `port`, `timeout` and `tool_errors`",
            ),
            (r#"{"port": 0}"#, "option `port` must be a number from 1 to 65535"),
            (r#"{"port": "8086"}"#, "option `port` must be a number from 1 to 65535"),
            (r#"{"port": 70000}"#, "option `port` must be a number from 1 to 65535"),
            (r#"{"host": ""}"#, "option `host` must be a text"),
            (r#"{"timeout": 30}"#, "option `timeout` must be a span of time such as `30s`"),
            (r#"{"tool_errors": "yes"}"#, "option `tool_errors` must be true or false"),
        ] {
            assert_eq!(read(json), Err(expected.into()), "{json}");
        }
    }
}
