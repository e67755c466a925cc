import Redis

/// The limits of what Redis stores about activities and devices (R4), and for how long it stores them.
public enum StoreLimits {
    /// The maximum length of a held command's record, in bytes. The record must fit into one reply of Redis. 64 bytes
    /// are left for what the reply has before the record: a verdict, a time and a version.
    public static let heldCommandBytesMax = ReplyReader.stringBytesMax - 64
    /// The maximum number of starts that Redis holds for one device and attributes type, at most one for each activity:
    /// their records together have at most 1 MiB. If so many are held, the start of a further activity replaces the
    /// oldest one that has expired. If none has expired, the new start fails at once (`heldStartsFull`).
    public static let heldStartsMax = 8
    /// The maximum number of a member's unconfirmed departures: audiences that the member left, but whose pages may
    /// still list it. With sixteen, all eight audiences of a member can change twice. A registration that would exceed
    /// the number gets the reply `full` with the departures. The worker confirms them, and makes the registration
    /// again.
    ///
    /// An unregistration, a retired token or an accepted end may exceed the number, because these only remove the
    /// member from its audiences.
    public static let unconfirmedDeparturesMax = 16
    /// The maximum length of a token, in bytes. A token from a record is always shorter, because it has at most 200
    /// digits (`tokenDigitsMax`).
    public static let tokenBytesMax = 256
    /// The maximum length of an attributes type, in bytes. An attributes type in a record is never longer
    /// (`identifierBytesMax`).
    public static let attributesTypeBytesMax = 256
    /// How long Redis stores an activity after the last write that renewed the expiry of its key (`admit.lua` lists
    /// these writes). A Live Activity can stay on the Lock Screen for 12 hours, and its value is stored for twice this
    /// time. One more hour is added, because only the first push in each 1,000 seconds renews the expiry.
    public static let activityExpiryMilliseconds: Int64 = 25 * 3_600_000
    /// The largest factor by which the delay before the next claim of a life grows. A worker that has claimed a life
    /// writes a command that ends or restarts the activity. When a worker reads this command, it delays the next claim,
    /// so that no second command is written meanwhile. The factor doubles with each claim: 1, 2, 4, 8.
    public static let claimDelayFactorMax: Int64 = 8
    /// How often workers may claim a life while another end of its activity, such as a producer's, is admitted but not
    /// settled. Normally the settlement of that end removes the life from its timetable. After so many claims, that end
    /// seems to be lost, and the script `lifetime` removes the life.
    public static let claimsDuringAnotherEndMax: Int64 = 4
    /// How long Redis stores a device after its hash was last changed by a registration, an unregistration, a hold or a
    /// ``StoreCall/Operation/takeStartToken(attributesType:startBudget:registration:)``: 90 days. The time is long,
    /// because a push-to-start token is valid as long as the app is installed.
    public static let deviceExpiryMilliseconds: Int64 = 90 * 24 * 3_600_000
    /// For how many seconds after an activity's beginning Redis admits updates: eight hours, because the system then
    /// ends the activity (Apple, "ActivityKit"). A push may reach the phone later, because the lane may have to retry
    /// the push of an update that was admitted in time.
    public static let updatePeriodSeconds: Int64 = 8 * 3_600
    /// How often 429s may double a spacing. More doublings have no effect: 1 ms, doubled 22 times, is more than an
    /// hour, and no spacing is longer than an hour.
    public static let spacingDoublingsMax = 22
}
