//! Logging for operators, on standard error.

use std::io;

use clap::ValueEnum;
use tracing_subscriber::{EnvFilter, fmt};

use sluice_config::Environment;

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging at the default level.
pub(crate) fn start(format: LogFormat, environment: &Environment) {
    start_at("info", format, environment);
}

/// Starts logging at `level`; `SLUICE_LOG` overrides it, as `info` or `sluice_gateway=debug`.
pub(crate) fn start_at(level: &str, format: LogFormat, environment: &Environment) {
    let wanted =
        environment.setting("SLUICE_LOG").and_then(std::ffi::OsStr::to_str).unwrap_or(level);
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new(level));
    let builder = fmt().with_env_filter(filter).with_writer(io::stderr);
    // This fails only if logging was started before, and nothing else starts it.
    let _ = match format {
        // Without the dependency for colours, enabling them panics in debug builds.
        LogFormat::Text => builder.with_ansi(false).with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
