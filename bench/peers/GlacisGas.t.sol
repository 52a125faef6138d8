// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ExecutionGas} from "../ExecutionGas.sol";
import {StubAdapter} from "../RouterGasHarness.sol";

/// @dev What of Glacis' router is called, as its repository declares it (glacislabs/v1-core at 2b0e394).
interface IGlacisRouter {
    struct CrossChainGas {
        uint128 gasLimit;
        uint128 nativeCurrencyValue;
    }

    function registerAdapter(uint8 gmp, address adapter) external;

    function route(
        uint256 chainId,
        bytes32 to,
        bytes memory payload,
        address[] memory adapters,
        CrossChainGas[] memory fees,
        address refundAddress,
        bool retryable
    ) external payable returns (bytes32 messageId, uint256 nonce);

    function routeRetry(
        uint256 chainId,
        bytes32 to,
        bytes memory payload,
        address[] memory adapters,
        CrossChainGas[] memory fees,
        address refundAddress,
        bytes32 messageId,
        uint256 nonce
    ) external payable returns (bytes32, uint256);

    function receiveMessage(uint256 fromChainId, bytes memory glacisPayload) external;
}

/// @dev Allows every route, asks for three GMPs and does nothing.
contract GlacisNoOpClient {
    struct Route {
        uint256 fromChainId;
        bytes32 fromAddress;
        address fromAdapter;
    }

    struct Data {
        bytes32 messageId;
        uint256 nonce;
        bytes32 originalFrom;
        bytes32 originalTo;
    }

    function isAllowedRoute(Route calldata, bytes calldata) external pure returns (bool) {
        return true;
    }

    function getQuorum(Data calldata, bytes calldata, uint256) external pure returns (uint256) {
        return 3;
    }

    function receiveMessage(address[] calldata, uint256, bytes32, bytes calldata) external {}
}

/// @notice Glacis by the rules of {RouterGasHarness}. bench/router_gas.py puts its compiled router where this looks for it.
contract GlacisGas is ExecutionGas {
    string private constant ARTIFACT = "build/bench/peers/GlacisRouter.json";
    uint256 private constant HERE = 1;
    uint256 private constant THERE = 10;

    IGlacisRouter private _source;
    IGlacisRouter private _destination;
    bytes32 private _recipient;
    address[4] private _inbound;

    function setUp() public {
        if (!vm.exists(ARTIFACT)) vm.skip(true);
        _recipient = bytes32(uint256(uint160(address(new GlacisNoOpClient()))));
        vm.chainId(THERE);
        _destination = IGlacisRouter(vm.deployCode(ARTIFACT, abi.encode(address(this))));
        vm.chainId(HERE);
        _source = IGlacisRouter(vm.deployCode(ARTIFACT, abi.encode(address(this))));
        for (uint8 number = 1; number <= 3; ++number) {
            _source.registerAdapter(number, address(new StubAdapter()));
            _inbound[number] = address(new StubAdapter());
            _destination.registerAdapter(number, _inbound[number]);
        }
        _route(1, true);
    }

    function test_Measure() public {
        string memory result = "glacis";
        uint256[] memory retriable = new uint256[](3);
        uint256[] memory send = new uint256[](3);
        uint256[] memory resend = new uint256[](3);
        for (uint8 gmps = 1; gmps <= 3; ++gmps) {
            (send[gmps - 1],,) = _route(gmps, false);
            bytes32 messageId;
            uint256 nonce;
            (retriable[gmps - 1], messageId, nonce) = _route(gmps, true);
            resend[gmps - 1] = _retry(gmps, messageId, nonce);
        }
        vm.serializeUint(result, "send_retriable", retriable);
        vm.serializeUint(result, "send", send);
        vm.serializeUint(result, "resend", resend);
        vm.writeJson(vm.serializeUint(result, "receive_3of3", _receive()), "build/bench/peers/glacis.json");
    }

    function _route(uint8 gmps, bool retriable) private returns (uint256 gas, bytes32 messageId, uint256 nonce) {
        (address[] memory adapters, IGlacisRouter.CrossChainGas[] memory fees) = _over(gmps);
        (messageId, nonce) = _source.route(THERE, _recipient, _payload(), adapters, fees, address(this), retriable);
        gas = _executionGas(
            abi.encodeCall(_source.route, (THERE, _recipient, _payload(), adapters, fees, address(this), retriable))
        );
    }

    function _retry(uint8 gmps, bytes32 messageId, uint256 nonce) private returns (uint256) {
        (address[] memory adapters, IGlacisRouter.CrossChainGas[] memory fees) = _over(gmps);
        _source.routeRetry(THERE, _recipient, _payload(), adapters, fees, address(this), messageId, nonce);
        return _executionGas(
            abi.encodeCall(
                _source.routeRetry, (THERE, _recipient, _payload(), adapters, fees, address(this), messageId, nonce)
            )
        );
    }

    function _receive() private returns (uint256[] memory gas) {
        gas = new uint256[](3);
        // Another message of the recipient came before, so that it is no stranger to the router.
        _deliver(1, 0);
        for (uint8 number = 1; number <= 3; ++number) {
            gas[number - 1] = _deliver(number, 1);
        }
    }

    function _deliver(uint8 number, uint256 nonce) private returns (uint256) {
        bytes32 sender = bytes32(uint256(uint160(address(this))));
        bytes32 messageId = keccak256(abi.encode(THERE, HERE, _recipient, keccak256(_payload()), sender, nonce));
        bytes memory data = abi.encode(messageId, nonce, sender, _recipient, _payload());
        vm.prank(_inbound[number]);
        _destination.receiveMessage(HERE, data);
        return _executionGas(abi.encodeCall(_destination.receiveMessage, (HERE, data)));
    }

    function _over(uint8 gmps)
        private
        pure
        returns (address[] memory adapters, IGlacisRouter.CrossChainGas[] memory fees)
    {
        adapters = new address[](gmps);
        fees = new IGlacisRouter.CrossChainGas[](gmps);
        for (uint8 index; index < gmps; ++index) {
            adapters[index] = address(uint160(index + 1));
        }
    }

    function _payload() private pure returns (bytes memory) {
        return abi.encode(uint256(0x5a));
    }
}
