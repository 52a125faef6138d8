// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786GatewaySource} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {Vm} from "forge-std/Vm.sol";

import {GatewayConformance} from "../../../contracts/conformance/GatewayConformance.sol";
import {IAttributes} from "../../../contracts/interfaces/IProfiles.sol";
import {Kind, Message} from "../../../contracts/types/Message.sol";
import {GatewayChains} from "../erc7786/GatewayChains.sol";

/// @notice The router as any other ERC-7786 gateway. Anyone pays for what was sent; the message then travels over two GMPs.
contract WaybillGatewayTest is GatewayConformance, GatewayChains {
    function setUp() public override {
        super.setUp();
        vm.chainId(ALPHA);
    }

    function _gateway() internal view override returns (IERC7786GatewaySource) {
        return routers[ALPHA];
    }

    function _destinationChain() internal pure override returns (uint256) {
        return BETA;
    }

    function _deliver(Vm.Log[] memory logs) internal override {
        _payAndDeliver(_unfundedIn(logs));
        vm.chainId(ALPHA);
    }

    /// @dev Over each GMP, and by hand.
    function _deliverAgain(Vm.Log[] memory logs) internal override {
        Message memory message = _unfundedIn(logs);
        for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
            try this.bring(message, gmp) {} catch {}
        }
        _execute(message);
    }

    function bring(Message memory message, uint8 gmp) external {
        _bring(message, gmp);
    }

    function _attributes() internal view override returns (bytes[] memory attributes) {
        attributes = new bytes[](8);
        attributes[0] = abi.encodeCall(IAttributes.gmps, (3));
        attributes[1] = abi.encodeCall(IAttributes.quorum, (2));
        attributes[2] = abi.encodeCall(IAttributes.gasLimit, (200_000));
        attributes[3] = abi.encodeCall(IAttributes.ttl, (1 hours));
        attributes[4] = abi.encodeCall(IAttributes.kind, (uint8(Kind.STATE_SYNC)));
        attributes[5] = abi.encodeCall(IAttributes.retriable, (true));
        attributes[6] = abi.encodeCall(IAttributes.cancellable, (true));
        attributes[7] = abi.encodeCall(IAttributes.minGasLimit, (500_000));
    }

    /// @dev Its GMPs' fees (docs/decisions/0010).
    function _value() internal pure override returns (uint256) {
        return GMPS * FEE;
    }
}
