import LiveActivity

/// How a record ends, and what must happen before its offset is settled. Commands and invalid records have an outcome.
/// A registration has none, unless its token releases a held command: it then gets the outcome of that command.
/// Tombstones have none.
struct RecordEnding: BitwiseCopyable {
    /// The number of superseded commands that this command's result must count.
    var supersededCount = SupersededCount()
    private(set) var outstandingAcknowledgementCount: UInt16 = 0
    /// The command's outcome. The value has no meaning before the stage `finished`.
    var outcome: Outcome = .failed
    /// How Redis must settle the command; nil: not at all, usually because Redis did not admit it.
    var settlement: Settlement?
    var followUps: FollowUps = []
    /// How many results this record had before that of its present command. A record has a result for its own command,
    /// and one for each held command that its token releases.
    var earlierResultCount: UInt8 = 0
    /// Whether the commit's metadata must not name this record as settled (R10): another record of this lane has taken
    /// over its token, or the held command that the token released. Until the other record is settled, only this
    /// worker's memory has the token or the command. If the worker dies, the next owner must read both records again.
    var isLeftOutOfMetadata = false

    /// Notes that one more call, outgoing record or change of audiences must be acknowledged.
    mutating func expectAcknowledgement() { outstandingAcknowledgementCount += 1 }

    /// Notes that a call, an outgoing record or a change of audiences is acknowledged. After the last acknowledgement,
    /// the slot may be freed. (R8)
    mutating func acknowledge() {
        precondition(outstandingAcknowledgementCount > 0)
        outstandingAcknowledgementCount -= 1
    }

    @inline(__always) var isAcknowledged: Bool { outstandingAcknowledgementCount == 0 }
}

/// What the lane does for a record after its result and its calls are acknowledged, in this order:
/// `reportLifetimeEvent`, `removeHeldStart`, `registerToken`. Then the record settles. `registerToken` is last, because
/// it turns the record from a command into a registration, and the other two need the command.
struct FollowUps: OptionSet, BitwiseCopyable {
    let rawValue: UInt8

    /// Removes a finished held start from Redis. If the start were removed before the acknowledgement of the result, a
    /// crash could lose the result: the next reader of the registration would not get the start from Redis.
    static let removeHeldStart = FollowUps(rawValue: 1)
    /// Registers the record's token, because Redis may hold commands for it.
    static let registerToken = FollowUps(rawValue: 2)
    /// Reports to the timetable that a life has ended, or that `LifetimeKeeper` must not make its restart again. The
    /// timetable then usually removes the life. So the result must be acknowledged before: after a crash, the next
    /// owner would read the command again, find no life, and report wrongly that the command ended nothing.
    static let reportLifetimeEvent = FollowUps(rawValue: 4)
}
