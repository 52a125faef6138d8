// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice The roles that may change a router's configuration. The owner may do everything but renounce its role.
interface IRoles {
    event RevokerSet(address indexed revoker);
    event GuardianSet(address indexed guardian);
    event TripwireSet(address indexed tripwire);

    /// @notice Only the revoker or the owner may call this.
    error NotRevoker(address caller);
    /// @notice Only the guardian or the owner may call this.
    error NotGuardian(address caller);

    /// @notice Sets the account that may revoke adapters and peers and raise floors, and nothing else; zero leaves this to the
    ///         owner.
    function setRevoker(address account) external;

    /// @notice Sets the account that may begin pauses and end its own, and nothing else; zero leaves this to the owner. A new
    ///         guardian is not bound by the period of its predecessor.
    function setGuardian(address account) external;

    /// @notice Sets the account that may begin short pauses of GMPs ({IPauses-pauseGmp}), and nothing else; zero leaves this to
    ///         owner and guardian. An account that is assigned for the first time has the full allowance.
    function setTripwire(address account) external;

    function revoker() external view returns (address);

    function guardian() external view returns (address);

    function tripwire() external view returns (address);
}
