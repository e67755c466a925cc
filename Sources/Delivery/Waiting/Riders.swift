import LiveActivity

/// Which older command's alert a record carries, and which newer command carries the record's own.
struct RiderLink: BitwiseCopyable {
    /// The older command whose alert this one carries; its outcome comes with this one's. `.max`: none.
    fileprivate(set) var rider: UInt32 = .max
    /// The newer command that carries this one's alert. `.max`: none.
    fileprivate(set) var carrier: UInt32 = .max
}

extension Records {
    /// A record has one rider at the most, and a rider has none and waits in no list.
    mutating func setRider(of carrier: UInt32, to rider: UInt32) {
        precondition(self[carrier].riderLink.rider == .max && self[rider].riderLink.rider == .max)
        enter(.riding, rider)
        self[carrier].riderLink.rider = rider
        self[rider].riderLink.carrier = carrier
    }

    /// The rider stays in its stage until the caller has decided, in the same call.
    mutating func removeRider(of carrier: UInt32) -> UInt32? {
        let rider = self[carrier].riderLink.rider
        guard rider != .max else { return nil }
        self[carrier].riderLink.rider = .max
        self[rider].riderLink.carrier = .max
        return rider
    }

    /// The version of the command whose alert a state has: its own, its rider's, or that of a command whose alert was put into its body.
    /// nil: it has none. A command that was held with an alert counts as that alert's own command, since Redis keeps no other version.
    @inline(__always)
    func alertVersion(of record: UInt32) -> Version? {
        let slot = address(of: record)
        let rider = slot.pointee.rider
        return rider == .max ? slot.pointee.bodyAlertVersion : address(of: rider).pointee.bodyAlertVersion
    }

    /// Completes the body of a command whose turn has come: with the alert that it carries, and with a digest.
    mutating func completeBody(of record: UInt32) {
        guard self[record].digest == nil else { return }
        let rider = self[record].rider
        if rider != .max, let version = alertVersion(of: rider) {
            write(self[rider].alert, of: version, intoBodyOf: record)
            self[record].priority = max(self[record].priority, self[rider].priority)
        }
        self[record].digest = Body.digest(self[record].body.bytes, self[record].layout)
    }
}

/// A command of an activity with an alert that was overtaken by one that another worker admitted: it waits for that one to be read here,
/// to ride on with it, for so long.
struct RiderAwaitingCarrier: BitwiseCopyable {
    /// `.max`: none.
    private(set) var record: UInt32 = .max
    private(set) var untilMilliseconds: Int64 = 0

    init() {}

    init(record: UInt32, untilMilliseconds: Int64) {
        self.record = record
        self.untilMilliseconds = untilMilliseconds
    }

    var isNone: Bool { record == .max }

    func isOverdue(now: Moment) -> Bool { !isNone && untilMilliseconds <= now.monotonicMilliseconds }

    mutating func take() -> UInt32 {
        precondition(!isNone)
        defer { record = .max }
        return record
    }
}
