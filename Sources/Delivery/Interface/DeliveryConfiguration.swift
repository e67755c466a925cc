import LiveActivity

/// The limits, policies and apps of one lane's core.
public struct DeliveryConfiguration: Sendable {
    /// An app that commands may name.
    public struct Application: Sendable {
        /// The bundle id, UTF-8.
        public var bundleIdentifier: [UInt8]
        /// Which APNs environments a pool exists for.
        public var hasProduction: Bool
        public var hasSandbox: Bool
        /// The policy of commands that name none; an index into ``DeliveryConfiguration/policies``.
        public var policy: Int

        public init(bundleIdentifier: [UInt8], hasProduction: Bool, hasSandbox: Bool, policy: Int = 0) {
            self.bundleIdentifier = bundleIdentifier
            self.hasProduction = hasProduction
            self.hasSandbox = hasSandbox
            self.policy = policy
        }
    }

    /// The most policies there can be.
    public static let policiesMax = 64

    public var applications: [Application]
    /// How often and how urgently activities are pushed to. Commands choose one by name. 1...``policiesMax``.
    public var policies = [Policy(name: "default")]
    /// The names of the topics that are read. Default command ids contain them.
    public var commandsTopic: [UInt8] = Array("causeway.commands".utf8)
    public var registrationsTopic: [UInt8] = Array("causeway.registrations".utf8)
    public var deferredTopic: [UInt8] = Array("causeway.deferred".utf8)
    /// The most records the lane holds from receipt to acknowledged result. 64...4,194,304.
    public var recordsMax = 131_072
    /// The most bytes of texts, tokens and bodies that the lane's records hold before it receives no more. At least 1.
    public var blockBytesMax = Int.max
    /// The most pushes of one pool in flight (admitted and not yet answered). Further commands wait unadmitted, where a newer state still
    /// replaces them.
    public var inFlightMaxPerPool = 2_000
    /// A push that APNs could not take waits before the next attempt: after the n-th fault in a row of its activity for a random time
    /// between a half and the whole of `retryBase * 2^n`, capped at `retryMax`. Apple asks for minutes after a 500 or 503.
    public var retryBaseMilliseconds: Int64 = 200
    public var retryMaxMilliseconds: Int64 = 300_000
    /// A retry that the pool's budget does not permit waits for a random time between a half and the whole of this, at least.
    public var retryBudgetPauseMilliseconds: Int64 = 30_000
    /// How long an alert waits for a newer state that another worker admitted but did not settle: when this lane reads that state, it
    /// carries the alert.
    public var riderPatienceMilliseconds: Int64 = 10_000
    /// A command that has been here for so long and cannot be sent within the next `deferredDelayMilliseconds` is deferred.
    public var deferAfterMilliseconds: Int64 = 10_000
    /// After so long a deferred command is read again.
    public var deferredDelayMilliseconds: Int64 = 30_000
    /// A lane that is behind by more than this many records of the commands topic reads ahead before it begins anything.
    public var readAheadLagRecords: Int64 = 10_000
    /// The longest time that a lane reads ahead, however far behind it still is.
    public var readAheadMaxMilliseconds: Int64 = 30_000
    /// Which of the superseded commands have results of their own.
    public var supersededResults = SupersededResults.countedWhenBehind
    /// How many offsets above its committable offset a partition may be read. A power of two.
    public var ledgerWindowOffsets = 1 << 20
    /// Seeds jitter, `apns-id` and the activity table; different in each lane of each process.
    public var seed: UInt64

    public init(applications: [Application], seed: UInt64) {
        self.applications = applications
        self.seed = seed
    }

    /// The numbers that can change while the lane runs.
    public var numbers: DeliveryNumbers {
        DeliveryNumbers(
            policies: policies,
            applicationPolicies: applications.map(\.policy),
            retryMaxMilliseconds: retryMaxMilliseconds,
            deferAfterMilliseconds: deferAfterMilliseconds,
            deferredDelayMilliseconds: deferredDelayMilliseconds,
            readAheadLagRecords: readAheadLagRecords,
            readAheadMaxMilliseconds: readAheadMaxMilliseconds
        )
    }

    /// The name of a topic that is read.
    public func name(of topic: RecordTopic) -> [UInt8] {
        switch topic {
        case .commands: commandsTopic
        case .registrations: registrationsTopic
        case .deferred: deferredTopic
        }
    }

    mutating func take(_ numbers: DeliveryNumbers) {
        precondition(numbers.applicationPolicies.count == applications.count)
        precondition(
            numbers.policies.count >= policies.count
                && zip(policies, numbers.policies).allSatisfy { $0.name == $1.name },
            "records name policies by their places"
        )
        policies = numbers.policies
        for position in applications.indices { applications[position].policy = numbers.applicationPolicies[position] }
        retryMaxMilliseconds = numbers.retryMaxMilliseconds
        deferAfterMilliseconds = numbers.deferAfterMilliseconds
        deferredDelayMilliseconds = numbers.deferredDelayMilliseconds
        readAheadLagRecords = numbers.readAheadLagRecords
        readAheadMaxMilliseconds = numbers.readAheadMaxMilliseconds
        validate()
    }

    func validate() {
        precondition(!applications.isEmpty && applications.count <= Int(UInt8.max))
        precondition((64...4_194_304).contains(recordsMax))
        precondition(blockBytesMax > 0)
        precondition(inFlightMaxPerPool > 0)
        precondition((1...Self.policiesMax).contains(policies.count))
        precondition(applications.allSatisfy { policies.indices.contains($0.policy) })
        for policy in policies { validate(policy) }
        precondition(retryBaseMilliseconds > 0 && retryMaxMilliseconds >= retryBaseMilliseconds)
        precondition(retryBudgetPauseMilliseconds > 0)
        precondition(riderPatienceMilliseconds > 0)
        precondition(deferAfterMilliseconds > 0 && deferredDelayMilliseconds > 0)
        precondition(readAheadLagRecords > 0 && readAheadMaxMilliseconds > 0)
    }

    private func validate(_ policy: Policy) {
        precondition((1...Limits.policyNameBytes).contains(policy.name.utf8.count))
        precondition((1_000...3_600_000).contains(policy.spacingMilliseconds), "Apple's timestamps count whole seconds")
        precondition((policy.spacingMilliseconds...3_600_000).contains(policy.throttledSpacingMaxMilliseconds))
        precondition(policy.startBudget.refillPerHour > 0 && policy.expiration.startSeconds > 0)
        precondition(policy.expiration.alertSeconds > 0)
        precondition(policy.expiration.updateSeconds > 0 && policy.expiration.endSeconds > 0)
    }
}

/// Whether a command that is superseded before Redis has seen it gets its own result. A start, a command that was held, and a command whose
/// alert a newer one carries always do.
public enum SupersededResults: String, Sendable, CaseIterable {
    /// It gets its own result.
    case each
    /// It gets its own result, unless its lane is known to be behind by more than `readAheadLagRecords`: then it is counted.
    case countedWhenBehind
    /// It is counted in the result of the command that superseded it.
    case counted
}

/// The numbers of a ``DeliveryConfiguration`` that can change while the lane runs.
public struct DeliveryNumbers: Sendable {
    /// The policies from before keep their places; new ones follow.
    public var policies: [Policy]
    /// The default policy of each app.
    public var applicationPolicies: [Int]
    public var retryMaxMilliseconds: Int64
    public var deferAfterMilliseconds: Int64
    public var deferredDelayMilliseconds: Int64
    public var readAheadLagRecords: Int64
    public var readAheadMaxMilliseconds: Int64
}
