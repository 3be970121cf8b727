//! The built-in server `pharo`: its options and their defaults from the environment.

use std::sync::Arc;

use sluice_builtin::Builtin;
use sluice_config::span;
use sluice_pharo::Pharo;

use crate::pharo;
use sluice_config::Environment;

/// Creates the server, with options from the file.
pub(crate) fn server(options: &str) -> Result<Arc<dyn Builtin>, String> {
    let defaults =
        pharo::defaults(&Environment::of_process()).map_err(|error| error.to_string())?;
    let options = defaults.overlaid(options, span::read).map_err(|error| error.to_string())?;
    let server = Pharo::new(&options).map_err(|error| error.to_string())?;
    Ok(Arc::new(server))
}
