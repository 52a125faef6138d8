// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Who may change a router's configuration. The owner may do everything but renounce its role.
interface IRoles {
    event RevokerSet(address indexed revoker);
    event GuardianSet(address indexed guardian);
    event TripwireSet(address indexed tripwire);

    error NotRevoker(address caller);
    error NotGuardian(address caller);

    /// @notice Lets `account` revoke adapters and peers and raise floors, and nothing else; zero: only the owner may.
    function setRevoker(address account) external;

    /// @notice Lets `account` begin pauses and end its own, and nothing else; zero: only the owner may. A new guardian need not
    ///         rest for what another one paused.
    function setGuardian(address account) external;

    /// @notice Lets `account` begin short pauses of GMPs ({IPauses-pauseGmp}) and nothing else; zero: nobody may but owner and
    ///         guardian. An account that is named for the first time has its whole allowance.
    function setTripwire(address account) external;

    function revoker() external view returns (address);

    function guardian() external view returns (address);

    function tripwire() external view returns (address);
}
