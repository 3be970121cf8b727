//! TLS to clients and to servers: one gateway is the server of another.

use std::fs;

use crate::sluice::Folder;

const TOKEN: &str = "sg_a_token_for_tls_tests";

/// A certificate for this machine that is its own authority, and its key.
fn certify(folder: &Folder) -> String {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    folder.write("cert.pem", &certified.cert.pem());
    folder.write("key.pem", &certified.signing_key.serialize_pem());
    folder.path().join("cert.pem").display().to_string()
}

#[test]
fn a_gateway_speaks_tls_to_clients_and_to_servers() {
    let far = Folder::with("sluice.toml", "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n");
    let authority = certify(&far);
    let far_up = far.up(&["--demo"]);
    let demo_token = fs::read_to_string(far.path().join("data/demo-token")).unwrap();
    let near = Folder::with("policy.json", r#"{"version":"1","default":"allow"}"#);
    near.write(
        "sluice.toml",
        &format!(
            "[servers.far]\nurl = \"https://localhost:{}/mcp/demo\"\n\
             headers = {{ Authorization = \"Bearer {}\" }}\n\
             [policies.p]\nserver = \"far\"\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"far\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n",
            far_up.listen.port(),
            demo_token.trim(),
        ),
    );
    let trusting = near.up_with(&[("SSL_CERT_FILE", &authority)], &[]);
    let listed = trusting.run(&["call", "far", "list_notes", "--token", TOKEN]).exits(0);
    assert!(listed.out.contains("Welcome"), "{listed:?}");
    trusting.kill();
    // Without the authority there is no connection, and the caller is told whose fault it is.
    far.write(
        "other.pem",
        &rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap().cert.pem(),
    );
    let other = far.path().join("other.pem").display().to_string();
    let distrusting = near.up_with(&[("SSL_CERT_FILE", &other)], &[]);
    let refused = distrusting.run(&["call", "far", "list_notes", "--token", TOKEN]).exits(2);
    assert!(refused.err.contains("502"), "{refused:?}");
}

#[test]
fn a_certificate_that_cannot_be_used_is_named() {
    let folder = Folder::with("sluice.toml", "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n");
    certify(&folder);
    folder.write("key.pem", "no key");
    let ran = folder
        .run(&["--data", "data", "up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .exits(2);
    assert!(ran.err.contains("key.pem"), "{ran:?}");
}
