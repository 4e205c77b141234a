"""Which addresses a guarded webhook may never be led to."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.notifiers.addresses import is_internal

PRIVATE = [
    ip_network(one) for one in ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
]


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.1", "10.1.2.3", "172.31.255.255", "192.168.0.1", "169.254.169.254"),
        *(
            "100.64.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
        ),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe"),
        *("2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:7f00:1::", "64:ff9b:1::a00:1"),
        *("localhost", "", "0x7f.1", "127.1"),
    ],
)
def test_an_internal_address_is_one_in_every_form(address: str) -> None:
    assert is_internal(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "64:ff9b::101:101"])
def test_a_public_address_is_none(address: str) -> None:
    assert not is_internal(address)


@given(st.sampled_from(PRIVATE).flatmap(lambda net: st.integers(int(net[0]), int(net[-1]))))
def test_no_ipv6_form_hides_a_private_address(number: int) -> None:
    plain = IPv4Address(number)
    forms = [0xFFFF00000000 | number, number, (0x64FF9B << 96) | number, (0x2002 << 112) | (number << 80)]
    assert is_internal(str(plain))
    assert all(is_internal(str(IPv6Address(one))) for one in forms)
