//! Test support shared by several crates: temporary folders, a recording upstream, a
//! fake Pharo image, and a raw HTTP client.

mod eras;
mod folder;
mod old;
mod pharo;
mod raw;
mod upstream;

pub use eras::{LegacyOnly, ModernOnly};
pub use folder::Folder;
pub use old::OldServer;
pub use pharo::PharoImage;
pub use raw::{Answer, RawClient};
pub use upstream::{End, Live, Recorded, Reply, Upstream, mcp_server};
