// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";

import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Rule} from "./Ghost.sol";
import {Handler} from "./Handler.sol";

/// @dev What the invariants have in common: the actions, chosen at random, and the world that they are played in.
abstract contract Campaign is Test {
    uint8 internal constant ROUTERS = 3;
    uint8 internal constant GMPS = 4;

    Handler internal handler;
    bytes4[] internal selectors;

    function setUp() public {
        handler = new Handler();
        targetContract(address(handler));
        selectors = [
            handler.route.selector,
            handler.route.selector,
            handler.route.selector,
            handler.sendThroughGateway.selector,
            handler.retry.selector,
            handler.fund.selector,
            handler.fund.selector,
            handler.actInACallback.selector,
            handler.askTooMuch.selector,
            handler.cancel.selector,
            handler.report.selector,
            handler.appointRetrier.selector,
            handler.withdraw.selector,
            handler.withdraw.selector,
            handler.changeAccountsMood.selector,
            handler.changeAccountsMood.selector,
            handler.forceEther.selector,
            handler.deliver.selector,
            handler.deliverEverywhere.selector,
            handler.deliverEverywhere.selector,
            handler.deliverEverywhere.selector,
            handler.deliverWithLittleGas.selector,
            handler.breakGmp.selector,
            handler.breakGmp.selector,
            handler.breakGmp.selector,
            handler.lieInventing.selector,
            handler.lieAltering.selector,
            handler.lieUnderTheTrueId.selector,
            handler.lieRepeating.selector,
            handler.lieAboutAnEnd.selector,
            handler.execute.selector,
            handler.expire.selector,
            handler.changeRecipientsMood.selector,
            handler.makeRecipientCallBack.selector,
            handler.replaceAdapter.selector,
            handler.revokeAdapter.selector,
            handler.addAdapter.selector,
            handler.pauseGmp.selector,
            handler.tripGmp.selector,
            handler.endGmpPause.selector,
            handler.pauseLane.selector,
            handler.endLanePause.selector,
            handler.changePeer.selector,
            handler.revokePeer.selector,
            handler.setFloor.selector,
            handler.setPolicy.selector,
            handler.configureAsAStranger.selector,
            handler.warp.selector
        ];
        targetSelector(FuzzSelector(address(handler), selectors));
    }

    function router(uint8 r) internal view returns (IRouter) {
        return handler.routers(r);
    }

    function none(Rule rule) internal view {
        assertEq(handler.violations(rule), 0);
    }
}
