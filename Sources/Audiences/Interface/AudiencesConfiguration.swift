public import Delivery
public import LiveActivity

/// The limits, policies and apps of one lane's core for audiences.
public struct AudiencesConfiguration: Sendable {
    public var applications: [DeliveryConfiguration.Application]
    /// The same as the lane's ``DeliveryConfiguration/policies``: commands name policies by their index.
    public var policies: [Policy]
    /// The topic that commands are read from. Results name it.
    public var commandsTopic: [UInt8] = Array("causeway.commands".utf8)
    /// For each app, by its index: which audiences get a channel. In an app without a rule, only `causeway
    /// channels create` creates channels.
    public var channelRules: [UInt16: ChannelRule] = [:]
    /// The maximum number of commands to audiences in the core, from ``Audiences/receiveCommand(_:)`` until they are
    /// returned. At least 1.
    public var commandsMax = 4_096
    /// The maximum number of fan-out records in memory, from receipt to settlement. At least 1.
    public var recordsMax = 16_384
    /// The limit for the bytes of these fan-out records (slots, bodies and texts). The last record that is taken, and
    /// bodies with carried alerts, may exceed it. At least 1.
    public var recordBytesMax = 64 << 20
    /// The maximum number of pages in memory over all apps, and the maximum of their bytes. Each app may use only its
    /// part of both, so an app whose host is unavailable does not block the others. If there are many apps, the
    /// parts together exceed these numbers, because the part of an app is at least eight pages.
    public var pagesMax = 1_024
    public var pageBytesMax = 64 * PageSlot.bytesMax
    /// The maximum number of members that wait for another attempt or have a push in flight. Must exceed a
    /// lane's pushes in flight, and be at least 64.
    public var parkedMembersMax = 16_384
    /// The maximum number of members whose refused push or dead token is being recorded.
    public var refusedMembersMax = 4_096
    /// The maximum number of changes of members' audiences in the core. A change stays until its audiences have
    /// acknowledged it, and a member that joined has been shown its audience's state or the core has given up this
    /// push. At least 1.
    public var membershipsMax = 4_096
    /// The maximum number of starts of devices that Kafka has not acknowledged yet. At least 1.
    public var startsMax = 1_024
    /// Bounds of the pause after a push that APNs could not take. After the n-th failure for a member or a broadcast
    /// the pause is `retryBaseMilliseconds * 2^n`, at most `retryMaxMilliseconds`, times a random number between a
    /// half and one. The first retries of a push that APNs never processed may have no pause.
    public var retryBaseMilliseconds = Self.retryBaseMillisecondsDefault
    public var retryMaxMilliseconds = Self.retryMaxMillisecondsDefault
    private static let retryBaseMillisecondsDefault: Int64 = 200
    private static let retryMaxMillisecondsDefault: Int64 = 60_000
    /// The pause before a retry that the pool's budget refuses, and after APNs has limited a member's token (429): at
    /// most this value, and usually a random time of at least its half. A longer pause after the failed attempt takes
    /// precedence.
    public var retryBudgetPauseMilliseconds: Int64 = 30_000
    /// The time between two checkpoints of a round that makes progress. When a version has reached all its members, the
    /// round records a checkpoint at once.
    public var checkpointIntervalMilliseconds: Int64 = 500
    /// How long a round waits for the fan-out record of a newer version that the store has admitted, or of a version
    /// that the last owner of the partition had under way.
    public var newerVersionWaitMilliseconds: Int64 = 10_000
    /// The planned maximum of members in a range, by an estimate of the audience's size. A range has more if the
    /// audience needs more than 256 ranges for that, or if the audience grows while the number of ranges is fixed.
    public var membersPerRangeMax = Self.membersPerRangeMax
    package static let membersPerRangeMax = 4_000
    /// How many offsets above its committable offset a partition may be read. A power of two.
    public var ledgerWindowOffsets = 1 << 16
    /// The seed of jitter, claims and `apns-id`. It must be different in each lane of each process.
    public var seed: UInt64

    public init(applications: [DeliveryConfiguration.Application], policies: [Policy], seed: UInt64) {
        self.applications = applications
        self.policies = policies
        self.seed = seed
    }

    /// Limits ``retryMaxMilliseconds`` and ``retryBaseMilliseconds`` to the longest pause of single commands
    /// (`worker.retryMaxMilliseconds`).
    public mutating func limitRetryPauses(to milliseconds: Int64) {
        retryMaxMilliseconds = min(Self.retryMaxMillisecondsDefault, milliseconds)
        retryBaseMilliseconds = min(Self.retryBaseMillisecondsDefault, retryMaxMilliseconds)
    }

    /// Takes the settings that concern commands to audiences. Policies keep their positions, because commands and
    /// records in memory name a policy by its position.
    mutating func apply(_ settings: ReloadableSettings) {
        policies = settings.policies
        for position in applications.indices { applications[position].policy = settings.applicationPolicies[position] }
        limitRetryPauses(to: settings.retryMaxMilliseconds)
        validate()
    }

    func validate() {
        precondition(!applications.isEmpty && applications.count <= Int(UInt8.max))
        precondition((1...DeliveryConfiguration.policiesMax).contains(policies.count))
        precondition(
            commandsMax > 0 && recordsMax > 0 && recordBytesMax > 0 && parkedMembersMax >= 64 && refusedMembersMax > 0
        )
        precondition(membershipsMax > 0 && startsMax > 0)
        precondition(pagesMax > 0 && pagesMax < Int(UInt16.max) && pageBytesMax > 0)
        precondition(retryBaseMilliseconds > 0 && retryMaxMilliseconds >= retryBaseMilliseconds)
        precondition(
            retryBudgetPauseMilliseconds > 0 && checkpointIntervalMilliseconds > 0 && newerVersionWaitMilliseconds > 0
        )
        precondition(membersPerRangeMax > 0)
    }

    /// The maximum number of pages of one app, and of their bytes: an equal part for each app, but at least
    /// eight pages of the maximum size.
    var pagesPerApplicationMax: Int { max(Self.pagesPerApplicationMin, pagesMax / applications.count) }
    var pageBytesPerApplicationMax: Int {
        max(Self.pagesPerApplicationMin * PageSlot.bytesMax, pageBytesMax / applications.count)
    }
    private static let pagesPerApplicationMin = 8
}
