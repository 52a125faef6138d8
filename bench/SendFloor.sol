// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice The least that a router's sending half can cost: `route` and `retryRoute` in straight assembly, on a router's own state.
///         tests/solidity/gas/SendFloor.t.sol puts it in a router's place, and shows that it does the same. {RouterGas} measures it.
/// @dev What it keeps: the guard, every check of the calldata, of the message and of its lane, nonce, total and id, the sender's
///      slot, both events, adapters at computed addresses, their gas, their failures, refunds and credits, and the sum of the fees.
///      What it gives up:
///      - errors that say why: what is refused reverts without data, and a GMP without an adapter fails without a reason;
///      - everything else that a router does, and so the search for the function that is called;
///      - on the day of a pause, or past a message's time, the closer look; it refuses what a router may still take.
///
///      Memory: the preimage of the id is at 0x80, with the members as {Message} has them from 0xc0 on. The adapter's call begins at
///      0x29c, behind the number of the attempt. The refundee is at 0x320, an envelope's length at 0x340, the envelope at 0x360.
contract SendFloor {
    // ---- where a router keeps things (snapshots/storage.json)

    uint256 private constant TABLE = 4;
    uint256 private constant SLOTS = 5;
    uint256 private constant LANES = 7;
    uint256 private constant SENT = 13;
    uint256 private constant RETRIERS = 14;
    uint256 private constant CREDITS = 15;

    // ---- what the functions, events and structs are known by

    uint256 private constant ROUTE = 0x4f19459b;
    uint256 private constant ROUTE_BATCH = 0x4f7d2a66;
    uint256 private constant RETRY_ROUTE = 0xb0bf01e0;
    uint256 private constant DISPATCH = 0xaa64b274;
    bytes32 private constant MESSAGE = 0x3407c319d24c7ef5e32925180811e7d7954e0df1777077025c53fa8266dfeff1;
    bytes32 private constant CREATED = 0xb2590cd2fe1abc74ead0f9b0fb0ff5027386ef378abef94682df485e4b27a4dd;
    bytes32 private constant ROUTED = 0x8c30f2a0c4f0cded7e229f7cb32b41d14609d507f475ba9afdd6d7fbdf64d346;
    bytes32 private constant RETRIED = 0x2bb810dde14f1592ae951fc8707a75c2df26cc11588dc40a3953aceae1df5180;
    bytes32 private constant FAILED = 0x7133c31e22b2482f37244eb2c660a3b8c26cfb75d8f89720a4b67cb6331a32da;
    bytes32 private constant CREDITED = 0x9c9e0cdb1670e88302408e5b941dc636f63a3293204694bb68910fcf3d9305f3;
    bytes32 private constant CREATE3_PROXY = 0x57a34f6e879358dd76825d6700df87013ad6a3fb43c0d0c602f70a8772c153bd;

    fallback() external payable {
        assembly {
            // The memory is the assembly's alone, down to 0x00: Solidity gets nothing back.
            if tload(0) { revert(0, 0) }
            tstore(0, 1)
            let selector := shr(224, calldataload(0))
            if eq(selector, ROUTE) { send(1, 0x04) }
            if eq(selector, RETRY_ROUTE) { sendAgain() }
            if iszero(eq(selector, ROUTE_BATCH)) { revert(0, 0) }
            if iszero(calldataload(0x04)) { revert(0, 0) }
            send(calldataload(0x04), 0x24)

            // `count` times the request whose offset is at `argument`: each with a nonce, an id and both events of its own, and
            // one call to each GMP with all of them.
            function send(count, argument) {
                let request := calldataload(argument)
                let bad := shr(64, request)
                request := add(0x04, request)
                let gmps := calldataload(add(request, 0x140))
                let payload := calldataload(add(request, 0x40))
                bad := or(bad, or(shr(64, or(gmps, payload)), gt(add(request, 0x180), calldatasize())))

                // The message.
                mstore(0x80, MESSAGE)
                mstore(0xa0, 1)
                mstore(0xc0, chainid())
                mstore(0xe0, address())
                mstore(0x100, caller())
                let chain := calldataload(request)
                mstore(0x140, chain)
                bad := or(bad, or(shr(64, chain), eq(chain, chainid())))
                {
                    let recipient := calldataload(add(request, 0x20))
                    mstore(0x180, recipient)
                    bad := or(bad, or(iszero(recipient), shr(160, recipient)))
                    let gasLimit := calldataload(add(request, 0x60))
                    mstore(0x1a0, gasLimit)
                    bad := or(bad, gt(gasLimit, 14000000))
                }
                mstore(0x1c0, timestamp())
                calldatacopy(0x1e0, add(request, 0x80), 0x80) // ttl, kind, quorum, replaces
                {
                    let ttl := mload(0x1e0)
                    let kind := mload(0x200)
                    bad := or(bad, or(shr(32, ttl), gt(kind, 10)))
                    switch ttl
                    case 0 { bad := or(bad, and(gt(kind, 0), iszero(eq(kind, 3)))) }
                    default { bad := or(bad, or(eq(kind, 3), lt(ttl, 60))) }
                }

                // The arguments.
                gmps := add(request, gmps)
                let required := calldataload(add(request, 0x120))
                let retriable := calldataload(add(request, 0x100))
                {
                    let named := calldataload(gmps)
                    let quorum := mload(0x220)
                    bad := or(bad, or(gt(sub(named, 1), 15), gt(required, named)))
                    bad := or(bad, or(iszero(quorum), gt(quorum, named)))
                    if iszero(required) { required := named }
                    bad := or(bad, or(gt(retriable, 1), gt(quorum, or(required, shl(4, retriable)))))
                    let refundTo := calldataload(add(request, 0x160))
                    mstore(0x320, refundTo)
                    bad := or(bad, or(iszero(refundTo), shr(160, refundTo)))
                }

                // The payload, in its place in the envelope.
                payload := add(request, payload)
                let length := calldataload(payload)
                bad := or(bad, gt(length, 32768))
                payload := add(payload, 0x20)
                if or(bad, gt(add(payload, length), calldatasize())) { revert(0, 0) }
                calldatacopy(0x44f, payload, length)
                mstore(add(0x44f, length), 0)
                mstore(0x260, keccak256(0x44f, length))
                length := add(length, 239)

                // The lane and the table.
                mstore(0x00, chain)
                mstore(0x20, LANES)
                payload := keccak256(0x00, 0x40) // the lane's slot
                let lane := sload(payload)
                mstore(0x160, shr(96, shl(96, lane)))
                if iszero(mload(0x160)) { revert(0, 0) }

                // The messages.
                let stride := and(add(length, 0x1f), not(0x1f))
                let at := 0x360
                for { let end := add(0x360, mul(stride, count)) } lt(at, end) { at := add(at, stride) } {
                    let nonce := add(and(shr(168, lane), 0xffffffffff), 1)
                    mstore(0x120, nonce)
                    let id := keccak256(0x80, 0x200)
                    lane := add(lane, or(shl(168, 1), shl(208, and(id, 0xffffffff))))
                    lane := and(lane, 0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff)
                    mstore(0x00, nonce)
                    log3(0x00, 0x20, CREATED, id, caller())
                    if retriable {
                        mstore(0x00, id)
                        mstore(0x20, SENT)
                        sstore(keccak256(0x00, 0x40), or(caller(), shl(208, 1)))
                    }
                    switch at
                    case 0x360 { pack(id) }
                    default {
                        mcopy(at, 0x360, stride)
                        mstore(add(at, 1), id)
                        mstore(add(at, 105), or(shl(192, nonce), or(shl(128, chain), shr(128, mload(0x160)))))
                    }
                }
                sstore(payload, lane)

                // The GMPs.
                payload := sload(TABLE)
                mstore(0x340, sub(at, add(0x360, sub(stride, length))))
                gmps := dispatch(gmps, payload, required, 0)

                // The events.
                for { let each := 0x360 } lt(each, at) { each := add(each, stride) } {
                    mstore(sub(each, 0x80), retriable)
                    mstore(sub(each, 0x60), gmps)
                    mstore(sub(each, 0x40), 0x60)
                    mstore(sub(each, 0x20), length)
                    log3(sub(each, 0x80), add(stride, 0x80), ROUTED, mload(add(each, 1)), chain)
                }
                tstore(0, 0)
                mstore(0x00, mload(add(sub(at, stride), 1)))
                return(0x00, 0x20)
            }

            function sendAgain() {
                let request := calldataload(0x04)
                let bad := shr(64, request)
                request := add(0x04, request)
                let source := calldataload(add(request, 0x20))
                let gmps := calldataload(add(request, 0x60))
                bad := or(bad, or(shr(64, or(source, gmps)), gt(add(request, 0xa0), calldatasize())))
                source := add(request, source)
                gmps := add(request, gmps)
                bad := or(bad, gt(add(source, 0x1c0), calldatasize()))

                // The message.
                mstore(0x80, MESSAGE)
                mstore(0xa0, 1)
                calldatacopy(0xc0, source, 0x1a0)
                bad := or(
                    bad,
                    shr(64, or(or(mload(0xc0), mload(0x120)), or(mload(0x140), or(mload(0x1a0), mload(0x1c0)))))
                )
                bad := or(bad, or(shr(32, mload(0x1e0)), or(gt(mload(0x200), 12), shr(8, mload(0x220)))))
                bad := or(bad, xor(mload(0xc0), chainid()))
                let length := calldataload(add(source, 0x1a0))
                bad := or(bad, shr(64, length))
                source := add(source, length)
                length := calldataload(source)
                bad := or(bad, shr(64, length))
                source := add(source, 0x20)
                if or(bad, gt(add(source, length), calldatasize())) { revert(0, 0) }
                calldatacopy(0x44f, source, length)
                mstore(add(0x44f, length), 0)
                mstore(0x260, keccak256(0x44f, length))
                mstore(0x340, add(length, 239))
                let id := keccak256(0x80, 0x200)
                bad := xor(id, calldataload(request))

                // What is kept of it.
                mstore(0x00, id)
                mstore(0x20, SENT)
                let slot := keccak256(0x00, 0x40)
                let sent := sload(slot)
                bad := or(bad, xor(1, shr(208, sent))) // retriable, funded, not cancelled
                if xor(caller(), shr(96, shl(96, sent))) {
                    mstore(0x00, shr(96, shl(96, sent)))
                    mstore(0x20, RETRIERS)
                    if xor(caller(), sload(keccak256(0x00, 0x40))) { bad := or(bad, xor(mload(0x200), 12)) }
                }
                if mload(0x1e0) { bad := or(bad, gt(timestamp(), add(mload(0x1c0), mload(0x1e0)))) }

                // The arguments.
                let required := calldataload(add(request, 0x40))
                {
                    let named := calldataload(gmps)
                    bad := or(bad, or(gt(sub(named, 1), 15), gt(required, named)))
                    if iszero(required) { required := named }
                    let refundTo := calldataload(add(request, 0x80))
                    mstore(0x320, refundTo)
                    bad := or(bad, or(iszero(refundTo), shr(160, refundTo)))
                }
                if bad { revert(0, 0) }

                sent := add(sent, shl(160, 1))
                sstore(slot, sent)
                sent := and(shr(160, sent), 0xffffffff)
                pack(id)
                let took := dispatch(gmps, sload(TABLE), required, sent)
                mstore(0x00, sent)
                mstore(0x20, took)
                log3(0x00, 0x40, RETRIED, id, mload(0x140))
                tstore(0, 0)
                return(0x00, 0x20)
            }

            // The envelope of the message in the preimage, but for the payload, which is there.
            function pack(id) {
                mstore8(0x360, 1)
                mstore(0x361, id)
                mstore(0x381, shl(192, mload(0xc0))) // sourceChain
                mcopy(0x389, 0xe0, 0x40) // sourceRouter, sender
                mstore(0x3c9, or(shl(192, mload(0x120)), shl(128, mload(0x140)))) // nonce, destinationChain
                mcopy(0x3d9, 0x160, 0x40) // destinationRouter, recipient
                mcopy(0x42f, 0x240, 0x20) // replaces
                // gasLimit, sentAt, ttl, kind, quorum
                let numbers := or(shl(112, mload(0x1a0)), shl(48, mload(0x1c0)))
                numbers := or(numbers, or(shl(16, mload(0x1e0)), or(shl(8, mload(0x200)), mload(0x220))))
                // The ten bytes before are the recipient's last.
                mstore(0x40f, or(shl(176, mload(0x180)), numbers))
            }

            // Hands what is in memory to each GMP.
            function dispatch(gmps, table, required, attempt) -> took {
                let length := add(0xc4, and(add(mload(0x340), 0x1f), not(0x1f)))
                {
                    let day := div(timestamp(), 86400)
                    let bad := iszero(gt(day, and(shr(184, table), 0xffff))) // a lane may be closed
                    if iszero(gt(day, and(shr(168, table), 0xffff))) {
                        bad := or(bad, and(shr(16, table), 0xffff))
                    }
                    if bad { revert(0, 0) }
                }
                mstore(0x280, or(shl(32, attempt), DISPATCH))
                mstore(0x2a0, mload(0x140))
                mstore(0x2c0, mload(0x160))
                mstore(0x2e0, 0xa0)
                mstore(0x300, mload(0x1a0))
                let end := calldataload(gmps)
                gmps := add(gmps, 0x20)
                end := add(gmps, shl(6, end))
                if gt(end, calldatasize()) { revert(0, 0) }
                // The preimage of each adapter's creator, but for its salt.
                mstore(0x00, or(shl(248, 0xff), shl(88, address())))
                mstore(0x35, CREATE3_PROXY)
                let named := 0
                let fees := 0
                let refund := 0
                for {} lt(gmps, end) { gmps := add(gmps, 0x40) } {
                    let gmp := calldataload(gmps)
                    let fee := calldataload(add(gmps, 0x20))
                    fees := add(fees, fee)
                    let one := shl(sub(gmp, 1), 1)
                    if or(or(gt(sub(gmp, 1), 15), and(named, one)), lt(fees, fee)) { revert(0, 0) }
                    named := or(named, one)
                    // What a call costs is kept back, and a 64th of the rest.
                    if lt(mul(gas(), 63), add(shl(12, length), 45745000)) { revert(0, 0) }
                    let adapter := adapterOf(table, gmp)
                    if adapter {
                        if call(add(700000, shl(6, length)), adapter, fee, 0x29c, length, 0, 0) {
                            took := or(took, one)
                            continue
                        }
                    }
                    refund := add(refund, fee)
                    fail(gmp, adapter, add(0x2c0, length))
                }
                if xor(fees, callvalue()) { revert(0, 0) }
                if xor(took, named) { settle(took, required, refund) }
            }

            function adapterOf(table, gmp) -> adapter {
                let creation := and(shr(add(197, mul(3, gmp)), table), 7)
                switch creation
                case 0 {
                    mstore(0x60, gmp)
                    mstore(0x80, SLOTS)
                    let slot := sload(keccak256(0x60, 0x40))
                    if iszero(lt(timestamp(), and(shr(160, slot), 0xffffffffffff))) {
                        adapter := shr(96, shl(96, slot))
                    }
                }
                default {
                    mstore(0x15, or(shl(8, gmp), creation))
                    mstore(0x60, or(shl(168, 0xd694), or(shr(88, shl(96, keccak256(0x00, 0x55))), 1)))
                    adapter := shr(96, shl(96, keccak256(0x69, 0x17)))
                }
            }

            // Tells why an adapter failed, if there is one.
            function fail(gmp, adapter, free) {
                let size := 0
                if adapter { size := returndatasize() }
                if gt(size, 256) { size := 256 }
                mstore(free, shr(32, mload(0x280)))
                mstore(add(free, 0x20), 0x40)
                mstore(add(free, 0x40), size)
                returndatacopy(add(free, 0x60), 0, size)
                mstore(add(free, add(0x60, size)), 0)
                log3(free, add(0x60, and(add(size, 0x1f), not(0x1f))), FAILED, mload(0x361), gmp)
            }

            // Refuses what too few GMPs took, and gives back the others' fees.
            function settle(took, required, refund) {
                for {} took { took := and(took, sub(took, 1)) } { required := sub(required, gt(required, 0)) }
                if required { revert(0, 0) }
                if iszero(refund) { leave }
                let refundTo := mload(0x320)
                if call(gas(), refundTo, refund, 0, 0, 0, 0) { leave }
                mstore(0x60, refundTo)
                mstore(0x80, CREDITS)
                let slot := keccak256(0x60, 0x40)
                let credit := add(sload(slot), refund)
                if lt(credit, refund) { revert(0, 0) }
                sstore(slot, credit)
                mstore(0x60, refund)
                log2(0x60, 0x20, CREDITED, refundTo)
            }
        }
    }
}
