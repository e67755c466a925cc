import LiveActivity

/// The limits, policies and apps of one lane's core.
public struct DeliveryConfiguration: Sendable {
    /// One configured app. A record that names any other app is `invalid`.
    public struct App: Sendable {
        /// The bundle id, UTF-8.
        public var bundleId: [UInt8]
        public var hasProductionPool: Bool
        public var hasSandboxPool: Bool

        public init(bundleId: [UInt8], hasProductionPool: Bool, hasSandboxPool: Bool) {
            self.bundleId = bundleId
            self.hasProductionPool = hasProductionPool
            self.hasSandboxPool = hasSandboxPool
        }
    }

    /// The maximum number of policies, including those that a reload has removed: they stay in the table.
    public static let policiesMax = 64

    public var apps: [App]
    /// The settings that ``Delivery/apply(_:)`` replaces while the lane runs.
    public var reloadable: ReloadableSettings
    // The names of the topics that the core reads. A command without an id gets a default id, which begins with the
    // name of the topic from which the command was first read.
    public var commandsTopic: [UInt8] = Array("causeway.commands".utf8)
    public var registrationsTopic: [UInt8] = Array("causeway.registrations".utf8)
    public var deferredTopic: [UInt8] = Array("causeway.deferred".utf8)
    /// The maximum number of records in the lane, from their receipt until they are settled or dropped: 64 to
    /// 4,194,304. `worker.commandsPerLane` and the worker's memory budget set this number.
    public var recordsMax = 131_072
    /// The lane stops receiving when the texts, tokens and bodies of its records have this many bytes. Registrations
    /// then release few held commands at a time (`holdBackRegistrationIfNoRoom`). At least 1.
    public var usedBlockBytesMax = Int.max
    /// The lane also stops receiving when this many bytes are allocated for blocks, in use or free. Records and the ids
    /// of activities are stored in blocks, which are cut from chunks (`Arena`). At least twice ``blockChunkBytes``.
    public var allocatedBlockBytesMax = Int.max
    /// The bytes of one chunk of blocks (`Arena`): a power of two. Each block size that is in use needs at least one
    /// chunk, so a lane with little memory needs small chunks.
    public var blockChunkBytes = Self.blockChunkBytesMax
    public static var blockChunkBytesMin: Int { Arena.chunkBytesMin }
    public static var blockChunkBytesMax: Int { Arena.chunkBytesMax }
    /// The number of credits of one pool. A command is not admitted before it has a credit, so a newer state can
    /// replace it until then.
    public var creditsPerPoolMax = 2_000
    /// The base of the pauses after failures that only delay a push (R18). A pause is this time, doubled once for each
    /// such failure of the activity in a row. With 200 ms, the pauses are 400, 800, 1,600 ms and so on, up to
    /// ``ReloadableSettings/retryMillisecondsMax``: Apple asks for minutes after a 500 or 503. After the result
    /// `retrySoon` the pauses are shorter (`Delivery+Retries`).
    ///
    /// A random part of up to a half is removed from each pause (jitter), so that retries do not come together (R21).
    public var retryBaseMilliseconds: Int64 = 200
    /// How long a push waits if the pool's retry budget does not permit its retry. If its pause after failures
    /// (`retryBaseMilliseconds`) is longer, the push waits for that pause. A random part of up to a half is removed
    /// (jitter).
    public var retryBudgetPauseMilliseconds: Int64 = 30_000
    /// How long, at most, a command with an alert waits for a carrier (`Delivery+Riders`): Redis has a newer state,
    /// which this lane has not read yet. Another worker may have deferred the newer state. Then the lane cannot read it
    /// before ``ReloadableSettings/deferredDelayMilliseconds`` are over, so ``lengthenCarrierWait()`` makes this time
    /// longer than that delay.
    public var carrierWaitMillisecondsMax: Int64 = 10_000
    /// Which superseded commands get results of their own.
    public var supersededResults = SupersededResultMode.countedWhenBehind
    /// How many offsets above its committable offset a partition may be read: a power of two. The partition's ledger
    /// (`PartitionLedger`) has one or two bits for each of these offsets, so at most 256 KiB with the default.
    public var ledgerSpanOffsetCount = 1 << 20
    /// The seed of the lane's random numbers. Different in each lane of each process, so that two lanes do not make the
    /// same claims and `apns-id`s.
    public var seed: UInt64

    public init(apps: [App], seed: UInt64) {
        self.apps = apps
        reloadable = ReloadableSettings(appCount: apps.count)
        self.seed = seed
    }

    /// Returns the name that a topic has in Kafka, as UTF-8.
    public func name(of topic: RecordTopic) -> [UInt8] {
        switch topic {
        case .commands: commandsTopic
        case .registrations: registrationsTopic
        case .deferred: deferredTopic
        }
    }

    package mutating func apply(_ settings: ReloadableSettings) {
        reloadable = settings
        lengthenCarrierWait()
    }

    /// Makes `carrierWaitMillisecondsMax` longer than the delay of deferred commands, because the expected carrier may
    /// be deferred. If a reload makes that delay shorter, `carrierWaitMillisecondsMax` stays: commands that were
    /// deferred before still come back after the old delay.
    package mutating func lengthenCarrierWait() {
        carrierWaitMillisecondsMax = max(
            carrierWaitMillisecondsMax,
            reloadable.deferredDelayMilliseconds + Self.carrierWaitMarginMilliseconds
        )
    }
    /// How much longer `carrierWaitMillisecondsMax` is, at least, than the delay of deferred commands, because they may
    /// come back late.
    private static let carrierWaitMarginMilliseconds: Int64 = 5_000

    /// Traps if a value is out of its range. The caller has already checked the values that an operator may set.
    func validate() {
        precondition(!apps.isEmpty && apps.count <= Int(UInt8.max))
        precondition((64...4_194_304).contains(recordsMax))
        precondition(usedBlockBytesMax > 0 && allocatedBlockBytesMax / 2 >= blockChunkBytes)
        precondition(creditsPerPoolMax > 0)
        reloadable.validate(appCount: apps.count)
        precondition(retryBaseMilliseconds > 0 && reloadable.retryMillisecondsMax >= retryBaseMilliseconds)
        precondition(retryBudgetPauseMilliseconds > 0)
        precondition(carrierWaitMillisecondsMax > 0)
    }
}

/// Whether a command that is superseded in the lane, before Redis sees it, gets a result of its own. Some commands get
/// one in every mode, for example a start, a command that was held, and a rider whose carrier gets an outcome.
public enum SupersededResultMode: String, Sendable, CaseIterable {
    /// The command gets a result of its own.
    case each
    /// In a backlog like `counted`, otherwise like `each`. A backlog begins when the lane is known to be behind by more
    /// than ``ReloadableSettings/readAheadLagRecords``. It ends when the lane has stopped reading ahead and is no
    /// longer so far behind.
    case countedWhenBehind
    /// The command gets no result of its own. It is counted in the result of the command that superseded it.
    case counted
}
