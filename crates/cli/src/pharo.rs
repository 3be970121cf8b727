//! The options of the Pharo server from the environment.

use anyhow::anyhow;
use sluice_pharo::Options;

use crate::output::visible;
use sluice_config::Environment;

/// The variable from which Pharo's own server in the image reads its port.
const PORT: &str = "PHARO_SIS_PORT";

/// The options that apply unless others are given.
pub(crate) fn defaults(environment: &Environment) -> anyhow::Result<Options> {
    let mut options = Options::default();
    if let Some(text) = environment.setting(PORT) {
        let port = text.to_str().and_then(|text| text.trim().parse().ok());
        options.port = port.filter(|port| *port > 0).ok_or_else(|| {
            let text = text.to_string_lossy();
            anyhow!("`{PORT}` is `{}`: expected a number from 1 to 65535", visible(&text))
        })?;
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::defaults;
    use sluice_config::Environment;

    #[test]
    fn the_environment_names_the_port() {
        let port = |variables: Environment| {
            defaults(&variables).map(|options| options.port).map_err(|error| error.to_string())
        };
        assert_eq!(port(Environment::from([])), Ok(8086));
        assert_eq!(port(Environment::from([("PHARO_SIS_PORT", "")])), Ok(8086));
        assert_eq!(port(Environment::from([("PHARO_SIS_PORT", "9090")])), Ok(9090));
        let wrong = port(Environment::from([("PHARO_SIS_PORT", "0")]));
        let expected = "`PHARO_SIS_PORT` is `0`: expected a number from 1 to 65535";
        assert_eq!(wrong, Err(expected.into()));
    }
}
