//! The test double of a Pharo image, as a separate process.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
};

use clap::Args;
use sluice_testkit::PharoImage;

use crate::listen::{self, READY};

/// The arguments of the image.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// Where to listen; port 0 takes a free one, which is printed
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    listen::runtime(1)?.block_on(async {
        let image = PharoImage::start_at(arguments.listen, &std::env::temp_dir()).await?;
        let mut out = io::stdout();
        writeln!(out, "{READY}{}", image.address)?;
        out.flush()?;
        std::future::pending().await
    })
}
