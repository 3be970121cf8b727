//! The addresses of the listeners: where they are bound, and what clients are told.
//!
//! A listener on all addresses of the machine (`0.0.0.0`) has none that a client could use. Clients
//! are told a host of `allowed_hosts`, or else the address by which this machine reaches others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// An address set aside for documentation, to which nothing is ever sent.
const ELSEWHERE_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const ELSEWHERE_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// Where the listeners of a gateway are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Whether agents connect by TLS.
    pub(crate) is_tls: bool,
    /// The agent listener's URL for clients, without a path.
    pub(crate) agents_url: String,
    /// The admin listener's URL for people, without a path.
    pub(crate) admin_url: String,
}

impl Addresses {
    pub(crate) fn new(
        listen: SocketAddr,
        admin: SocketAddr,
        is_tls: bool,
        allowed_hosts: &[String],
    ) -> Addresses {
        let scheme = if is_tls { "https" } else { "http" };
        Addresses {
            listen,
            admin,
            is_tls,
            agents_url: format!("{scheme}://{}", client_host(listen, allowed_hosts)),
            admin_url: format!("http://{}", client_host(admin, allowed_hosts)),
        }
    }

    /// Warns if tokens would cross a network unencrypted.
    pub(crate) fn warn_of_plain_text(&self) {
        let Addresses { listen, admin, .. } = self;
        if !listen.ip().is_loopback() && !self.is_tls {
            tracing::warn!(
                %listen,
                "agents connect without TLS: anyone on the network path can read their tokens and calls. Set `cert` and `key` in `[tls]` of sluice.toml, or listen on 127.0.0.1 behind a proxy that has TLS"
            );
        }
        if !admin.ip().is_loopback() {
            tracing::warn!(
                %admin,
                "the admin listener has no TLS: anyone on the network path can read the admin token. Set `--admin 127.0.0.1:8788` and reach it through a proxy that has TLS, or through ssh"
            );
        }
    }
}

/// The host of a URL for clients of a listener, with its port.
fn client_host(bound: SocketAddr, allowed_hosts: &[String]) -> String {
    if !bound.ip().is_unspecified() {
        return bound.to_string();
    }
    let port = bound.port();
    match allowed_hosts.first() {
        Some(host) if has_port(host) => host.clone(),
        Some(host) if host.parse::<Ipv6Addr>().is_ok() => format!("[{host}]:{port}"),
        Some(host) => format!("{host}:{port}"),
        None => SocketAddr::new(own_address(bound).unwrap_or(loopback(bound)), port).to_string(),
    }
}

/// Whether a host ends with a port; a plain IPv6 address does not.
fn has_port(host: &str) -> bool {
    let after =
        host.rsplit_once(':').filter(|(before, _)| !before.contains(':') || before.ends_with(']'));
    after.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

fn loopback(bound: SocketAddr) -> IpAddr {
    if bound.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

/// The address of this machine that packets to others would carry, for a listener on all addresses.
/// Nothing is sent to find it.
pub(crate) fn own_address(bound: SocketAddr) -> Option<IpAddr> {
    let route = |from: IpAddr, to: IpAddr| {
        let socket = UdpSocket::bind((from, 0)).ok()?;
        socket.connect((to, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
    };
    let v4 = || route(Ipv4Addr::UNSPECIFIED.into(), ELSEWHERE_V4);
    match bound.ip() {
        ip if !ip.is_unspecified() => None,
        IpAddr::V4(_) => v4(),
        // Such a listener takes IPv4 too, which is what most clients use.
        IpAddr::V6(_) => v4().or_else(|| route(Ipv6Addr::UNSPECIFIED.into(), ELSEWHERE_V6)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::client_host;

    fn host(bound: &str, allowed: &[&str]) -> String {
        let allowed: Vec<_> = allowed.iter().map(|&host| host.to_owned()).collect();
        client_host(bound.parse().unwrap(), &allowed)
    }

    #[test]
    fn clients_are_told_a_host_that_they_can_use() {
        assert_eq!(host("127.0.0.1:8787", &["gate.example.com"]), "127.0.0.1:8787");
        assert_eq!(host("192.168.7.1:1", &[]), "192.168.7.1:1");
        assert_eq!(host("0.0.0.0:8787", &["gate.example.com"]), "gate.example.com:8787");
        assert_eq!(host("0.0.0.0:8787", &["gate.example.com:443"]), "gate.example.com:443");
        assert_eq!(host("[::]:8787", &["2001:db8::7"]), "[2001:db8::7]:8787");
        for all in ["0.0.0.0:8787", "[::]:8787"] {
            let told: SocketAddr = host(all, &[]).parse().unwrap();
            assert!(!told.ip().is_unspecified() && told.port() == 8787, "{told}");
        }
    }
}
