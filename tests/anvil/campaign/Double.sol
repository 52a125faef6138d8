// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

interface IRouter {
    function creditSurplus(address account) external payable;
}

/// @dev Plays an account, a recipient or an adapter, whichever it is called as. It does what it was last told to, and then
///      makes one call of its own: at the worst moment, since the router waits for it.
contract Double {
    enum Mood {
        WILLING,
        REFUSES,
        REFUSES_MONEY,
        ANSWERS_WRONGLY,
        BURNS_GAS
    }

    /// @dev The router that it speaks to as an adapter. The campaign writes this slot itself.
    address public router;
    Mood private mood;
    uint256 private fee;
    address private target;
    uint256 private value;
    bytes private call;

    event Carried(uint64 chain, bytes32 destinationRouter, bytes32 envelopeHash, uint64 gasLimit, address refundTo);
    event Received(bytes32 messageId, bytes32 payloadHash);
    event Called(bool success, bytes4 error);

    error Refused();
    error WrongFee(uint256 value, uint256 fee);

    function behave(Mood mood_, uint256 fee_, address target_, uint256 value_, bytes calldata call_) external {
        (mood, fee, target, value, call) = (mood_, fee_, target_, value_, call_);
    }

    // ---- as an account

    receive() external payable {
        if (mood == Mood.REFUSES_MONEY) revert Refused();
        act();
    }

    // ---- as a recipient

    function receiveMessage(bytes32 messageId, bytes calldata, bytes calldata payload) external payable returns (bytes4) {
        submit();
        emit Received(messageId, keccak256(payload));
        act();
        return mood == Mood.ANSWERS_WRONGLY ? bytes4(0) : this.receiveMessage.selector;
    }

    // ---- as an adapter

    function transport() external view returns (address) {
        return address(this);
    }

    function quote(uint64, bytes32, bytes calldata, uint64) external view returns (uint256) {
        submit();
        if (mood == Mood.ANSWERS_WRONGLY) {
            assembly {
                return(0, 64)
            }
        }
        return fee;
    }

    function dispatch(uint64 chain, bytes32 to, bytes calldata envelope, uint64 gasLimit, address refundTo)
        external
        payable
    {
        submit();
        if (msg.value < fee) revert WrongFee(msg.value, fee);
        emit Carried(chain, to, keccak256(envelope), gasLimit, refundTo);
        if (msg.value > fee) IRouter(router).creditSurplus{value: msg.value - fee}(refundTo);
        act();
    }

    // ---- for the campaign

    /// @dev What accounts have, and what views answer, all at once.
    function look(address[] calldata accounts, address viewed, bytes[] calldata calls)
        external
        view
        returns (uint256[] memory balances, bytes memory answers)
    {
        balances = new uint256[](accounts.length);
        for (uint256 index; index < accounts.length; ++index) {
            balances[index] = accounts[index].balance;
        }
        for (uint256 index; index < calls.length; ++index) {
            (bool success, bytes memory answer) = viewed.staticcall(calls[index]);
            require(success, "a view reverts");
            answers = bytes.concat(answers, answer);
        }
    }

    // ---- inner workings

    function submit() private view {
        if (mood == Mood.REFUSES) revert Refused();
        if (mood == Mood.BURNS_GAS) {
            assembly {
                invalid()
            }
        }
    }

    function act() private {
        if (target == address(0)) return;
        (bool success, bytes memory answer) = target.call{value: value}(call);
        emit Called(success, success ? bytes4(0) : bytes4(answer));
    }
}
