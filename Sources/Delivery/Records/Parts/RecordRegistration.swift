import LiveActivity

/// What only a registration has (`RecordKind.registration`), from its receipt on. The token is in `RecordSlot.token`. A
/// command that was held for the token, and continues in the registration's record, keeps what concerns the token.
struct RecordRegistration: BitwiseCopyable {
    /// The digests of the audiences that the registration names.
    var audiences = BlockRange()
    /// The version that the app already displays; nil: the registration does not say.
    var shownVersion: Version?
    /// Whether frequent updates are switched on; nil: the registration does not say.
    var allowsFrequentUpdates: Bool?
    /// Whether the device's activities may begin on a broadcast channel.
    var supportsChannels = false
    /// Whether this registration notifies no audience: all have been notified, or the record registers a token again
    /// only to get a held command.
    var needsNoMembershipChange = false
    /// Whether this registration follows a held start that its record has just finished. It registers the token again,
    /// so that Redis releases the next held start.
    var followsHeldStart = false
}
