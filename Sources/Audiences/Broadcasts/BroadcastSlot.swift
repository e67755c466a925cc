import LiveActivity

/// A fan-out record for a channel: one version of an audience, in one environment. (R31)
struct BroadcastSlot: BitwiseCopyable {
    enum Stage: UInt8, BitwiseCopyable {
        /// The channel's newest state. Waits for its turn.
        case waiting
        /// Its push is under way.
        case underWay
        /// Superseded, but another broadcast carries its alert. Ends after that broadcast.
        case riding
        /// The store counts the broadcast, and its result is being written.
        case finishing
        /// Recorded. Settles after the records before it.
        case finished
    }

    var channel: UInt32
    /// The channel's next record.
    var next: UInt32 = .max
    var stage = Stage.waiting
    /// The older broadcast whose alert this one carries.
    var rider: UInt32 = .max
    var record: FanoutRecord

    /// Failed attempts.
    var attempts: UInt8 = 0
    var outcome = MemberOutcome.delivered
    /// The status of APNs' last answer.
    var status: UInt16 = 0
    var reason = HeapBytes.none
    var advice: StaticString = ""
    var times = RoundTimes()
    var totals = AudienceTotals()
    /// Calls and productions without an acknowledgement.
    var outstanding: UInt8 = 0

    var heldBytes: Int { MemoryLayout<Self>.size + record.heldBytes }

    func freeBytes() {
        record.freeBytes()
        reason.free()
    }
}

struct BroadcastKey: Hashable {
    var application: UInt16
    var digest: AudienceDigest
    var environment: DeviceEnvironment
}

/// A channel of an audience: while it has broadcasts here, and for some time after the last one.
struct ChannelSlot: BitwiseCopyable {
    enum Phase: UInt8, BitwiseCopyable {
        case running
        /// Its partition is being revoked. The push under way gets its answer; nothing else is sent.
        case draining
        /// Its partition was released. Nothing is recorded any more.
        case abandoned
    }

    var key: BroadcastKey
    /// The audience's id. The channel's id if the commands name the channel.
    var audience: HeapBytes
    /// Whether the producer keeps the channel and its commands name it.
    var isOwn: Bool
    var partition: UInt32
    var epoch: UInt32
    var phase = Phase.running
    /// The channel that the newest record or the keeper named last.
    var channel: AudienceChannel

    // Broadcasts, oldest first.
    var oldest: UInt32 = .max
    var newest: UInt32 = .max
    /// The newest state, which is sent next.
    var waiting: UInt32 = .max
    /// The broadcast whose push is under way.
    var current: UInt32 = .max
    /// The highest `aps.timestamp` of all versions so far. Admission raises it with each version.
    var newestTimestamp: Int64 = 0
    /// The highest version so far; after an end, the highest possible one.
    var newestVersion = Version(timestamp: .min, sequence: 0)
    /// When the version with the highest timestamp was admitted, UNIX milliseconds.
    var newestAdmittedMilliseconds: Int64 = .min

    /// The least time between two pushes.
    var spacingMilliseconds = ChannelPace.spacingMilliseconds
    /// No push before this monotonic time.
    var restsUntilMilliseconds: Int64 = .min
    /// `restsUntilMilliseconds` before the last push was handed out.
    var restedUntilMilliseconds: Int64 = .min
    /// APNs does not know the channel, and no replacement is known yet.
    var awaitsChannel = false
    /// Whether the channel is in its app's line of channels with something to send.
    var isInLine = false
    var nextInLine: UInt32 = .max
    /// When the armed timer fires; `.max` without one.
    var timerMilliseconds: Int64 = .max
}

/// The pace of a channel. An Apple engineer names about one update a second; APNs answers faster ones with 429.
enum ChannelPace {
    static let spacingMilliseconds: Int64 = 1_000
    static let spacingMaxMilliseconds: Int64 = 64_000
    /// How long an idle channel is kept after its last push, so that a repeated Kafka record is recognized.
    static let idleMilliseconds: Int64 = 300_000

    static func limited(_ spacing: Int64) -> Int64 { min(spacing * 2, spacingMaxMilliseconds) }
    static func accepted(_ spacing: Int64) -> Int64 { max(spacing / 2, spacingMilliseconds) }
}
