import LiveActivity

/// What only a registration has (`RecordKind.registration`), from its receipt on. The token is in `RecordSlot.token`.
/// If the token releases a held command, the slot becomes the slot of that command, and `audienceDigests` and
/// `wasHeldStart` are cleared.
struct RecordRegistration: BitwiseCopyable {
    /// The digests of the audiences that the registration names.
    var audienceDigests = BlockRange()
    /// The version that the app already displays; nil: the registration does not say.
    var shownVersion: Version?
    /// Whether frequent updates are switched on; nil: the registration does not say.
    var allowsFrequentUpdates: Bool?
    /// Whether the device's activities may begin on a broadcast channel.
    var supportsChannels = false
    /// Whether this registration notifies no audiences: either all are notified already, or the record registers its
    /// token only to get a held command.
    var skipsMembershipChange = false
    /// Whether the record was a held start that is finished, and has become a registration again. It then registers the
    /// token again, to get the device's next held start.
    var wasHeldStart = false
}
