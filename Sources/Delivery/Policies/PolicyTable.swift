import LiveActivity

/// The policies as the core uses them. Records name a policy by its index in this table.
package struct PolicyTable: Sendable {
    /// The numbers of one policy. The type has no references, so the core can copy it cheaply.
    package struct CompactPolicy: BitwiseCopyable {
        package var pace: Policy.Pace
        package var startBudget: Policy.Bucket
        /// A start whose device's budget was empty asks Redis for the budget again after this time at the latest.
        package var startBudgetRecheckMillisecondsMax: Int64
        /// The greatest age of a start: `expiration.startSeconds` of the policy.
        package var startAgeSecondsMax: Int64
        /// The greatest age of an alert: `expiration.alertSeconds` of the policy.
        package var alertAgeSecondsMax: Int64
        /// For how long APNs stores an update if the command does not say it (`setSentExpiration`):
        /// `expiration.updateSeconds` of the policy.
        package var updateExpirationSeconds: Int64
        /// For how long APNs stores an end if the command does not say it: `expiration.endSeconds` of the policy.
        package var endExpirationSeconds: Int64
    }

    private let policyNames: [[UInt8]]
    private let compactPolicies: [CompactPolicy]
    /// The fields that each policy may drop from a body that is too large for APNs.
    private let oversizeFieldsByPolicy: [OversizeFields]
    /// How long an activity of each policy may live; 0: without limit.
    private let lifetimeMillisecondsByPolicy: [Int64]
    private let restartsActivitiesByPolicy: [Bool]
    /// Whether any policy limits the lifetime of activities. If not, the core reports nothing to a timetable, except
    /// for lifetime commands.
    package let limitsLifetimes: Bool
    /// Whether any policy starts activities again after their lifetime. Then an end also ends a life whose start is
    /// newer than the end, because Causeway may have made that start (`StateAdmission.endsNewerLife`, R13).
    package let restartsActivities: Bool

    package init(_ policies: [Policy]) {
        policyNames = policies.map { Array($0.name.utf8) }
        oversizeFieldsByPolicy = policies.map { OversizeFields($0.oversize) }
        compactPolicies = Self.withLongestFillSeconds(policies)
            .map {
                CompactPolicy(
                    pace: $0.pace,
                    startBudget: $0.startBudget,
                    startBudgetRecheckMillisecondsMax: $0.startBudget.intervalMilliseconds,
                    startAgeSecondsMax: $0.expiration.startSeconds,
                    alertAgeSecondsMax: $0.expiration.alertSeconds,
                    updateExpirationSeconds: $0.expiration.updateSeconds,
                    endExpirationSeconds: $0.expiration.endSeconds
                )
            }
        lifetimeMillisecondsByPolicy = policies.map { $0.lifetimeSeconds * 1_000 }
        restartsActivitiesByPolicy = policies.map(\.restartsActivities)
        limitsLifetimes = lifetimeMillisecondsByPolicy.contains { $0 > 0 }
        restartsActivities = policies.contains(where: \.restartsActivities)
    }

    /// Returns copies of the policies in which each bucket has ``Policy/Bucket/longestFillSeconds``: the longest time
    /// that any of the policies needs to fill its bucket of the same kind.
    private static func withLongestFillSeconds(_ policies: [Policy]) -> [Policy] {
        let budgetFillSeconds = policies.map { max($0.budget.fillSeconds, $0.frequentBudget.fillSeconds) }.max() ?? 0
        let startBudgetFillSeconds = policies.map(\.startBudget.fillSeconds).max() ?? 0
        return policies.map {
            var policy = $0
            policy.budget.longestFillSeconds = budgetFillSeconds
            policy.frequentBudget.longestFillSeconds = budgetFillSeconds
            policy.startBudget.longestFillSeconds = startBudgetFillSeconds
            return policy
        }
    }

    package subscript(_ policyIndex: UInt8) -> CompactPolicy { compactPolicies[Int(policyIndex)] }

    package func oversizeFields(_ policyIndex: UInt8) -> OversizeFields { oversizeFieldsByPolicy[Int(policyIndex)] }
    /// Returns how long an activity of this policy may live, in milliseconds; 0: without limit.
    package func lifetimeMilliseconds(_ policyIndex: UInt8) -> Int64 { lifetimeMillisecondsByPolicy[Int(policyIndex)] }
    /// Whether Causeway starts an activity of this policy again after the end of its lifetime.
    package func restartsAfterLifetime(_ policyIndex: UInt8) -> Bool {
        restartsActivitiesByPolicy[Int(policyIndex)]
    }

    /// Returns the index of the policy with this name; nil if there is none.
    package func index(of name: UnsafeRawBufferPointer) -> UInt8? {
        for position in 0..<policyNames.count {
            let isSameName = policyNames[position].withUnsafeBytes { $0.hasSameBytes(as: name) }
            if isSameName { return UInt8(position) }
        }
        return nil
    }
}
