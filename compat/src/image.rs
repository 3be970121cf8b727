//! `compat-image PORT`: a double of a Pharo image, for real clients to reach
//! through our Pharo server.

use std::{env, net::SocketAddr};

use anyhow::Context as _;
use sluice_testkit::{Folder, PharoImage};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let port = env::args().nth(1).context("usage: compat-image PORT")?.parse()?;
    let screenshots = Folder::new()?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let _image = PharoImage::start_at(address, screenshots.path()).await?;
    std::future::pending().await
}
