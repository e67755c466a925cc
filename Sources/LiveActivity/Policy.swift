/// How often one activity may be pushed to, and how urgently: numbers that Apple does not publish, so that they are the user's to set.
///
/// Apple documents that the device budgets pushes of priority 10 and not those of priority 5, that frequent updates widen that budget, and
/// that starts have one of their own; it publishes none of the numbers ("Starting and updating Live Activities with ActivityKit push
/// notifications"). `Config/causeway.yaml` says of each default where it comes from.
public struct Policy: Sendable, Equatable {
    /// A bucket of pushes that fills at a constant rate and starts full.
    public struct Bucket: Sendable, Hashable, BitwiseCopyable {
        /// Pushes that a full bucket holds. 1...``pushesMost``.
        public var pushes: Int
        /// Pushes that it gains in an hour. 1...``refillPerHourMost``.
        public var refillPerHour: Int
        /// How many of `pushes` only alerts and ends may take. 0...`pushes`.
        public var reservedForAlerts: Int

        public static let pushesMost = 10_000
        public static let refillPerHourMost = 36_000

        public init(pushes: Int, refillPerHour: Int, reservedForAlerts: Int) {
            self.pushes = pushes
            self.refillPerHour = refillPerHour
            self.reservedForAlerts = reservedForAlerts
        }

        /// Milliseconds in which one push is gained.
        public var intervalMilliseconds: Int64 { 3_600_000 / Int64(refillPerHour) }
    }

    /// The numbers by which one activity is paced. Every admission carries them, so they are kept small.
    public struct Pace: Sendable, Hashable, BitwiseCopyable {
        private struct SmallBucket: Hashable, BitwiseCopyable {
            let pushes: Int32
            let refillPerHour: Int32
            let reservedForAlerts: Int32

            init(_ bucket: Bucket) {
                pushes = Int32(clamping: bucket.pushes)
                refillPerHour = Int32(clamping: bucket.refillPerHour)
                reservedForAlerts = Int32(clamping: bucket.reservedForAlerts)
            }

            var bucket: Bucket {
                Bucket(
                    pushes: Int(pushes),
                    refillPerHour: Int(refillPerHour),
                    reservedForAlerts: Int(reservedForAlerts)
                )
            }
        }

        private let spacing: Int32
        private let throttledSpacingMax: Int32
        private let throttleRecovery: Int32
        private let smallBudget: SmallBucket
        private let smallFrequentBudget: SmallBucket

        public var spacingMilliseconds: Int64 { Int64(spacing) }
        public var throttledSpacingMaxMilliseconds: Int64 { Int64(throttledSpacingMax) }
        public var throttleRecoveryMilliseconds: Int64 { Int64(throttleRecovery) }
        public var budget: Bucket { smallBudget.bucket }
        public var frequentBudget: Bucket { smallFrequentBudget.bucket }

        public init(
            spacingMilliseconds: Int64,
            throttledSpacingMaxMilliseconds: Int64,
            throttleRecoveryMilliseconds: Int64,
            budget: Bucket,
            frequentBudget: Bucket
        ) {
            spacing = Int32(clamping: spacingMilliseconds)
            throttledSpacingMax = Int32(clamping: throttledSpacingMaxMilliseconds)
            throttleRecovery = Int32(clamping: throttleRecoveryMilliseconds)
            smallBudget = SmallBucket(budget)
            smallFrequentBudget = SmallBucket(frequentBudget)
        }
    }

    /// For how long something is good, in seconds. 1...43,200, the life of an activity.
    public struct Expiration: Sendable, Equatable {
        /// How old a start may be when it is sent, and APNs stores it no longer: counted from its `aps.timestamp`.
        public var startSeconds: Int64 = 600
        /// How old an alert of an update or an end may be when it is sent, counted from the `aps.timestamp` of its command. The state is
        /// sent without an older one.
        public var alertSeconds: Int64 = 300
        /// How long APNs stores an update that names no expiration and has no stale date; with one it is stored until then.
        public var updateSeconds: Int64 = 600
        public var endSeconds: Int64 = 14_400
        public init() {}
    }

    /// What a command calls it. 1...64 bytes of letters, digits, `-` and `_`.
    public var name: String
    /// The least time between two pushes of one activity. 1,000...3,600,000: Apple's timestamps count whole seconds.
    public var spacingMilliseconds: Int64 = 1_000
    /// Pushes of priority 10 to one activity.
    public var budget = Bucket(pushes: 15, refillPerHour: 15, reservedForAlerts: 5)
    /// The same while the person allows frequent updates.
    public var frequentBudget = Bucket(pushes: 200, refillPerHour: 200, reservedForAlerts: 50)
    /// Starts of one device, over all its activities; nothing of it is reserved.
    public var startBudget = Bucket(pushes: 8, refillPerHour: 8, reservedForAlerts: 0)
    /// An activity whose token APNs limits (429) has its spacing doubled each time, up to this. `spacingMilliseconds`...3,600,000.
    public var throttledSpacingMaxMilliseconds: Int64 = 60_000
    /// Time without a 429 after which a doubling is taken back. 1,000...3,600,000.
    public var throttleRecoveryMilliseconds: Int64 = 60_000
    public var expiration = Expiration()

    public init(name: String) { self.name = name }

    public var pace: Pace {
        Pace(
            spacingMilliseconds: spacingMilliseconds,
            throttledSpacingMaxMilliseconds: throttledSpacingMaxMilliseconds,
            throttleRecoveryMilliseconds: throttleRecoveryMilliseconds,
            budget: budget,
            frequentBudget: frequentBudget
        )
    }
}
