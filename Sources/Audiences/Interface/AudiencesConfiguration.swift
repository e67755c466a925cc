public import Delivery
import LiveActivity

/// The limits, policies and apps of one lane's core for audiences.
public struct AudiencesConfiguration: Sendable {
    public var apps: [DeliveryConfiguration.App]
    /// The settings that ``Audiences/apply(_:)`` replaces while the lane runs. `Delivery` must have the same policies,
    /// because the commands that it hands over name their policies by index. Only `Delivery` uses the contracts in
    /// these settings.
    public var reloadable: ReloadableSettings
    /// The topic that commands are read from. Results name it.
    public var commandsTopic: [UInt8] = Array("causeway.commands".utf8)
    /// By the app's index: which audiences of the app get a channel. In an app without a rule, no command makes the
    /// keeper create a channel. Only an operator can then create one, with `causeway channels create`.
    public var channelRules: [UInt16: AudienceChannelRule] = [:]
    /// The maximum number of commands to audiences in the core, from ``Audiences/receiveCommand(_:)`` until they are
    /// returned. At least 1.
    public var commandsMax = 4_096
    /// The limit for the bytes of all commands in the core: their texts and bodies. The last command that is taken may
    /// exceed the limit. Further commands wait in `Delivery`. At least 1.
    public var commandBytesMax = 8 << 20
    /// The maximum number of fan-out records in memory, from receipt to settlement. At least 1.
    public var fanoutRecordsMax = 16_384
    /// The limit for the bytes of all fan-out records in memory (slots, bodies and texts). The last record that is
    /// taken, and bodies with carried alerts, may exceed the limit. At least 1.
    public var fanoutRecordBytesMax = 64 << 20
    /// The maximum number of pages in memory, and the maximum of their bytes. Each app may use an equal part, so that
    /// an app whose host is unavailable does not block the others. A part is at least eight pages, so the parts of many
    /// apps together may exceed these numbers.
    ///
    /// `pagesMax` must be below 65,535, because a ``PageMemberIndex`` has 16 bits for a page.
    public var pagesMax = 1_024
    public var pageBytesMax = 64 * PageSlot.expectedBytesMax
    /// The maximum number of parked members and pushes in flight together, because each push in flight may end with a
    /// parked member. At least 1; the worker sets at least ``parkedMembersMin``.
    ///
    /// If there are several apps, one app alone can use at most half of this room. Exception: members that the previous
    /// owner of a partition had parked may take more, because this core must park them all again.
    public var parkedMembersMax = 16_384
    /// The lowest value of `parkedMembersMax` that the worker sets. No checkpoint has more parked positions, because
    /// each takes two bytes or more of at most ``AudienceLimits/checkpointBytesMax``. So even the members that a worker
    /// with more room had parked can be parked again.
    public static var parkedMembersMin: Int { 1_536 }
    /// A round with this many parked members or more is halted: it sends pushes only to them. Without this limit, its
    /// checkpoint could exceed ``AudienceLimits/checkpointBytesMax``, because it names each parked member. The number
    /// of parked members may still grow a little, because each push in flight may end with a parked member. At least 1.
    public var parkedCountThatHaltsRound = Self.parkedCountThatHaltsRound
    static let parkedCountThatHaltsRound: UInt32 = 256
    /// The number of pushes that a round may send in a row while other rounds of its app wait. It is low, so that a
    /// large audience does not delay the app's other audiences for long. At least 1.
    public var consecutivePushesMax: UInt16 = 64
    /// The maximum number of members whose refused push is being recorded. At this number, a further refused push is
    /// sent again later, because its refusal cannot be recorded now.
    public var refusedMembersMax = 4_096
    /// The maximum number of changes of members' audiences in the core. A change stays until each of its audiences has
    /// an entry about it. If the member joined, the change may stay longer: until the push with the audience's state
    /// has succeeded, or is given up. At least 1.
    public var membershipChangesMax = 4_096
    /// The limit for the bytes of the states that the core keeps for joiners. The last state that is taken may exceed
    /// the limit. At this limit, further joiners request their state again after a pause. At least 1.
    public var newestStateBytesMax = 2 << 20
    /// The maximum number of start commands that Kafka has not acknowledged yet. A start to an audience becomes one
    /// start command for each device. At least 1, at most ``Audiences/unacknowledgedRecordsPerTopicMax``.
    public var unacknowledgedStartsMax = 1_024
    /// The pause after the first failed attempt for a member or a broadcast. Each further failure doubles the pause, up
    /// to ``retryPauseMillisecondsMax``. Each pause is shortened by a random part of up to a half.
    static let firstRetryPauseMilliseconds: Int64 = 400
    /// The longest pause before a retry: 60 s, or the longest pause of single commands (`worker.retryMillisecondsMax`)
    /// if that is shorter.
    var retryPauseMillisecondsMax: Int64 { min(60_000, reloadable.retryMillisecondsMax) }
    /// The least pause before a retry in two cases: the pool's retry budget does not permit the retry, or APNs has
    /// limited a member's token (429). It is shortened by a random part of up to a half. If the usual pause after a
    /// failed attempt is longer, that one counts.
    public var longRetryPauseMilliseconds: Int64 = 30_000
    /// The time between two checkpoints of a round that makes progress. After a crash, members that got their push
    /// after the last checkpoint get the push again. When a version has reached all its members, the round records a
    /// checkpoint at once.
    public var checkpointIntervalMilliseconds: Int64 = 500
    /// The longest time that a round (``RoundSlot``) waits for the fan-out record of a version that the store has
    /// named: the newest admitted version, or one that the previous owner of the partition had under way. Such a record
    /// may never come, for example after partitions were added to the fan-out topic.
    public var newerVersionWaitMillisecondsMax: Int64 = 10_000
    /// The longest time that a round waits for the versions that the partition's previous owner had under way. The wait
    /// ends earlier if no record of the partition has come for `newerVersionWaitMillisecondsMax`. The limit is high,
    /// because after an outage it may take minutes to read the partition up to these versions.
    public var versionsOfPreviousOwnerWaitMillisecondsMax: Int64 = 600_000
    /// The planned maximum of members in a range (``SegmentRange``). This maximum and the estimated size of the
    /// audience decide the number of ranges. A range gets more members if more than 256 ranges would be needed, or if
    /// the audience grows after its size was estimated.
    public var membersPerRangeMax = Self.membersPerRangeMax
    package static let membersPerRangeMax = 4_000
    /// How far above its committable offset a partition may be read, in offsets. A power of two, because the lowest
    /// bits of an offset are the index of its bit in the ledger.
    public var ledgerSpanOffsetCount = 1 << 16
    /// The session timeout of the Kafka consumers: a dead worker's partitions get a new owner after this time at the
    /// earliest.
    public var consumerSessionTimeoutMilliseconds: Int64 = 8_000
    /// Whether the store is a cluster of several servers, each with a part of the keys. Then one server may lose its
    /// keys while the others keep theirs.
    public var hasSeveralStoreServers = false
    /// The seed of the random numbers for pauses, claims and `apns-id`. It must be different in each lane of each
    /// process. Otherwise two owners of a range could have the same claim, and both would record checkpoints (R29).
    public var seed: UInt64

