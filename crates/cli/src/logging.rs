//! Logging for operators, on standard error.

mod rate;

use std::io;

use clap::ValueEnum;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use sluice_config::Environment;

use crate::output::remark;

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Whether a text sets levels. A single other word would be read as the name of a module, and turn
/// everything else off.
fn is_known(text: &str) -> bool {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    text.split(',').all(|part| {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level).trim();
        levels.iter().any(|known| known.eq_ignore_ascii_case(level))
    })
}

/// Starts logging at the default level.
pub(crate) fn start(format: LogFormat, environment: &Environment) {
    start_at("info", format, environment);
}

/// Starts logging at `level`; `SLUICE_LOG` overrides it, as `info` or `sluice_gateway=debug`.
pub(crate) fn start_at(level: &str, format: LogFormat, environment: &Environment) {
    let wanted = environment.setting("SLUICE_LOG").and_then(std::ffi::OsStr::to_str);
    let filter = wanted.filter(|wanted| {
        let is_known = is_known(wanted);
        if !is_known {
            let _ = remark(
                "warning: `SLUICE_LOG` is not a level and is ignored\nhint: write `warn`, `info` or `debug`\n",
            );
        }
        is_known
    });
    let filter = filter.and_then(|wanted| EnvFilter::try_new(wanted).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new(level));
    let limited = tracing_subscriber::registry().with(filter).with(rate::LineLimit::default());
    // This fails only if logging was started before, and nothing else starts it.
    let _ = match format {
        // Without the dependency for colours, enabling them panics in debug builds.
        LogFormat::Text => {
            let lines = fmt::layer().with_writer(io::stderr).with_ansi(false).with_target(false);
            limited.with(lines).try_init()
        }
        LogFormat::Json => {
            let lines = fmt::layer().with_writer(io::stderr).json().flatten_event(true);
            limited.with(lines).try_init()
        }
    };
}
