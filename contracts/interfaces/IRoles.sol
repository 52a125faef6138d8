// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice The roles that may change a router's configuration. The owner may do everything but renounce its role.
interface IRoles {
    event RevokerSet(address indexed revoker);
    event GuardianSet(address indexed guardian);
    event TripwireSet(address indexed tripwire);

    error NotRevoker(address caller);
    error NotGuardian(address caller);

    /// @notice Lets `account` only revoke adapters and peers and raise floors; zero: only the owner may.
    function setRevoker(address account) external;

    /// @notice Lets `account` only begin pauses and end its own; zero: only the owner may. A new guardian is not bound by the
    ///         period of its predecessor.
    function setGuardian(address account) external;

    /// @notice Lets `account` only begin short pauses of GMPs ({IPauses-pauseGmp}); zero: only owner and guardian may. An account
    ///         that is assigned for the first time has the full allowance.
    function setTripwire(address account) external;

    function revoker() external view returns (address);

    function guardian() external view returns (address);

    function tripwire() external view returns (address);
}
