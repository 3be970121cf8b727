//! A file with its name and text, and parsing it as a policy.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use sluice_policy::{
    BaseText, Bases, Format, MOST_IN_CHAIN, MissingBase, Policy, Problem, find_base, load_extending,
};
use sluice_store::BaseFile;

use crate::loader::read;

/// How many bytes of a policy are read: one more than the maximum, so that a policy that is too
/// long is detected.
pub const MOST_POLICY: u64 = (1 << 20) + 1;

/// A policy's file name and text.
#[derive(Debug)]
pub struct Source {
    pub name: String,
    pub text: Vec<u8>,
}

impl Source {
    /// The format, by the file's extension. Standard input has none, so text that starts like an
    /// object is JSON.
    pub fn format(&self) -> Format {
        match self.name.as_str() {
            "-" if !self.text.trim_ascii_start().starts_with(b"{") => Format::Yaml,
            name => Format::of_file_name(name),
        }
    }

    /// Compiles it as a policy, which can extend files beside it.
    pub fn policy(&self) -> Result<Policy, Vec<Problem>> {
        self.compile("name it with `--server`; a file is extended by `./`")
    }

    /// The same where no server can be named.
    pub fn policy_without_server(&self) -> Result<Policy, Vec<Problem>> {
        self.compile("only files can be extended here, by `./`")
    }

    fn compile(&self, hint: &'static str) -> Result<Policy, Vec<Problem>> {
        let own = Path::new(&self.name).file_name().and_then(OsStr::to_str);
        let own = own.map(|name| format!("./{name}"));
        let bases = FilesBeside { own, files: self.base_files(), hint };
        load_extending(&self.text, self.format(), &bases)
    }

    /// The files beside it that it extends. Standard input has none.
    pub fn base_files(&self) -> Vec<BaseFile> {
        if self.name == "-" {
            return Vec::new();
        }
        read_base_files(Path::new(&self.name), &self.text, self.format(), |path| {
            read(path, MOST_POLICY)
        })
    }

    /// Whether it extends another policy.
    pub fn extends_another(&self) -> bool {
        find_base(&self.text, self.format()).is_some()
    }

    /// Whether it extends a policy by name, directly or through files beside it.
    pub fn extends_by_name(&self) -> bool {
        let last = self.base_files().pop();
        let last = match &last {
            Some(file) => find_base(file.text.as_bytes(), file.format),
            None => find_base(&self.text, self.format()),
        };
        last.is_some_and(|name| !name.starts_with("./"))
    }

    /// The policy's own tests that fail, as problems with positions, and the total number of tests.
    pub fn failing_tests(&self, policy: &Policy) -> (Vec<Problem>, usize) {
        let results = policy.run_tests();
        let problems = results
            .iter()
            .filter_map(|test| {
                let failure = test.failure.as_ref()?;
                let message = format!("test `{}` fails: {failure}", test.name);
                Some(Problem::at(&self.text, test.offset, message))
            })
            .collect();
        (problems, results.len())
    }
}

/// Policies that stand in files, and know no server.
struct FilesBeside {
    own: Option<String>,
    files: Vec<BaseFile>,
    /// How to extend what is no file.
    hint: &'static str,
}

impl Bases for FilesBeside {
    fn own_name(&self) -> Option<&str> {
        self.own.as_deref()
    }

    fn find(&self, name: &str, _from: Option<&BaseText>) -> Result<BaseText, MissingBase> {
        if let Some(file) = self.files.iter().find(|file| file.name == name) {
            let (text, format) = (file.text.clone().into_bytes(), file.format);
            return Ok(BaseText { text, format, place: String::new() });
        }
        if name.starts_with("./") {
            let message = format!("there is no file `{name}` to extend, or it cannot be read");
            return Err(MissingBase { message, hint: None });
        }
        let message = format!("`{name}` is a policy of a server, and no server is named");
        let hint = format!("{}: `./{name}.json`", self.hint);
        Err(MissingBase { message, hint: Some(hint) })
    }
}

/// Reads the files beside a policy that it extends, directly or through each other. One that cannot
/// be read is left out, so that it is missing when the policy is compiled.
pub fn read_base_files(
    path: &Path,
    text: &[u8],
    format: Format,
    mut read: impl FnMut(&Path) -> io::Result<Vec<u8>>,
) -> Vec<BaseFile> {
    let mut files: Vec<BaseFile> = Vec::new();
    let mut next = find_base(text, format);
    while let Some(name) = next.filter(|_| files.len() < MOST_IN_CHAIN) {
        let Some(text) = beside(path, &name).and_then(|path| read(&path).ok()) else { break };
        let format = Format::of_file_name(&name);
        next = find_base(&text, format);
        let text = String::from_utf8_lossy(&text).into_owned();
        files.push(BaseFile { name, text, format });
    }
    files
}

/// The file beside a policy's that `extends` names, if it names one.
fn beside(path: &Path, name: &str) -> Option<PathBuf> {
    let file = name.strip_prefix("./").filter(|file| !file.contains(['/', '\\']))?;
    Some(path.parent()?.join(file))
}
