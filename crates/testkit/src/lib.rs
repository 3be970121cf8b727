//! What tests of several crates need: folders that go away, an upstream that
//! records all it is sent, a Pharo image's HTTP port, and a client that sends
//! any bytes.

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
