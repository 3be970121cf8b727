//! Completion scripts.

use crate::sluice::Folder;

#[test]
fn each_shell_gets_a_script() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = Folder::new().run(&["completions", shell]).exits(0);
        assert!(ran.out.contains("sluice") && ran.out.contains("explain"), "{shell}");
    }
    let ran = Folder::new().run(&["completions", "tcsh"]).exits(2);
    assert!(ran.err.contains("bash"), "{}", ran.err);
}
