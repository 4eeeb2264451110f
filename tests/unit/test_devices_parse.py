"""Texts that name devices."""

import pytest
from malisdk_pipeline.devices import parse_device
from malisdk_pipeline.errors import ConfigError


@pytest.mark.parametrize(
    "text",
    [
        "host",
        "rusticl",
        "emulator",
        "emulator:trixie",
        "ssh://board",
        "ssh://rock@board",
        "ssh://rock@board.local:2222",
        "ssh://rock@192.168.1.5",
        "ssh://rock@[fe80::1%eth0]:22",
    ],
)
def test_known_text_gives_device_of_that_name(text: str) -> None:
    assert parse_device(text).name == text


@pytest.mark.parametrize(
    ("text", "suggested"),
    [
        ("emulater", "emulator"),
        ("Host", "host"),
        ("rustikl", "rusticl"),
        ("emulator:trixi", "emulator:trixie"),
        ("shh://rock@board", "ssh://user@host"),
    ],
)
def test_misspelt_text_suggests_the_nearest(text: str, suggested: str) -> None:
    with pytest.raises(ConfigError, match="got") as caught:
        parse_device(text)
    assert caught.value.hint == f"did you mean {suggested}?"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["", "qnx", "usb:3"])
def test_unknown_text_lists_what_there_is(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"expected host, rusticl, emulator, emulator:SUITE, ssh://user@host\[:port\]"
    ):
        parse_device(text)


@pytest.mark.parametrize(
    "text",
    [
        "ssh:board",
        "ssh://",
        "ssh://@board",
        "ssh://rock@board:0",
        "ssh://rock@board:99999",
        "ssh://rock@board:port",
        "ssh://rock@board/folder",
        "ssh://rock@board?x=1",
        "ssh://rock@-oProxyCommand=touch",
        "ssh://-l@board",
        "ssh://rock@bo ard",
    ],
)
def test_wrong_ssh_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"not an ssh address, got .*expected ssh://user@host\[:port\]"):
        parse_device(text)


def test_password_in_ssh_address_is_refused_without_repeating_it() -> None:
    with pytest.raises(ConfigError, match="password") as caught:
        parse_device("ssh://rock:secret@board")
    assert "secret" not in str(caught.value)
    assert caught.value.hint == "ssh-copy-id rock@board"
