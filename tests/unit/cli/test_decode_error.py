"""`waybill decode-error`: the meaning of revert data."""

from __future__ import annotations

import json

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from bridge.cli.output import ExitCode
from bridge.protocol.events import load_abi
from tests.unit.cli.command import Command

LOW = keccak(text="WrongFee(uint256,uint256)")[:4] + encode(["uint256", "uint256"], [4, 5])
CCIP = keccak(text="MessageGasLimitTooHigh()")[:4]
TEXT = keccak(text="Error(string)")[:4] + encode(["string"], ["IGP: [red]too little[/red]"])
TOO_FEW = keccak(text="TooFewDispatched(uint256,uint256,(uint8,bytes)[])")[:4] + encode(
    ["uint256", "uint256", "(uint8,bytes)[]"], [0, 1, [(1, TEXT), (3, LOW), (5, CCIP)]]
)
REVERTED = keccak(text="ExecutionReverted(bytes32,bytes)")[:4] + encode(["bytes32", "bytes"], [bytes(32), TOO_FEW])


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def test_a_revert_is_explained_down_to_each_gmps_own_reason(waybill: Command) -> None:
    end = waybill("decode-error", f"0x{REVERTED.hex()}")
    assert end.code == ExitCode.OK
    said = " ".join(end.out.split())
    for part in (
        "ExecutionReverted(messageId=0x",
        "Too few GMPs accepted the message, so nothing was sent.",
        "quote exactly this payload and gas limit again",
        "in it WrongFee(value=4, fee=5) of waybill",
        "in it MessageGasLimitTooHigh() of ccip do CCIP carries no such gas limit; lower it",
        'in it Error(message="IGP: [red]too little[/red]") of solidity',
    ):
        assert part in said, part


def test_a_revert_is_a_tree_in_json(waybill: Command) -> None:
    end = waybill("decode-error", "--json", f"0x{REVERTED.hex()}")
    found = json.loads(end.out)
    assert found["name"] == "ExecutionReverted"
    (inner,) = found["inner"]
    assert [one["name"] for one in inner["inner"]] == ["Error", "WrongFee", "MessageGasLimitTooHigh"]
    assert inner["inner"][1]["values"] == {"value": 4, "fee": 5}


def test_an_error_that_was_cut_off_is_known_by_its_name(waybill: Command) -> None:
    end = waybill("decode-error", f"0x{LOW[:36].hex()}")
    assert end.code == ExitCode.OK
    assert "WrongFee, cut off" in end.out


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        ("0xdeadbeef", ExitCode.UNKNOWN_ID, "0xdeadbeef is not an error of Waybill or of a GMP"),
        ("0xzz", ExitCode.USAGE, "'0xzz' is not revert data"),
        ("0x", ExitCode.USAGE, "too short for a custom error"),
    ],
)
def test_unknown_revert_data_is_an_error(waybill: Command, data: str, code: ExitCode, said: str) -> None:
    end = waybill("decode-error", data)
    assert end.code == code
    assert said in end.err


def test_every_error_of_every_abi_can_be_decoded() -> None:
    known = {(error["name"], len(error["inputs"])) for error in load_abi("Errors")}
    for contract in ("Router", "IAdapter", "Profiles", "LayerZeroAdapter", "CcipAdapter", "Inbox"):
        for item in load_abi(contract):
            if item["type"] == "error":
                assert (item["name"], len(item["inputs"])) in known, item["name"]
    assert {name for error in load_abi("Errors") for name in error["by"]} >= {"waybill", "axelar", "layerzero", "ccip"}
