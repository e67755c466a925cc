import ActivityStore
import CausewayWorker
import LiveActivity

import enum CausewayRecords.JSONValue

extension ActivityReport {
    /// Makes the report from an activity's value in Redis and the settings of its policy.
    init(
        _ inspection: ActivityInspection,
        app: InspectedApp,
        activity: String,
        policy: Policy,
        lifetimeEndsMilliseconds: Int64? = nil,
        nowMilliseconds now: Int64
    ) {
        let numbers = policy.pace
        self.init(
            app: app.bundleIdentifier,
            activity: activity,
            nowMilliseconds: now,
            policy: policy.name,
            token: inspection.token.map(Token.init),
            registeredAtMilliseconds: inspection.registeredAtMilliseconds,
            allowsFrequentUpdates: inspection.allowsFrequentUpdates,
            newest: inspection.newest.map(Newest.init),
            sent: inspection.lastPush.map {
                Sent(timestamp: $0.timestamp, atMilliseconds: $0.atMilliseconds)
            },
            shownDigest: inspection.shownDigest,
            held: inspection.heldCommand.map {
                HeldCommand(
                    version: $0.version,
                    record: JSONValue(parsing: $0.command) ?? .null,
                    carriesAlert: $0.carriesAlert
                )
            },
            pace: Pace(
                spacingMilliseconds: inspection.spacingMilliseconds(numbers, nowMilliseconds: now),
                spacingDoublings: inspection.spacingDoublings(numbers, nowMilliseconds: now),
                nextPushAtMilliseconds: inspection.waitUntilMilliseconds(numbers, nowMilliseconds: now)
            ),
            budget: Budget(inspection.budget(numbers, nowMilliseconds: now)),
            updatesUntilMilliseconds: inspection.updatesUntilMilliseconds,
            lifetimeEndsMilliseconds: lifetimeEndsMilliseconds
        )
    }
}

extension DeviceReport {
    /// Makes the report from a device's hash in Redis and the settings of its policy.
    init(
        _ inspection: DeviceInspection,
        app: InspectedApp,
        device: String,
        policy: Policy,
        nowMilliseconds now: Int64
    ) {
        self.init(
            app: app.bundleIdentifier,
            device: device,
            nowMilliseconds: now,
            policy: policy.name,
            starts: ActivityReport.Budget(
                inspection.startBudget(policy.startBudget, nowMilliseconds: now)
            ),
            addresses: inspection.slots.map { slot in
                Address(
                    attributesType: slot.attributesType,
                    token: slot.token.map(ActivityReport.Token.init),
                    registeredAtMilliseconds: slot.registeredAtMilliseconds,
                    held: slot.heldStarts.map {
                        HeldCommand(
                            version: $0.version,
                            record: JSONValue(parsing: $0.command) ?? .null,
                            carriesAlert: true
                        )
                    }
                )
            }
        )
    }
}

extension ActivityReport.Token {
    fileprivate init(_ token: InspectedToken) {
        self.init(
            fingerprint: TokenFingerprint.text(of: token.token),
            environment: token.environment
        )
    }
}

extension ActivityReport.Newest {
    fileprivate init(_ newest: ActivityInspection.NewestVersion) {
        self.init(version: newest.version, isEnd: newest.isEnd, state: newest.state)
    }
}

extension ActivityReport.Budget {
    init(_ budget: InspectedBudget) {
        self.init(
            left: budget.pushesLeft,
            pushes: budget.bucket.pushes,
            reserved: budget.bucket.reservedForAlerts,
            fullAtMilliseconds: budget.fullAtMilliseconds
        )
    }
}
