"""Sockets that wait for clients, and addresses that only this machine can reach."""

from __future__ import annotations

import socket
from ipaddress import ip_address

from lapwing.errors import Misconfigured

_WAITING = 512  # connections that are not accepted yet


def listen(host: str, port: int, instead: str = "Name another --port or --host.") -> socket.socket:
    """A socket that listens, so that its port is known before a server runs; port 0 takes any free one.

    Its protocol is named: asyncio turns Nagle's algorithm off only for sockets that say TCP, and with it every answer
    waits for the client's delayed acknowledgement, some 40 ms.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_WAITING)
    except (OSError, OverflowError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or "no such port"
        raise Misconfigured(f"{host}:{port} cannot be listened on ({why}). {instead}") from None
    return listening


def is_loopback(host: object) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ip_address(str(host)).is_loopback
    except ValueError:
        return False
