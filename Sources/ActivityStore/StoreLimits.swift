import Redis

/// The limits of the values in the store. (R4)
public enum StoreLimits {
    /// The maximum length of a held command's record, in bytes. The record must fit into one reply of Redis.
    public static let heldCommandBytesMax = ReplyReader.stringBytesMax - 64
    /// The maximum number of starts that Redis holds for one device and attributes type, one for each activity.
    /// A start of a further activity fails at once (`heldStartsFull`).
    public static let heldStartsMax = 8
    /// The maximum number of a member's departures that no worker has confirmed: the pages of the audiences that it
    /// left may still list it. Sixteen, because then all eight audiences of a member can change twice. If a
    /// registration would exceed the number, its reply is `full`, and the worker makes the registration again later.
    ///
    /// An unregistration, a retired token or an accepted end may exceed the number. These three need no limit, because
    /// they only remove the member from audiences that it is in.
    public static let unconfirmedDeparturesMax = 16
    /// The maximum length of a token, in bytes. A token from a record is always shorter, because it has at most 200
    /// digits (`tokenDigitsMax`).
    public static let tokenBytesMax = 256
    /// The maximum length of an attributes type, in bytes. An attributes type in a record is never longer
    /// (`identifierBytesMax`).
    public static let attributesTypeBytesMax = 256
    /// How long Redis stores an activity after the last write that renewed the expiry of its key (`admit.lua` lists
    /// these writes): twice the 12 hours for which a Live Activity can stay on the Lock Screen, plus an hour, because
    /// only the first send verdict in each 1,000 seconds renews the expiry.
    public static let activityExpiryMilliseconds: Int64 = 25 * 3_600_000
    /// The limit of the factor by which Redis delays the next claim of a life. Each claim writes a command to Kafka
    /// that ends or restarts the activity. When a worker reads this command, Redis delays the next claim, so that no
    /// further command is written meanwhile. The factor doubles with each claim: 1, 2, 4, up to this limit.
    public static let claimDelayFactorMax: Int64 = 8
    /// How many claims of a due life the script `lifetime` permits while another end of the activity, such as a
    /// producer's, is admitted but not settled. Normally the settlement of that end removes the life. After this many
    /// claims that end seems to be lost, and the script removes the life.
    public static let claimsDuringAnotherEndMax: Int64 = 4
    /// How long Redis stores a device after the last registration, unregistration, hold or
    /// ``StoreCall/Operation/takeStartToken(attributesType:startBudget:registration:)`` that changed its hash: 90 days.
    /// The time is long, because a push-to-start token is valid as long as the app is installed.
    public static let deviceExpiryMilliseconds: Int64 = 90 * 24 * 3_600_000
    /// How many seconds after an activity's beginning Redis admits updates: eight hours, because the system
    /// then ends the activity (Apple, "ActivityKit"). An update that was admitted in time may reach the phone
    /// later than that, because the lane may have to retry its push.
    public static let updatePeriodSeconds: Int64 = 8 * 3_600
    /// The maximum number of doublings of a spacing. Even a spacing of 1 ms, doubled 22 times, is more than an
    /// hour, the longest spacing.
    public static let spacingDoublingsMax = 22
}
