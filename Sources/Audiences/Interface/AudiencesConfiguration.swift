public import Delivery
public import LiveActivity

/// The limits, policies and apps of one lane's core of audiences.
public struct AudiencesConfiguration: Sendable {
    public var applications: [DeliveryConfiguration.Application]
    /// As the lane's ``DeliveryConfiguration/policies``: commands name them by their places.
    public var policies: [Policy]
    /// The name of the topic that commands are read from; results name it.
    public var commandsTopic: [UInt8] = Array("causeway.commands".utf8)
    /// By application; without one its audiences get a channel by hand only.
    public var channelRules: [UInt16: ChannelRule] = [:]
    /// Commands of audiences that are held from their handover until they are handed back. At least 1.
    public var commandsMax = 4_096
    /// Fan-out records that are held from receipt to settlement. At least 1.
    public var recordsMax = 16_384
    /// Bytes of the bodies and texts of fan-out records before no more are received. At least 1.
    public var recordBytesMax = 64 << 20
    /// Pages that are read, or whose members are under way, over all apps. Each app has its part, so that one whose host is away does not
    /// hold up the others.
    public var pagesMax = 64
    /// Members that wait to be sent again, and pushes that are on their way. More than a lane's pushes in flight,
    /// and at least 64.
    public var parkedMax = 16_384
    /// Dead tokens and refused pushes that are being recorded.
    public var noticesMax = 4_096
    /// Members that join or leave, from their handover until they are shown what they joined. At least 1.
    public var membershipsMax = 4_096
    /// Starts of devices that are on their way to the commands topic. At least 1.
    public var startsMax = 1_024
    /// A push that APNs could not take waits before the next attempt: after the n-th fault of its member for a random time between a half
    /// and the whole of `retryBase * 2^n`, capped at `retryMax`.
    public var retryBaseMilliseconds: Int64 = 200
    public var retryMaxMilliseconds: Int64 = 60_000
    /// A retry that the pool's budget does not permit waits for a random time between a half and the whole of this, at least.
    public var retryBudgetPauseMilliseconds: Int64 = 30_000
    /// How often a round that moves is recorded.
    public var checkpointMilliseconds: Int64 = 500
    /// How long a round stands still for a newer version that was admitted and whose record does not come.
    public var newerPatienceMilliseconds: Int64 = 10_000
    /// Members of one range of a large audience.
    public var membersPerRange = Self.membersPerRange
    package static let membersPerRange = 4_000
    /// How many offsets above its committable offset a partition may be read. A power of two.
    public var ledgerWindowOffsets = 1 << 16
    /// Seeds jitter, claims and `apns-id`; different in each lane of each process.
    public var seed: UInt64

    public init(applications: [DeliveryConfiguration.Application], policies: [Policy], seed: UInt64) {
        self.applications = applications
        self.policies = policies
        self.seed = seed
    }

    func validate() {
        precondition(!applications.isEmpty && applications.count <= Int(UInt8.max))
        precondition((1...DeliveryConfiguration.policiesMax).contains(policies.count))
        precondition(commandsMax > 0 && recordsMax > 0 && recordBytesMax > 0 && parkedMax >= 64 && noticesMax > 0)
        precondition(membershipsMax > 0 && startsMax > 0)
        precondition(pagesMax > 0 && pagesMax < Int(UInt16.max))
        precondition(retryBaseMilliseconds > 0 && retryMaxMilliseconds >= retryBaseMilliseconds)
        precondition(retryBudgetPauseMilliseconds > 0 && checkpointMilliseconds > 0 && newerPatienceMilliseconds > 0)
        precondition(membersPerRange > 0)
    }

    /// Pages of one app. Few apps share all there are; with many, each still has some.
    var pagesPerApplication: Int { max(8, pagesMax / applications.count) }
}
