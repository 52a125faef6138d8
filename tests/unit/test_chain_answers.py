import pytest

from bridge.chains.answers import Meaning, RpcError, meaning_of, revert_data

SELECTOR = "0xdeadbeef"

# What clients and providers really say: code, text, and what it means.
CORPUS = [
    # geth
    (3, "execution reverted: nope", Meaning.REVERTED),
    (-32000, "execution reverted", Meaning.REVERTED),
    (-32000, "gas required exceeds allowance (30000000)", Meaning.REVERTED),
    (-32000, "invalid opcode: INVALID", Meaning.REVERTED),
    (-32000, "already known", Meaning.ALREADY_KNOWN),
    (-32000, "nonce too low: next nonce 5, tx nonce 4", Meaning.NONCE_USED),
    (-32000, "nonce too high: address 0xab, tx: 9 state: 4", Meaning.UNAVAILABLE),
    (-32000, "replacement transaction underpriced", Meaning.UNDERPRICED),
    (-32000, "transaction underpriced: tip needed 1000000, tip permitted 1", Meaning.UNDERPRICED),
    (-32000, "max fee per gas less than block base fee: address 0xab, maxFeePerGas: 1", Meaning.UNDERPRICED),
    (-32000, "insufficient funds for gas * price + value: address 0xab have 0 want 1", Meaning.NO_FUNDS),
    (-32000, "intrinsic gas too low: gas 20000, minimum needed 21000", Meaning.MALFORMED),
    (-32000, "exceeds block gas limit", Meaning.MALFORMED),
    (-32000, "invalid sender", Meaning.MALFORMED),
    (-32000, "tx fee (2.00 ether) exceeds the configured cap (1.00 ether)", Meaning.MALFORMED),
    (-32000, "rlp: expected input list for types.LegacyTx", Meaning.MALFORMED),
    (-32000, "header not found", Meaning.UNAVAILABLE),
    (-32000, "missing trie node 0xab (path ) state 0xab is not available", Meaning.UNAVAILABLE),
    (-32000, "txpool is full", Meaning.UNAVAILABLE),
    (-32601, "the method eth_foo does not exist/is not available", Meaning.MALFORMED),
    (-32602, "invalid argument 0: hex string without 0x prefix", Meaning.MALFORMED),
    # anvil
    (3, "execution reverted: custom error 0xdeadbeef", Meaning.REVERTED),
    (-32003, "nonce too low", Meaning.NONCE_USED),
    (-32003, "transaction already imported", Meaning.ALREADY_KNOWN),
    (-32003, "Insufficient funds for gas * price + value", Meaning.NO_FUNDS),
    (-32003, "replacement transaction underpriced", Meaning.UNDERPRICED),
    (-32602, "BlockOutOfRangeError: block height is 15 but requested was 161061273", Meaning.UNAVAILABLE),
    (-32602, "Failed to decode transaction", Meaning.MALFORMED),
    # nethermind
    (-32015, "VM execution error.", Meaning.REVERTED),
    (-32010, "AlreadyKnown", Meaning.ALREADY_KNOWN),
    (-32010, "OldNonce", Meaning.NONCE_USED),
    (-32010, "FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 1, BaseFee: 7", Meaning.UNDERPRICED),
    (-32010, "InsufficientFunds, Account balance: 0, cumulative cost: 1", Meaning.NO_FUNDS),
    # besu
    (-32000, "Execution reverted", Meaning.REVERTED),
    (-32000, "Known transaction", Meaning.ALREADY_KNOWN),
    (-32001, "Nonce too low", Meaning.NONCE_USED),
    (-32004, "Upfront cost exceeds account balance", Meaning.NO_FUNDS),
    (-32000, "Transaction nonce is too distant from current sender nonce", Meaning.UNAVAILABLE),
    # reth
    (-32003, "transaction gas price below minimum", Meaning.UNDERPRICED),
    (-32602, "query exceeds max block range 100000", Meaning.TOO_MUCH_ASKED),
    (-32602, "query exceeds max results 20000, retry with the range 1-2", Meaning.TOO_MUCH_ASKED),
    # providers
    (-32005, "query returned more than 10000 results", Meaning.TOO_MUCH_ASKED),
    (
        -32602,
        "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range",
        Meaning.TOO_MUCH_ASKED,
    ),
    (-32614, "eth_getLogs is limited to a 10,000 range", Meaning.TOO_MUCH_ASKED),
    (-32000, "block range is too wide", Meaning.TOO_MUCH_ASKED),
    (-32000, "exceed maximum block range: 5000", Meaning.TOO_MUCH_ASKED),
    (-32005, "daily request count exceeded, request rate limited", Meaning.UNAVAILABLE),
    (429, "Your app has exceeded its compute units per second capacity", Meaning.UNAVAILABLE),
    (-32005, "limit exceeded", Meaning.UNAVAILABLE),
    (-32603, "Internal error", Meaning.UNAVAILABLE),
    (-32000, "request timed out", Meaning.UNAVAILABLE),
    # nobody's
    (-31999, "the moon is full", Meaning.UNKNOWN),
]


@pytest.mark.parametrize(("code", "text", "meaning"), CORPUS, ids=[text[:50] for _, text, _ in CORPUS])
def test_a_clients_words_have_their_meaning(code: int, text: str, meaning: Meaning) -> None:
    assert meaning_of(RpcError("eth_any", code, text)) is meaning


@pytest.mark.parametrize(
    "reason", ["nonce too low", "insufficient funds", "already known", "rate limit", "block range"]
)
def test_what_a_contract_writes_into_its_reason_does_not_change_that_it_reverted(reason: str) -> None:
    assert meaning_of(RpcError("eth_call", 3, reason)) is Meaning.REVERTED
    assert meaning_of(RpcError("eth_call", -32000, f"execution reverted: {reason}")) is Meaning.REVERTED


@pytest.mark.parametrize(
    "data",
    [
        SELECTOR,
        {"data": SELECTOR},
        {"result": SELECTOR, "txHash": "0xab"},
        f"Reverted {SELECTOR}",
    ],
    ids=["geth", "nested", "ganache", "nethermind"],
)
def test_revert_data_is_found_where_each_client_puts_it(data: object) -> None:
    assert revert_data(RpcError("eth_call", 3, "execution reverted", data)) == bytes.fromhex("deadbeef")


@pytest.mark.parametrize("data", [None, "", "Reverted", {}, [], 7, "0x"])
def test_a_revert_without_data_has_none(data: object) -> None:
    assert revert_data(RpcError("eth_call", 3, "execution reverted", data)) == b""


@pytest.mark.parametrize("body", ["text", None, [], {"message": None}, {"code": "x"}])
def test_an_error_of_no_known_form_is_kept_as_text(body: object) -> None:
    assert isinstance(meaning_of(RpcError.from_json("eth_call", body)), Meaning)
