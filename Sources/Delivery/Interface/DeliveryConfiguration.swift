import LiveActivity

/// The limits, policies and apps of one lane's core.
public struct DeliveryConfiguration: Sendable {
    /// One configured app. A record that names any other app is `invalid`.
    public struct App: Sendable {
        /// The bundle id, UTF-8.
        public var bundleIdentifier: [UInt8]
        /// Whether the app has a pool for APNs' production environment.
        public var hasProductionPool: Bool
        /// Whether the app has a pool for APNs' sandbox.
        public var hasSandboxPool: Bool
        /// The index of the app's default policy in ``DeliveryConfiguration/policies``. This policy applies to:
        /// - registrations
        /// - commands that name no policy
        /// - held and deferred commands whose policy is no longer configured. A deferred command of a lifetime is
        ///   `invalid` instead.
        public var defaultPolicyIndex: Int
        /// The app's contract, which says what its phones can decode; nil if none is configured.
        public var contract: ContractRule?

        public init(
            bundleIdentifier: [UInt8],
            hasProductionPool: Bool,
            hasSandboxPool: Bool,
            defaultPolicyIndex: Int = 0
        ) {
            self.bundleIdentifier = bundleIdentifier
            self.hasProductionPool = hasProductionPool
            self.hasSandboxPool = hasSandboxPool
            self.defaultPolicyIndex = defaultPolicyIndex
        }
    }

    /// The maximum number of policies, including those that a reload has removed: they stay in the table.
    public static let policiesMax = 64

    public var apps: [App]
    /// The policies, 1 to ``policiesMax``. A command may name one of them. If it names none, its app's default
    /// policy applies.
    public var policies = [Policy(name: "default")]
    // The names of the topics that the core reads. The default id of a command begins with the name of the topic from
    // which the command was first read.
    public var commandsTopic: [UInt8] = Array("causeway.commands".utf8)
    public var registrationsTopic: [UInt8] = Array("causeway.registrations".utf8)
    public var deferredTopic: [UInt8] = Array("causeway.deferred".utf8)
    /// The maximum number of records in the lane, each from its receipt until it is settled or dropped: 64 to
    /// 4,194,304. `worker.commandsPerLane` and the worker's memory budget set this number.
    public var recordsMax = 131_072
    /// The lane stops receiving when the texts, tokens and bodies of its records have this many bytes. At
    /// least 1.
    public var usedBlockBytesMax = Int.max
    /// The number of credits of one pool. A command without a credit is not admitted yet, so a newer state can still
    /// replace it.
    public var creditsPerPoolMax = 2_000
    /// How long a push waits after it failed for a reason that only delays it (R18). With 200 ms, the waits after the
    /// activity's first, second and third such failure in a row are 400, 800 and 1,600 ms. They double with each
    /// failure, up to `retryMillisecondsMax`: Apple asks for minutes after a 500 or 503. After the first and the second
    /// failure, a push with the result `retrySoon` waits only 200 ms.
    ///
    /// A random part of up to a half is removed from each wait (jitter), so that retries do not come together (R21).
    public var retryBaseMilliseconds: Int64 = 200
    public var retryMillisecondsMax: Int64 = 300_000
    /// How long a push waits if the pool's retry budget does not permit its retry. A random part of up to a half is
    /// removed (jitter). If the wait after the activity's failures (`retryBaseMilliseconds`) is longer, it counts
    /// instead.
    public var retryBudgetPauseMilliseconds: Int64 = 30_000
    /// How long the alert of an older command waits for a newer state to carry it. Redis already knows the newer state,
    /// usually because another worker admitted it, but this lane has not read it. The newer state may come late because
    /// it was deferred. So ``setDeferredDelay(milliseconds:)`` makes this time longer than the delay of deferred
    /// commands.
    public var riderWaitMilliseconds: Int64 = 10_000
    /// How long a command may be in the lane before it is deferred. The time is at most one second if the command was
    /// deferred before, or if the lane is more than half full. A command is not deferred if the lane expects to send it
    /// within `deferredDelayMilliseconds`. With the default, a short outage of APNs defers no command.
    public var deferAfterMilliseconds: Int64 = 10_000
    /// A deferred command comes back from the deferred topic after this time, or earlier if a blocked pool of the lane
    /// sends again. The defaults of `deferAfterMilliseconds` and of this delay are together less than a minute, so that
    /// offsets are settled within a minute.
    public var deferredDelayMilliseconds: Int64 = 30_000
    /// If a lane is behind by more than this many records of the commands topic, it begins to read ahead. While it
    /// reads ahead, it begins no command, so newer states replace most of the backlog before anything is sent.
    public var readAheadLagRecords: Int64 = 10_000
    /// The longest time that a lane reads ahead without a break, even if it is still far behind.
    public var readAheadMillisecondsMax: Int64 = 30_000
    /// Which superseded commands get results of their own.
    public var supersededResults = SupersededResultMode.countedWhenBehind
    /// How many offsets above its committable offset a partition may be read. The ledger of each partition has one bit
    /// for each of them, 128 KiB in all. A power of two, so that the lowest bits of an offset are the index of its bit.
    public var ledgerWindowOffsetCount = 1 << 20
    /// The seed of the lane's random numbers, such as the jitter, the claims and the `apns-id`s. Different in each lane
    /// of each process, so that two lanes do not make the same claims and `apns-id`s.
    public var seed: UInt64

    public init(apps: [App], seed: UInt64) {
        self.apps = apps
        self.seed = seed
    }

