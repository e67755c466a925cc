import LiveActivity

/// The settings that a lane can take while it runs. The configuration of each core contains one value of this type. A
/// reload replaces the whole value.
public struct ReloadableSettings: Sendable {
    /// The settings of one app.
    public struct App: Sendable {
        /// The index of the app's default policy in ``ReloadableSettings/policies``. This policy applies to:
        /// - registrations
        /// - commands that name no policy
        /// - held and deferred commands whose policy is no longer configured, except deferred lifetime commands: they
        ///   are `invalid`
        public var defaultPolicyIndex = 0
        /// The app's contract, which says what its phones can decode; nil if none is configured.
        public var contract: ContractRule?
    }

    /// The policies, 1 to ``DeliveryConfiguration/policiesMax``. A command may name one of them; otherwise its app's
    /// default policy applies. Records in the lane name a policy by its index. So a reload changes no index: it appends
    /// new policies and keeps removed ones.
    public var policies = [Policy(name: "default")]
    /// An element for each app, in the order of ``DeliveryConfiguration/apps``.
    public var apps: [App]
    /// The longest pause after failures that only delay a push (``DeliveryConfiguration/retryBaseMilliseconds``, R18).
    /// A push that the retry budget does not permit may wait longer
    /// (``DeliveryConfiguration/retryBudgetPauseMilliseconds``).
    public var retryMillisecondsMax: Int64 = 300_000
    /// After this time in the lane, a command is deferred unless the lane expects to send it within
    /// `deferredDelayMilliseconds`. Some commands are deferred earlier: `Delivery.isOverdue` says which. With the
    /// default, a short outage of APNs defers no command.
    public var deferAfterMilliseconds: Int64 = 10_000
    /// After this time a deferred command comes back from the deferred topic; earlier if a blocked pool of the lane
    /// sends again. The defaults of `deferAfterMilliseconds` and of this delay are together less than a minute, so that
    /// offsets are settled within a minute.
    public var deferredDelayMilliseconds: Int64 = 30_000
    /// A lane that is behind by more than this many records of the commands topic begins to read ahead. While it reads
    /// ahead, it begins no command, so newer states replace most of the backlog before anything is sent.
    public var readAheadLagRecords: Int64 = 10_000
    /// The longest time that a lane reads ahead without a break, even if it is still far behind.
    public var readAheadMillisecondsMax: Int64 = 30_000

    package init(appCount: Int) { apps = Array(repeating: App(), count: appCount) }

    /// Traps if a value is out of its range. The caller has already checked the values that an operator may set.
    package func validate(appCount: Int) {
        precondition((1...DeliveryConfiguration.policiesMax).contains(policies.count))
        for policy in policies { validate(policy) }
        precondition(apps.count == appCount)
        precondition(apps.allSatisfy { policies.indices.contains($0.defaultPolicyIndex) })
        precondition(retryMillisecondsMax > 0)
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
            policy.oversize.count <= OversizeFields.fieldsMax && policy.oversize.allSatisfy(OversizeFields.isFieldName)
        )
        precondition(policy.expiration.updateSeconds > 0 && policy.expiration.endSeconds > 0)
    }
}
