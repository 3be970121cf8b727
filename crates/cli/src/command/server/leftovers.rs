//! What a data directory holds of a server that is removed while no gateway runs.

use sluice_store::{Actor, Clock, Durability, Edit, Name, Store, StoreConfig};

use crate::data::DataDirectory;

/// Removes the stored policies of a server, and takes it out of stored grants.
pub(super) fn forget(data: &DataDirectory, server: &Name) -> anyhow::Result<()> {
    if !Store::exists(data.path()) {
        return Ok(());
    }
    let _lock = data.lock()?;
    let store = Store::open(StoreConfig {
        directory: data.path().to_owned(),
        durability: Durability::Power,
        key: data.master_key()?,
        clock: Clock::System,
        retention: None,
        accept_loss: false,
    })?;
    let message = format!(
        "server `{server}` removed: its policies are removed, and it is taken out of grants"
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        store.remove_server(server, Edit { actor: Actor::gateway(), message }).await?;
        store.close().await
    })?;
    Ok(())
}
