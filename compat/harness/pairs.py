"""Which client is tried with which server, and how the two meet."""

from dataclasses import dataclass

from .table import WRAPPED, Client, Server, met


@dataclass(frozen=True)
class Pair:
    """One client with one server, through the gateway or by `sluice wrap`."""

    client: Client
    server: Server
    wrapped: bool = False

    @property
    def name(self) -> str:
        """A name that no other pair has, fit for a folder."""
        client = "-".join([*self.client.name.lower().split(), *self.client.mode.split()])
        return f"{client}--{self.server.name}{'--wrap' if self.wrapped else ''}"

    @property
    def title(self) -> str:
        way = " by wrap" if self.wrapped else ""
        return f"{self.client.name} ({self.client.mode}) with {self.server.name}{way}"


def wrappable(server: Server) -> bool:
    """Whether `sluice wrap` can stand before a server: it is no part of the gateway, and
    the gateway bridges nothing for it."""
    return not server.bridged and (server.transport != "built in" or bool(server.image))


def wrapped(client: Client, servers: list[Server]) -> list[Server]:
    """The servers that a client meets by `wrap`."""
    if not client.starts:
        return []
    return [server for name in WRAPPED for server in servers if server.name == name]


def all_pairs(clients: list[Client], servers: list[Server]) -> list[Pair]:
    """Every client with the servers of the tables of clients, and the first client with
    every server."""
    first = clients[0]
    pairs = [Pair(client, server) for client in clients for server in met(client)]
    pairs += [Pair(first, server) for server in servers]
    pairs += [Pair(client, server, wrapped=True) for client in clients for server in wrapped(client, servers)]
    pairs += [Pair(first, server, wrapped=True) for server in servers if wrappable(server)]
    return list({pair.name: pair for pair in pairs}.values())
