public import LiveActivity
public import Redis

extension PaceNumbers {
    /// A policy's numbers as the scripts decide by them.
    public init(_ policy: Policy) {
        self.init(
            spacingMilliseconds: policy.spacingMilliseconds,
            throttledSpacingMaxMilliseconds: policy.throttledSpacingMaxMilliseconds,
            throttleRecoveryMilliseconds: policy.throttleRecoveryMilliseconds,
            budget: BucketNumbers(policy.budget),
            frequentBudget: BucketNumbers(policy.frequentBudget)
        )
    }
}

extension BucketNumbers {
    /// A bucket as the scripts count it.
    public init(_ bucket: Policy.Bucket) {
        self.init(
            intervalMilliseconds: bucket.intervalMilliseconds,
            pushes: bucket.pushes,
            reserved: bucket.reservedForAlerts
        )
    }
}
