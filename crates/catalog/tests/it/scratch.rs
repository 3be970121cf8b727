//! A catalogue of its own for each test, and what happened to it.

use std::{fs, path::PathBuf, sync::LazyLock};

use sluice_catalog::{Catalog, Change, Event, Imported};
use sluice_testkit::Folder;

/// A folder with a catalogue.
pub(crate) struct Scratch {
    pub(crate) folder: Folder,
    pub(crate) catalog: Catalog,
}

/// What an import has done and said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) imported: Imported,
    pub(crate) problems: Vec<String>,
    pub(crate) changes: Vec<Change>,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        // What is shipped is put in once for all tests of this process.
        static FIRST: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let folder = Folder::new().unwrap();
            let path = folder.join("catalog.db");
            drop(Catalog::open_to_write(&path).unwrap());
            fs::read(&path).unwrap()
        });
        let folder = Folder::new().unwrap();
        fs::write(folder.join("catalog.db"), &*FIRST).unwrap();
        let catalog = Catalog::open_to_write(&folder.join("catalog.db")).unwrap();
        Scratch { folder, catalog }
    }

    /// Imports a text under a file name.
    pub(crate) fn import(&mut self, name: &str, text: &str) -> Ran {
        let path = self.write(name, text);
        let (mut problems, mut changes) = (Vec::new(), Vec::new());
        let imported = self.catalog.import(&path, None, &mut |event| match event {
            Event::Problem(problem) => problems.push(problem.to_string()),
            Event::Changed(change) => changes.push(change.clone()),
            Event::Progress(_) => {}
        });
        Ran { imported: imported.unwrap(), problems, changes }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The tools of a server, each with its category.
    pub(crate) fn tools(&self, server: &str) -> Vec<String> {
        let server = self.catalog.server(server).unwrap().expect("the server is there");
        let tools = self.catalog.tools(&server).unwrap();
        tools.iter().map(|tool| format!("{}: {}", tool.name, tool.traits.category)).collect()
    }
}

impl Ran {
    /// Asserts that everything was understood.
    #[track_caller]
    pub(crate) fn well(self) -> Ran {
        assert!(self.problems.is_empty(), "{:?}", self.problems);
        self
    }
}
