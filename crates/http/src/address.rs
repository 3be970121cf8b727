//! The IP addresses that a server's host name may resolve to (SSRF protection).
//!
//! Without this check, a user who can register a URL could make the gateway call
//! hosts inside its network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// The addresses that connections may go to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Ranges that the operator has listed; they are allowed even if private.
    pub allowed: Vec<IpNet>,
    /// Whether loopback addresses are allowed.
    pub loopback: bool,
}

impl Reach {
    /// Whether a connection may go to this address.
    pub fn permits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        if self.allowed.iter().any(|range| range.contains(&address)) {
            return true;
        }
        if address.is_loopback() {
            return self.loopback;
        }
        match address {
            IpAddr::V4(address) => is_public_v4(address),
            IpAddr::V6(address) => is_public_v6(address),
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_reserved = address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        // Carrier-grade NAT, benchmarking, and protocol assignments.
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (18..20).contains(&b))
        || (a == 192 && b == 0 && c == 0);
    !is_reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Only global unicast, except ranges that embed an IPv4 address (6to4, Teredo) or are reserved
    // for documentation. 64:ff9b::/96 lies outside of global unicast.
    let is_global = (0x2000..0x4000).contains(&first);
    let carries_v4 = first == 0x2002 || (first == 0x2001 && second == 0);
    let is_documentation = first == 0x2001 && second == 0x0db8;
    is_global && !carries_v4 && !is_documentation
}

#[cfg(test)]
mod tests {
    use super::Reach;

    fn check(reach: &Reach, address: &str, expected: bool) {
        assert_eq!(reach.permits(address.parse().unwrap()), expected, "{address}");
    }

    #[test]
    fn only_public_addresses_are_allowed_by_default() {
        let reach = Reach::default();
        for address in ["93.184.216.34", "2606:2800:220:1::1", "1.1.1.1"] {
            check(&reach, address, true);
        }
        for address in [
            "127.0.0.1",
            "::1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "fe80::1",
            "fc00::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::1",
            "::",
            "ff02::1",
            "::10.0.0.1",
        ] {
            check(&reach, address, false);
        }
    }

    #[test]
    fn loopback_and_listed_ranges_are_allowed_if_configured() {
        let reach = Reach { allowed: vec!["10.1.0.0/16".parse().unwrap()], loopback: true };
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.1.2.3", "::ffff:10.1.2.3"] {
            check(&reach, address, true);
        }
        for address in ["10.2.0.1", "169.254.169.254"] {
            check(&reach, address, false);
        }
        let reach = Reach { allowed: vec!["169.254.0.0/16".parse().unwrap()], loopback: false };
        check(&reach, "169.254.169.254", true);
        check(&reach, "127.0.0.1", false);
    }
}
