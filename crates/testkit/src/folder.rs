//! A temporary folder for a test, removed when the test ends.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// A new, empty folder.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one, which only its owner can enter.
    pub fn new() -> io::Result<Folder> {
        use std::os::unix::fs::DirBuilderExt as _;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sluice-test-{}-{number}", process::id()));
        // A test that was killed may have left one, under a process id used again.
        let _ = fs::remove_dir_all(&path);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of something in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Leftovers are in the system's temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}
