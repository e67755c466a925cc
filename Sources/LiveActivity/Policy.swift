/// How often one activity gets pushes, and how urgently. Commands to an audience or channel follow the same numbers:
/// the spacing and the budgets are then those of the whole audience or channel.
///
/// Apple documents three facts ("Starting and updating Live Activities with ActivityKit push notifications"):
/// - The device has a budget for pushes of priority 10, and none for priority 5.
/// - This budget is larger if the user allows frequent updates.
/// - Starts have a budget of their own.
///
/// Apple publishes none of the numbers, so an operator can configure them. `Config/causeway.yaml` says for each default
/// where it comes from.
public struct Policy: Sendable, Equatable {
    /// A budget of pushes, kept as a bucket that is full at first, and is refilled at a constant rate. Each version
    /// that is pushed at priority 10, and each start, draws one push from the bucket.
    ///
    /// An audience or channel has two buckets, ``Policy/budget`` and ``Policy/frequentBudget``. A command of priority
    /// 10 draws at most one push from each bucket, whatever the number of members.
    public struct Bucket: Sendable, Hashable, BitwiseCopyable {
        /// The number of pushes in a full bucket; in ``Policy/startBudget``, the number of starts. 1...``pushesMax``.
        /// Named like its configuration key, as are the next two properties.
        public var pushes: Int
        /// The number of pushes, or of starts, that the bucket gains in an hour. 1...``refillPerHourMax``.
        public var refillPerHour: Int
        /// How many of `pushes` only alerts and ends may draw. Without this reserve, updates could use up the bucket,
        /// and the next alert would be sent at priority 5. 0...`pushes`; of ``Policy/startBudget`` always 0.
        public var reservedForAlerts: Int
        /// How many seconds the slowest bucket of all policies takes to fill from empty; 0: no other policy counts.
        /// `PolicyTable` sets this number.
        ///
        /// Commands of one activity may name different policies, but Redis stores only one time at which the budget is
        /// full. Redis cuts this time if it is further ahead than the slowest bucket needs.
        public var longestFillSeconds = 0

        public static let pushesMax = 10_000
        public static let refillPerHourMax = 36_000

        public init(pushes: Int, refillPerHour: Int, reservedForAlerts: Int) {
            self.pushes = pushes
            self.refillPerHour = refillPerHour
            self.reservedForAlerts = reservedForAlerts
        }

        /// How many milliseconds the bucket takes to gain one push.
        public var intervalMilliseconds: Int64 { 3_600_000 / Int64(refillPerHour) }
        /// How many seconds the bucket takes to fill from empty, rounded up.
        public var fillSeconds: Int { Int((Int64(pushes) * intervalMilliseconds + 999) / 1_000) }
    }

    /// What an admission needs from a policy: the spacing, how a 429 lengthens the spacing, and the budgets. Every
    /// admission has a copy of these numbers, so they are small integers.
    public struct Pace: Sendable, Hashable, BitwiseCopyable {
        /// A ``Bucket`` in a quarter of the room, without ``Bucket/longestFillSeconds``.
        private struct PackedBucket: Hashable, BitwiseCopyable {
            let pushes: UInt16
            let reservedForAlerts: UInt16
            let refillPerHour: Int32

            init(_ bucket: Bucket) {
                pushes = UInt16(clamping: bucket.pushes)
                reservedForAlerts = UInt16(clamping: bucket.reservedForAlerts)
                refillPerHour = Int32(clamping: bucket.refillPerHour)
            }

            func makeBucket(longestFillSeconds: Int32) -> Bucket {
                var bucket = Bucket(
                    pushes: Int(pushes),
                    refillPerHour: Int(refillPerHour),
                    reservedForAlerts: Int(reservedForAlerts)
                )
                bucket.longestFillSeconds = Int(longestFillSeconds)
                return bucket
            }
        }

        private let packedSpacingMilliseconds: Int32
        private let packedThrottledSpacingMillisecondsMax: Int32
        private let packedThrottleRecoveryMilliseconds: Int32
        private let packedLongestFillSeconds: Int32
        private let packedBudget: PackedBucket
        private let packedFrequentBudget: PackedBucket

        public var spacingMilliseconds: Int64 { Int64(packedSpacingMilliseconds) }
        public var throttledSpacingMillisecondsMax: Int64 { Int64(packedThrottledSpacingMillisecondsMax) }
        public var throttleRecoveryMilliseconds: Int64 { Int64(packedThrottleRecoveryMilliseconds) }
        /// The higher ``Bucket/longestFillSeconds`` of the two buckets, because an activity's value in Redis has one
        /// time for both.
        public var longestFillSeconds: Int { Int(packedLongestFillSeconds) }
        public var budget: Bucket { packedBudget.makeBucket(longestFillSeconds: packedLongestFillSeconds) }
        public var frequentBudget: Bucket {
            packedFrequentBudget.makeBucket(longestFillSeconds: packedLongestFillSeconds)
        }

