import LiveActivity

/// A fan-out record that is for a channel: one version of an audience, in one environment.
struct BroadcastSlot: BitwiseCopyable {
    enum Stage: UInt8, BitwiseCopyable {
        /// The newest of its channel, until its turn comes.
        case waiting
        /// Its push is on its way.
        case underWay
        /// Superseded, but its alert is carried by another: it ends behind that one.
        case riding
        /// The store counts it, and its result is written.
        case finishing
        /// Recorded; it settles when those before it have.
        case finished
    }

    var channel: UInt32
    /// The record of the same channel that came after it.
    var next: UInt32 = .max
    var stage = Stage.waiting
    /// The broadcast whose alert this one carries.
    var rider: UInt32 = .max
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
    /// Of the alert in the body.
    var alertVersion: Version
    var alertSeconds: Int64
    var identifier: HeapBytes
    var trace: HeapBytes
    var body: HeapBytes
    var layout: Body.Layout

    /// Pushes that came to nothing.
    var attempts: UInt8 = 0
    var outcome = MemberCounts.Outcome.delivered
    /// APNs' last answer.
    var status: UInt16 = 0
    var reason = HeapBytes.none
    var advice: StaticString = ""
    var times = RoundTimes()
    var totals = MemberCounts()
    var broadcasts = MemberCounts()
    var totalTimes = RoundTimes()
    /// Calls and productions that are not acknowledged.
    var outstanding: UInt8 = 0

    var hasAlert: Bool { !layout.alert.isAbsent }
    var heldBytes: Int { MemoryLayout<Self>.size + body.count + identifier.count + trace.count }

    func freeBytes() {
        for bytes in [identifier, trace, body, reason] { bytes.free() }
    }
}

struct BroadcastKey: Hashable {
    var application: UInt16
    var digest: AudienceDigest
    var environment: DeviceEnvironment
}

/// A channel of an audience, while it has broadcasts here, and for some time after the last one.
struct ChannelSlot: BitwiseCopyable {
    enum Phase: UInt8, BitwiseCopyable {
        case running
        /// Its partition is being revoked: what is on its way gets its answer, nothing more is sent.
        case draining
        /// Its partition was released: nothing of it is recorded any more.
        case abandoned
    }

    var key: BroadcastKey
    /// The audience's id, or the channel's if the command has named that.
    var audience: HeapBytes
    /// Commands name it themselves: its producer keeps it.
    var isOwn: Bool
    var partition: UInt32
    var epoch: UInt32
    var phase = Phase.running
    /// As the newest record says, or as the keeper has told since.
    var channel: AudienceChannel

    // Broadcasts, oldest first.
    var oldest: UInt32 = .max
    var newest: UInt32 = .max
    /// The newest state, which is to be sent next.
    var waiting: UInt32 = .max
    /// The one whose push is on its way.
    var current: UInt32 = .max
    /// `aps.timestamp` of the newest version that has come: admissions raise it from one to the next.
    var newestTimestamp: Int64 = 0

    /// At least so long from one push to the next.
    var spacingMilliseconds = ChannelPace.spacingMilliseconds
    /// Monotonic: the next push goes no sooner.
    var restsUntilMilliseconds: Int64 = .min
    /// As it was before the push that was handed out last.
    var restedUntilMilliseconds: Int64 = .min
    /// APNs does not know the channel, and its successor is not known yet.
    var awaitsChannel = false
    /// Its app's line of channels that have something to send now.
    var isInLine = false
    var nextInLine: UInt32 = .max
    /// What is armed in the timers.
    var timerMilliseconds: Int64 = .max
}

/// How fast a channel is sent to. An Apple engineer names about one update a second; what is faster is answered with 429.
enum ChannelPace {
    static let spacingMilliseconds: Int64 = 1_000
    static let spacingMaxMilliseconds: Int64 = 64_000
    /// A channel without broadcasts is kept so long behind its last push: a record that Kafka has twice is known again.
    static let idleMilliseconds: Int64 = 300_000

    static func limited(_ spacing: Int64) -> Int64 { min(spacing * 2, spacingMaxMilliseconds) }
    static func accepted(_ spacing: Int64) -> Int64 { max(spacing / 2, spacingMilliseconds) }
}
