import LiveActivity

/// The link between a carrier and its rider. A carrier is a newer state that carries the alert of an older command, its
/// rider. (R14)
struct RiderLink: BitwiseCopyable {
    /// The older command whose alert this record carries; `.null`: there is none.
    fileprivate(set) var rider = RecordIndex.null
    /// The newer command that carries this record's alert; `.null`: there is none.
    fileprivate(set) var carrier = RecordIndex.null
}

extension Records {
    /// Makes `rider` the rider of `carrier`. A record has one rider at most. A rider has no rider itself, and is in no
    /// waiting list. The body of `carrier` is not complete until it has the alert of `rider`
    /// (`completeBodyWithRiderAlert`).
    mutating func setRider(of carrier: RecordIndex, to rider: RecordIndex) {
        precondition(self[carrier].riderLink.rider == .null && self[rider].riderLink.rider == .null)
        enter(rider, .riding)
        self[carrier].digest = nil
        self[carrier].riderLink.rider = rider
        self[rider].riderLink.carrier = carrier
    }

    /// Unlinks and returns the rider of `carrier`; nil: it has none. The rider keeps the stage `riding`, so the caller
    /// must give it another stage at once.
    mutating func removeRider(of carrier: RecordIndex) -> RecordIndex? {
        let rider = self[carrier].riderLink.rider
        guard rider != .null else { return nil }
        self[carrier].riderLink.rider = .null
        self[rider].riderLink.carrier = .null
        return rider
    }

    /// Unlinks the rider of `carrier` as `removeRider` does; the caller already knows the rider.
    @inline(__always) mutating func unlinkRider(of carrier: RecordIndex) { _ = removeRider(of: carrier) }

    /// Returns the record that brings the alert of `record`: the rider of `record` or, if there is none, `record`
    /// itself, which may have no alert.
    @inline(__always)
    func alertSource(of record: RecordIndex) -> RecordIndex {
        let rider = address(of: record).pointee.rider
        return rider == .null ? record : rider
    }

    /// Returns the version of the command whose alert `record` has: its own version, or that of an older command whose
    /// alert it carries. Nil if `record` has no alert. Nil for a start too: no other command carries its alert.
    @inline(__always)
    func alertVersion(of record: RecordIndex) -> Version? {
        address(of: alertSource(of: record)).pointee.bodyAlertVersion
    }

    /// Completes the body of a command: writes its rider's alert into the body, if it has a rider, and sets the digest.
    /// Does nothing if the body is complete. Usually called only when the command's turn comes, because most carriers
    /// are replaced earlier.
    mutating func completeBodyWithRiderAlert(of record: RecordIndex) {
        guard !self[record].isBodyComplete else { return }
        let rider = self[record].rider
        if rider != .null, let version = alertVersion(of: rider) {
            write(self[rider].alertJSON, of: version, intoBodyOf: record)
            self[record].priority = max(self[record].priority, self[rider].priority)
        }
        self[record].setDigestFromBody()
    }
}

extension RecordSlot {
    mutating func setDigestFromBody() { digest = PushBody.digest(body.bytes, bodyLayout) }

    /// Whether the body is complete (`Records.completeBodyWithRiderAlert`): it has the alert of the command's rider,
    /// and its digest is set.
    @inline(__always) var isBodyComplete: Bool { digest != nil }

    /// Whether the body fits into a push if an alert of this many bytes replaces its own.
    @inline(__always)
    func hasRoom(forAlertBytes count: Int) -> Bool {
        PushBody.byteCount(body.bytes, bodyLayout, carryingAlertBytes: count) <= Limits.bodyBytesMax
    }

    /// Whether the body has the alert of a command that is not in this lane, for example of a held command.
    @inline(__always) var hasAlertFromRedisOnly: Bool { rider == .null && alert.sourceVersion != nil }
}

/// A command whose alert waits for a carrier, because Redis has a newer command that is not settled. If this lane reads
/// a newer command of the activity, that command carries the alert if it can. The wait can also end in other ways:
/// - At `untilMilliseconds` the command is finished as `superseded`, and its alert is lost.
/// - When a newer command of the activity begins to wait for a carrier, this command is finished as `superseded`: only
///   one can wait.
/// - If the command's partition is revoked, the command is dropped.
struct CommandAwaitingCarrier: BitwiseCopyable {
    /// The command, which is in the stage `awaitingCarrier`; `.null`: none.
    private(set) var record = RecordIndex.null
    /// Until when the command waits, a monotonic time; no meaning if `record` is `.null`.
    private(set) var untilMilliseconds: Int64 = 0

    init() {}

    init(record: RecordIndex, untilMilliseconds: Int64) {
        self.record = record
        self.untilMilliseconds = untilMilliseconds
    }

    var isNone: Bool { record == .null }

    /// Whether a command waits, and has waited until `untilMilliseconds`.
    func isWaitOver(now: Moment) -> Bool { !isNone && untilMilliseconds <= now.monotonicMilliseconds }

    /// Ends the wait and returns the command. The caller must give the command another stage at once.
    mutating func removeRecord() -> RecordIndex {
        precondition(!isNone)
        defer { record = .null }
        return record
    }
}