        public init(
            spacingMilliseconds: Int64,
            throttledSpacingMillisecondsMax: Int64,
            throttleRecoveryMilliseconds: Int64,
            budget: Bucket,
            frequentBudget: Bucket
        ) {
            packedSpacingMilliseconds = Int32(clamping: spacingMilliseconds)
            packedThrottledSpacingMillisecondsMax = Int32(clamping: throttledSpacingMillisecondsMax)
            packedThrottleRecoveryMilliseconds = Int32(clamping: throttleRecoveryMilliseconds)
            packedLongestFillSeconds = Int32(
                clamping: max(budget.longestFillSeconds, frequentBudget.longestFillSeconds)
            )
            packedBudget = PackedBucket(budget)
            packedFrequentBudget = PackedBucket(frequentBudget)
        }
    }

    /// How old starts and alerts may be when they are sent, and how long APNs stores updates and ends for a phone that
    /// it cannot reach (without an expiration: up to 30 days). Each of these times is 1...43,200 seconds, because an
    /// activity is visible for at most 12 hours. (R20)
    public struct Expiration: Sendable, Equatable {
        /// The maximum age of a start when it is sent, counted from its `aps.timestamp`. APNs stores the start until
        /// the start has this age, but never after the command's expiration.
        public var startSeconds: Int64 = 600
        /// The maximum age of an alert of an update or end when it is sent, counted from its command's `aps.timestamp`.
        /// An older alert is removed, and the state is sent without it.
        public var alertSeconds: Int64 = 300
        /// How long APNs stores an update that has no expiration and no future stale date. APNs stores an update with a
        /// future stale date until that date, but at most for eight hours.
        public var updateSeconds: Int64 = 600
        /// How long APNs stores an end that has no expiration. The default is four hours, because an ended activity
        /// stays on the Lock Screen for up to this time.
        public var endSeconds: Int64 = 14_400
        public init() {}
    }

    /// The name by which commands choose the policy. 1...64 bytes: letters, digits, `-` and `_`.
    public var name: String
    /// The minimum time between two pushes to one activity. 1,000...3,600,000. Shorter times would be useless, because
    /// Apple's timestamps have whole seconds.
    public var spacingMilliseconds: Int64 = 1_000
    /// The budget for pushes of priority 10 to one activity: about as many as a phone allows, by measurements in the
    /// field. The phone delays or drops pushes above its own budget without telling the sender.
    public var budget = Bucket(pushes: 15, refillPerHour: 15, reservedForAlerts: 5)
    /// The budget for pushes of priority 10 to one activity while its user allows frequent updates.
    public var frequentBudget = Bucket(pushes: 200, refillPerHour: 200, reservedForAlerts: 50)
    /// The budget for starts on one device, for all its activities together. The default is eight, because a phone
    /// stops starting activities after about ten starts in a short time. Nothing is reserved for alerts.
    public var startBudget = Bucket(pushes: 8, refillPerHour: 8, reservedForAlerts: 0)
    /// The longest spacing that 429 responses can cause. Each 429 for an activity's token doubles the activity's
    /// spacing, up to this time. ``spacingMilliseconds``...3,600,000.
    public var throttledSpacingMillisecondsMax: Int64 = 60_000
    /// After each time of this length without a 429, one doubling of the spacing is undone. 1,000...3,600,000.
    public var throttleRecoveryMilliseconds: Int64 = 60_000
    public var expiration = Expiration()
    /// The fields of `content-state` that are dropped, in this order, from a body that is too large: at most
    /// ``OversizeFields/fieldsMax`` names, each valid according to ``OversizeFields/isFieldName(_:)``. A command whose
    /// body is still too large is `invalid`.
    public var oversize: [String] = []
    /// How many seconds after an activity's start Causeway ends the activity, with its last state; 0: never. If no
    /// start is known, the time counts from the earliest time at which a record showed that the activity was alive.
    /// 0...``lifetimeSecondsMax``.
    ///
    /// Without this end, Apple's system ends the activity after eight hours, and the app learns of this end only when
    /// the app runs.
    public var lifetimeSeconds: Int64 = 0
    /// Eight hours. After this time, Apple's system ends an activity itself.
    public static let lifetimeSecondsMax = 28_800
    /// What happens after Causeway has ended an activity because its lifetime was over.
    public var afterLifetime = AfterLifetime.end

    /// Whether Causeway starts an activity again after it has ended the activity because the lifetime was over.
    public var restartsActivities: Bool { afterLifetime == .restart && lifetimeSeconds > 0 }

    public enum AfterLifetime: String, Sendable, CaseIterable {
        /// The activity stays ended.
        case end
        /// Causeway starts the activity again with its device's push-to-start token. Two kinds of activities stay
        /// ended:
        /// - Activities that the app itself began, because Causeway knows no start to repeat.
        /// - Members of audiences, because the timetable keeps no state that came through an audience.
        case restart
    }

    public init(name: String) { self.name = name }

    public var pace: Pace {
        Pace(
            spacingMilliseconds: spacingMilliseconds,
            throttledSpacingMillisecondsMax: throttledSpacingMillisecondsMax,
            throttleRecoveryMilliseconds: throttleRecoveryMilliseconds,
            budget: budget,
            frequentBudget: frequentBudget
        )
    }
}