    public init(apps: [DeliveryConfiguration.App], reloadable: ReloadableSettings, seed: UInt64) {
        self.apps = apps
        self.reloadable = reloadable
        self.seed = seed
    }

    func validate() {
        precondition(!apps.isEmpty && apps.count <= Int(UInt8.max))
        reloadable.validate(appCount: apps.count)
        precondition(
            commandsMax > 0 && fanoutRecordsMax > 0 && fanoutRecordBytesMax > 0 && parkedMembersMax > 0
                && refusedMembersMax > 0
        )
        precondition(commandBytesMax > 0 && newestStateBytesMax > 0)
        precondition(membershipChangesMax > 0 && parkedCountThatHaltsRound > 0 && consecutivePushesMax > 0)
        precondition((1...Audiences.unacknowledgedRecordsPerTopicMax).contains(unacknowledgedStartsMax))
        precondition(pagesMax > 0 && pagesMax < Int(UInt16.max) && pageBytesMax > 0)
        precondition(
            longRetryPauseMilliseconds > 0 && checkpointIntervalMilliseconds > 0
                && newerVersionWaitMillisecondsMax > 0
                && versionsOfPreviousOwnerWaitMillisecondsMax >= newerVersionWaitMillisecondsMax
        )
        precondition(membersPerRangeMax > 0)
    }

    /// The maximum number of pages of one app, and the maximum of their bytes. Each app has an equal part of the whole
    /// room, but at least eight pages (``PageSlot/expectedBytesMax``).
    var pagesPerAppMax: Int { max(Self.pagesPerAppMin, pagesMax / apps.count) }
    var pageBytesPerAppMax: Int {
        max(Self.pageBytesPerAppMin, pageBytesMax / apps.count)
    }
    /// The bytes of pages that each app may use even if there are very many apps.
    public static var pageBytesPerAppMin: Int { pagesPerAppMin * PageSlot.expectedBytesMax }
    private static let pagesPerAppMin = 8
}
