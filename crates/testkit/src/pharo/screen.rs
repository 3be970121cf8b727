//! The fake image's screen: its world, and a picture of it.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use sluice_wire::json::Quoted;

use super::{
    Query,
    envelope::{self, Raised},
};

/// A PNG of one transparent pixel.
const PNG: [u8; 67] = [
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 10, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x63, 0, 1, 0, 0, 5, 0, 1, 0x0d, 0x0a, 0x2d, 0xb4, 0, 0, 0, 0, b'I', b'E', b'N',
    b'D', 0xae, 0x42, 0x60, 0x82,
];

pub(super) fn read(query: &Query, folder: &Path) -> Result<String, Raised> {
    // Whatever is no other layer is treated as the world and given back as it is.
    let target = query.get("target_type").unwrap_or("world");
    let (structure, summary) = match target {
        "spec" => (r#"{"presenters":[],"windowCount":0}"#, "0 Spec presenter(s)"),
        "roassal" => (r#"{"canvases":[],"canvasCount":0}"#, "0 Roassal canvas(es)"),
        _ => (
            r#"{"totalMorphs":1,"displayedMorphCount":1,"morphs":[{"class":"MenubarMorph","bounds":{"x":0,"y":0,"width":800,"height":24},"visible":true,"submorphCount":0}]}"#,
            "World with 1 top-level morphs",
        ),
    };
    let screenshot = if query.flag("capture_screenshot", true) {
        let path = write(folder)?;
        format!("\"screenshot\":{},", Quoted(&path))
    } else {
        String::new()
    };
    let target = Quoted(target);
    Ok(envelope::success(&format!(
        "{{{screenshot}\"target_type\":{target},\"structure\":{structure},\"summary\":\"{summary}\"}}"
    )))
}

fn write(folder: &Path) -> Result<String, Raised> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("pharo-ui-2026-11-15T12-00-{number:02}.png"));
    let failed = |_| Raised::new("FileDoesNotExistException", "File", "a File");
    fs::write(&path, PNG).map_err(failed)?;
    Ok(path.to_string_lossy().into_owned())
}
