"""which network addresses lie inside: this machine, its networks, and what only machines there may ask (pure)"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
_COMPATIBLE = ip_network("::/96")
# What answers there hands out credentials to machines of one big cloud each, and looks public: by its number, or to
# versions of Python that know only a part of that network.
_METADATA = (ip_network("168.63.129.16/32"), ip_network("192.0.0.0/24"))


def is_internal(address: str) -> bool:
    """Whether an address, written as numbers, is no public one; what cannot be read is taken for internal.

    An IPv6 address that carries an IPv4 one (mapped, compatible, NAT64, 6to4, Teredo) is what it carries, too.
    """
    try:
        found = ip_address(address)
    except ValueError:
        return True
    return any(_is_internal(one) for one in (found, *_carried(found)))


def _is_internal(address: IPv4Address | IPv6Address) -> bool:
    if any(address in one for one in _METADATA) or address.is_multicast or not address.is_global:
        return True
    return isinstance(address, IPv6Address) and address.is_site_local


def _carried(address: IPv4Address | IPv6Address) -> tuple[IPv4Address, ...]:
    if isinstance(address, IPv4Address):
        return ()
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    carried = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _COMPATIBLE or any(address in one for one in _NAT64):
        carried.append(last)
    return tuple(one for one in carried if one is not None)
