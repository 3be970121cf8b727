//! Attaches the picture that `read_screen` makes the image write to the tool result.
//!
//! The image names the file, so only some files are accepted: a PNG with the name of a
//! screenshot, and only if image and server run on the same machine.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use data_encoding::BASE64;
use sluice_builtin::{Image, ToolResult};
use sluice_wire::json::{Bounds, Document, Value};

/// The largest image that is attached; in base64 it still fits the gateway's default limit.
const LARGEST: u64 = 10 << 20;
/// The first bytes of every PNG.
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Attaches the image file that a result names, if it can be read.
pub(crate) async fn attach(result: &mut ToolResult) {
    let Some(path) = result.structured.as_deref().and_then(path) else { return };
    // The file is small, so it is read in one blocking call.
    let read = tokio::task::spawn_blocking(move || read(&path)).await;
    if let Ok(Ok(Some(bytes))) = read {
        result.images.push(Image { media_type: "image/png", data: BASE64.encode(&bytes) });
    }
}

/// The path of the picture in the answer.
fn path(answer: &str) -> Option<PathBuf> {
    let bounds = Bounds { bytes: 64 << 20, string: 64 << 20, depth: 512, ..Bounds::default() };
    let document = Document::parse(answer, &bounds).ok()?;
    let path = document.root().get("result")?.get("screenshot").and_then(Value::as_str)?;
    let path = Path::new(path);
    let name = path.file_name()?.to_str()?;
    let is_png = path.extension().is_some_and(|extension| extension == "png");
    let is_screenshot = name.starts_with("pharo-ui-") && is_png;
    (is_screenshot && path.is_absolute()).then(|| path.to_owned())
}

/// The file's bytes, if it is a PNG.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Opening something other than a regular file could block.
    if !path.symlink_metadata()?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    let is_whole = u64::try_from(bytes.len()).is_ok_and(|length| length <= LARGEST);
    Ok((is_whole && bytes.starts_with(SIGNATURE)).then_some(bytes))
}
