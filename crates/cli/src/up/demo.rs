//! What `--demo` adds: a server, a policy and a grant, all named `demo`.

use std::{sync::Arc, time::Duration};

use sluice_builtin::Builtin;
use sluice_policy::{Format, Timestamp};
use sluice_store::{AttachedPolicy, Grant, Name, Secret, Server, Source, TokenHash, Transport};

use crate::data::DataDirectory;
use sluice_config::Config;

/// Creates the server, which takes no options.
pub(crate) fn server(options: &str) -> Result<Arc<dyn Builtin>, String> {
    match options {
        "{}" => Ok(Arc::new(sluice_demo::Demo::new())),
        _ => Err("the demo server takes no `options`".into()),
    }
}

/// The demo's parts.
#[derive(Debug)]
pub(crate) struct Demo {
    name: Name,
    pub(crate) token: Secret,
}

impl Demo {
    pub(crate) fn new(data: &DataDirectory) -> anyhow::Result<Demo> {
        Ok(Demo { name: Name::new("demo")?, token: data.demo_token()? })
    }

    /// Adds the demo to the configuration of the file, which must not use its name.
    pub(crate) fn add_to(&self, config: &mut Config) -> Result<(), String> {
        let id = format!("file:{}", self.name);
        let clash = |what| {
            format!("`--demo` adds {what} `{}`, which the configuration has already", self.name)
        };
        if config.servers.iter().any(|server| server.name == self.name) {
            return Err(clash("server"));
        }
        if config.policies.iter().any(|policy| policy.name == self.name) {
            return Err(clash("policy"));
        }
        if config.grants.iter().any(|(_, grant)| grant.id == id) {
            return Err(clash("grant"));
        }
        config.servers.push(Server {
            name: self.name.clone(),
            transport: Transport::Builtin { name: "demo".into(), options: "{}".into() },
            timeout: Duration::from_mins(1),
            anonymous_policy: None,
            bridge: sluice_store::Bridge::default(),
            hidden_text: sluice_store::HiddenText::default(),
            mask_secrets: true,
            source: Source::File,
        });
        config.policies.push(AttachedPolicy {
            server: self.name.clone(),
            name: self.name.clone(),
            text: sluice_demo::POLICY.to_owned(),
            format: Format::Json,
            version: AttachedPolicy::version_of(sluice_demo::POLICY),
            source: Source::File,
            base_files: Vec::new(),
        });
        let grant = Grant {
            id,
            label: self.name.clone(),
            servers: vec![self.name.clone()],
            policy: self.name.clone(),
            principal: None,
            created_at: Timestamp::from_millis(0),
            expires_at: None,
            created_by: None,
            revoked_at: None,
        };
        config.grants.push((TokenHash::of(self.token.expose()), grant));
        Ok(())
    }
}
