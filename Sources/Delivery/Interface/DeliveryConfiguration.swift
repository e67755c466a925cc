import LiveActivity

/// The numbers and apps that one lane's core works with.
public struct DeliveryConfiguration: Sendable {
    /// An app that commands may name.
    public struct Application: Sendable {
        /// The bundle id, UTF-8.
        public var bundleIdentifier: [UInt8]
        /// Which APNs environments a pool exists for.
        public var hasProduction: Bool
        public var hasSandbox: Bool
        /// Which of the policies holds for commands that name none; an index into ``DeliveryConfiguration/policies``.
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
    /// How often, and how urgently, activities are pushed to; commands choose by name. 1...``policiesMax``.
    public var policies = [Policy(name: "default")]
    /// The names of the two topics that are read: they stand in default command ids.
    public var commandsTopic: [UInt8] = Array("causeway.commands".utf8)
    public var registrationsTopic: [UInt8] = Array("causeway.registrations".utf8)
    /// The most records the lane holds from receipt to acknowledged result. 64...4,194,304.
    public var recordsMax = 131_072
    /// The most pushes of one app on their way (admitted and not yet answered); what is above waits unadmitted, where a newer state
    /// still replaces it.
    public var inFlightMaxPerApplication = 2_000
    /// How often one push is tried at most, the first attempt included.
    public var attemptsMax: UInt8 = 4
    /// Full jitter: a retry waits a random time below `retryBase * 2^attempt`, at most `retryCap`.
    public var retryBaseMilliseconds: Int64 = 200
    public var retryCapMilliseconds: Int64 = 30_000
    /// How long an alert whose newer state was admitted by another worker, which has not settled it, waits for that state to be read
    /// here, so that it rides on with it.
    public var riderPatienceMilliseconds: Int64 = 10_000
    /// A lane whose partitions of the commands topic are behind by more than so many records reads ahead before it begins anything.
    public var readAheadLagRecords: Int64 = 10_000
    /// After this time what was read ahead is begun, however far behind the lane still is.
    public var readAheadMaxMilliseconds: Int64 = 30_000
    /// Which of the superseded commands have results of their own.
    public var supersededResults = SupersededResults.countedWhenBehind
    /// How many offsets above the committable one a partition may be read. A power of two.
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
            attemptsMax: attemptsMax,
            readAheadLagRecords: readAheadLagRecords,
            readAheadMaxMilliseconds: readAheadMaxMilliseconds
        )
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
        attemptsMax = numbers.attemptsMax
        readAheadLagRecords = numbers.readAheadLagRecords
        readAheadMaxMilliseconds = numbers.readAheadMaxMilliseconds
        validate()
    }

    func validate() {
        precondition(!applications.isEmpty && applications.count <= Int(UInt8.max))
        precondition((64...4_194_304).contains(recordsMax))
        precondition(inFlightMaxPerApplication > 0)
        precondition((1...Self.policiesMax).contains(policies.count))
        precondition(applications.allSatisfy { policies.indices.contains($0.policy) })
        for policy in policies { validate(policy) }
        precondition(attemptsMax >= 1)
        precondition(retryBaseMilliseconds > 0 && retryCapMilliseconds >= retryBaseMilliseconds)
        precondition(riderPatienceMilliseconds > 0)
        precondition(readAheadLagRecords > 0 && readAheadMaxMilliseconds > 0)
    }

    private func validate(_ policy: Policy) {
        precondition((1...Limits.policyNameBytes).contains(policy.name.utf8.count))
        precondition((1_000...3_600_000).contains(policy.spacingMilliseconds), "Apple's timestamps count whole seconds")
        precondition(
            (policy.spacingMilliseconds...3_600_000).contains(policy.throttledSpacingMaxMilliseconds)
        )
        precondition(policy.startBudget.refillPerHour > 0 && policy.expiration.startSeconds > 0)
        precondition(policy.expiration.updateSeconds > 0 && policy.expiration.endSeconds > 0)
    }
}

/// What is told of a command that is superseded before Redis has seen it. One whose alert rides on, a start, and one that was held have
/// results of their own whatever is chosen.
public enum SupersededResults: String, Sendable, CaseIterable {
    /// It has a result of its own.
    case each
    /// It has a result of its own, unless its lane is known to be behind by more than `readAheadLagRecords`: then it is counted.
    case countedWhenBehind
    /// It is counted in the result of the command that took its place.
    case counted
}

/// Numbers of a ``DeliveryConfiguration`` that a lane can be given while it runs; see there for what they mean.
public struct DeliveryNumbers: Sendable {
    /// Those from before in their places, others behind them.
    public var policies: [Policy]
    /// Of each app.
    public var applicationPolicies: [Int]
    public var attemptsMax: UInt8
    public var readAheadLagRecords: Int64
    public var readAheadMaxMilliseconds: Int64
}
