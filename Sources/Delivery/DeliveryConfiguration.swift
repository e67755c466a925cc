/// The numbers and apps that one lane's core works with.
public struct DeliveryConfiguration: Sendable {
    /// An app that commands may name.
    public struct Application: Sendable {
        /// The bundle id, UTF-8.
        public var bundleIdentifier: [UInt8]
        /// Which APNs environments a pool exists for.
        public var hasProduction: Bool
        public var hasSandbox: Bool

        public init(bundleIdentifier: [UInt8], hasProduction: Bool, hasSandbox: Bool) {
            self.bundleIdentifier = bundleIdentifier
            self.hasProduction = hasProduction
            self.hasSandbox = hasSandbox
        }
    }

    /// Seconds after which a push that names no expiration is no longer stored by APNs. Never left to APNs' own 30 days.
    public struct DefaultExpiration: Sendable {
        public var startSeconds: Int64 = 600
        public var updateSeconds: Int64 = 600
        public var endSeconds: Int64 = 14_400
        public init() {}
    }

    public var applications: [Application]
    /// The names of the two topics that are read: they stand in default command ids.
    public var commandsTopic: [UInt8] = Array("causeway.commands".utf8)
    public var registrationsTopic: [UInt8] = Array("causeway.registrations".utf8)
    /// The most records the lane holds from receipt to acknowledged result. 64...4,194,304.
    public var recordsMax = 131_072
    /// The most pushes of one app on their way (admitted and not yet answered); what is above waits unadmitted, where a newer state
    /// still replaces it.
    public var inFlightMaxPerApplication = 2_000
    /// The least time between two pushes of one activity. At least 1,000: Apple's timestamps count whole seconds (design §3).
    public var spacingMilliseconds: Int64 = 1_000
    /// How often one push is tried at most, the first attempt included.
    public var attemptsMax: UInt8 = 4
    /// Full jitter: a retry waits a random time below `retryBase * 2^attempt`, at most `retryCap`.
    public var retryBaseMilliseconds: Int64 = 200
    public var retryCapMilliseconds: Int64 = 30_000
    public var defaultExpiration = DefaultExpiration()
    /// How many offsets above the committable one a partition may be read. A power of two.
    public var ledgerWindowOffsets = 1 << 20
    /// Seeds jitter, `apns-id` and the activity table; different in each lane of each process.
    public var seed: UInt64

    public init(applications: [Application], seed: UInt64) {
        self.applications = applications
        self.seed = seed
    }

    func validate() {
        precondition(!applications.isEmpty && applications.count <= Int(UInt8.max))
        precondition((64...4_194_304).contains(recordsMax))
        precondition(inFlightMaxPerApplication > 0)
        precondition(spacingMilliseconds >= 1_000)
        precondition(attemptsMax >= 1)
        precondition(retryBaseMilliseconds > 0 && retryCapMilliseconds >= retryBaseMilliseconds)
    }
}
