import LiveActivity

/// A fan-out record: one version of an audience in one range.
struct VersionSlot: BitwiseCopyable {
    enum Stage: UInt8, BitwiseCopyable {
        /// Waits for its round's claim, or for the newer versions that the last owner had under way.
        case received
        /// Its window is open.
        case underWay
        /// All members of its window have their outcomes. Its counts wait for a checkpoint: whoever takes over after a crash tells the same.
        case counted
        /// The store adds its counts, and its result is written.
        case finishing
        /// Recorded; it settles when the versions before it have.
        case finished
    }

    var round: UInt32
    /// The next newer version of the round.
    var next: UInt32 = .max
    var stage = Stage.received
    /// Older than the round's newest when it came, and nothing is known of it: it is finished by itself.
    var isLate = false
    var partition: UInt32
    var epoch: UInt32
    var offset: Int64
    /// UNIX milliseconds.
    var receivedMilliseconds: Int64
    var order: FanoutOrder
    var version: Version
    var event: Event
    var policy: UInt8
    var expiration: Int64
    var staleDate: Int64
    // Of a start: what the single starts say.
    var priority: UInt8
    var policyName: HeapBytes
    var activityTemplate: HeapBytes
    /// Of a start to an audience with channels: Apple's dictionary, which an address completes. None: starts go out as they came.
    var openDictionary = HeapBytes.none
    /// Of the alert that is its own or came with its command, or that is carried for an older version.
    var alertVersion: Version
    var identifier: HeapBytes
    var trace: HeapBytes
    /// As it is sent, with its own alert if it has one.
    var body: HeapBytes
    var layout: Body.Layout
    /// With its own alert: without it. Without one: with the alert of an older version, for members below `alertEnd`.
    var otherBody = HeapBytes.none
    /// The carried alert in it.
    var otherAlert = ByteRange.absent
    /// Where the alert that this version carries for an older one is heard: the older one's window.
    var alertStart: UInt64 = 0
    var alertEnd: UInt64 = 0
    var alertSeconds: Int64

    /// Its window.
    var start: UInt64 = 0
    var end: UInt64 = 0
    var counts = MemberCounts()
    var times = RoundTimes()
    var totals = MemberCounts()
    var totalTimes = RoundTimes()
    /// With the totals: what became of the broadcasts.
    var broadcasts = MemberCounts()
    var hasTotals = false
    /// The round's revision when it was counted.
    var countedRevision: UInt64 = 0
    /// Calls and productions that are not acknowledged.
    var outstanding: UInt8 = 0

    /// Overwritten by a newer version before anything was sent under it, or closed before its window was over.
    var isOvertaken = false

    var hasAlert: Bool { !layout.alert.isAbsent }
    var carriesAlert: Bool { alertEnd > 0 }
    func carriesAlert(to position: UInt64) -> Bool { position >= alertStart && position < alertEnd }
    func covers(_ position: UInt64) -> Bool { position >= start && position < end }

    /// Its round is claimed again, and knows nothing of it.
    mutating func receiveAgain(alertSeconds: Int64) {
        stage = .received
        otherBody.free()
        otherBody = .none
        otherAlert = .absent
        (alertStart, alertEnd) = (0, 0)
        alertVersion = order.alertVersion ?? version
        self.alertSeconds = alertSeconds
        (start, end) = (0, 0)
        counts = MemberCounts()
        times = RoundTimes()
        isOvertaken = false
    }

    var heldBytes: Int {
        MemoryLayout<Self>.size + body.count + otherBody.count + identifier.count + trace.count + policyName.count
            + activityTemplate.count + openDictionary.count
    }

    func freeBytes() {
        for bytes in [policyName, activityTemplate, openDictionary, identifier, trace, body, otherBody] { bytes.free() }
    }
}