    /// The parts that can change while the lane runs.
    public var reloadableSettings: ReloadableSettings {
        ReloadableSettings(
            policies: policies,
            appPolicyIndices: apps.map(\.defaultPolicyIndex),
            appContracts: apps.map(\.contract),
            retryMillisecondsMax: retryMillisecondsMax,
            deferAfterMilliseconds: deferAfterMilliseconds,
            deferredDelayMilliseconds: deferredDelayMilliseconds,
            readAheadLagRecords: readAheadLagRecords,
            readAheadMillisecondsMax: readAheadMillisecondsMax
        )
    }

    /// Returns the name that a topic has in Kafka, as UTF-8.
    public func name(of topic: RecordTopic) -> [UInt8] {
        switch topic {
        case .commands: commandsTopic
        case .registrations: registrationsTopic
        case .deferred: deferredTopic
        }
    }

    mutating func apply(_ settings: ReloadableSettings) {
        precondition(settings.appPolicyIndices.count == apps.count)
        precondition(
            settings.policies.count >= policies.count
                && zip(policies, settings.policies).allSatisfy { $0.name == $1.name },
            "policies must keep their places, by which records name them"
        )
        policies = settings.policies
        for position in apps.indices { apps[position].defaultPolicyIndex = settings.appPolicyIndices[position] }
        if let contracts = settings.appContracts {
            precondition(contracts.count == apps.count)
            for position in apps.indices { apps[position].contract = contracts[position] }
        }
        retryMillisecondsMax = settings.retryMillisecondsMax
        deferAfterMilliseconds = settings.deferAfterMilliseconds
        setDeferredDelay(milliseconds: settings.deferredDelayMilliseconds)
        readAheadLagRecords = settings.readAheadLagRecords
        readAheadMillisecondsMax = settings.readAheadMillisecondsMax
        validate()
    }

    /// Sets the delay after which a deferred command comes back from the deferred topic. Also makes
    /// `riderWaitMilliseconds` longer than this delay, because the newer state that must carry an alert may be
    /// deferred. A shorter delay does not make `riderWaitMilliseconds` shorter, because commands that were deferred
    /// before come back after the old delay.
    public mutating func setDeferredDelay(milliseconds: Int64) {
        deferredDelayMilliseconds = milliseconds
        riderWaitMilliseconds = max(riderWaitMilliseconds, milliseconds + Self.riderWaitAfterDeferredDelayMilliseconds)
    }
    private static let riderWaitAfterDeferredDelayMilliseconds: Int64 = 5_000

    func validate() {
        precondition(!apps.isEmpty && apps.count <= Int(UInt8.max))
        precondition((64...4_194_304).contains(recordsMax))
        precondition(usedBlockBytesMax > 0)
        precondition(creditsPerPoolMax > 0)
        precondition((1...Self.policiesMax).contains(policies.count))
        precondition(apps.allSatisfy { policies.indices.contains($0.defaultPolicyIndex) })
        for policy in policies { validate(policy) }
        precondition(retryBaseMilliseconds > 0 && retryMillisecondsMax >= retryBaseMilliseconds)
        precondition(retryBudgetPauseMilliseconds > 0)
        precondition(riderWaitMilliseconds > 0)
        precondition(deferAfterMilliseconds > 0 && deferredDelayMilliseconds > 0)
        precondition(readAheadLagRecords > 0 && readAheadMillisecondsMax > 0)
    }

    private func validate(_ policy: Policy) {
        precondition((1...Limits.policyNameBytesMax).contains(policy.name.utf8.count))
        precondition((1_000...3_600_000).contains(policy.spacingMilliseconds), "Apple's timestamps count whole seconds")
        precondition((policy.spacingMilliseconds...3_600_000).contains(policy.throttledSpacingMillisecondsMax))
        precondition(policy.startBudget.refillPerHour > 0 && policy.expiration.startSeconds > 0)
        precondition(policy.expiration.alertSeconds > 0)
        precondition(
            policy.oversize.count <= OversizeFields.countMax && policy.oversize.allSatisfy(OversizeFields.isFieldName)
        )
        precondition(policy.expiration.updateSeconds > 0 && policy.expiration.endSeconds > 0)
    }
}

/// Whether a command gets a result of its own if a newer command supersedes it before Redis sees it. Some commands
/// get a result in every mode, for example a start, a command that was held, and a rider whose carrier gets an
/// outcome.
public enum SupersededResultMode: String, Sendable, CaseIterable {
    /// The command gets a result of its own.
    case each
    /// In a backlog as with `counted`, at other times as with `each`. A backlog begins when the lane is known to be
    /// behind by more than `readAheadLagRecords`. It ends when the lane has stopped reading ahead and is no longer so
    /// far behind.
    case countedWhenBehind
    /// The command gets no result of its own. It is counted in the result of the command that superseded it.
    case counted
}

/// The parts of a ``DeliveryConfiguration`` that can change while the lane runs.
public struct ReloadableSettings: Sendable {
    /// The policies. Each keeps its position, because records name a policy by its position. New policies are
    /// appended; a removed policy stays.
    public var policies: [Policy]
    /// The default policy of each app: an index into ``policies``.
    public var appPolicyIndices: [Int]
    /// The contract of each app; an element that is nil: the app has none. If the array is nil, all contracts stay
    /// as they are.
    public var appContracts: [ContractRule?]?
    public var retryMillisecondsMax: Int64
    public var deferAfterMilliseconds: Int64
    public var deferredDelayMilliseconds: Int64
    public var readAheadLagRecords: Int64
    public var readAheadMillisecondsMax: Int64
}
