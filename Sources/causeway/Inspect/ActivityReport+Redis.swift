import ActivityStore
import CausewayWorker
import LiveActivity

import enum CausewayRecords.JSONValue

extension ActivityReport {
    /// Makes the report from an activity's value in Redis.
    ///
    /// - Parameters:
    ///   - policy: the report calculates pace and budget with this policy. Redis does not know the policies of the
    ///     commands, so the caller gives the policy of the newest pushed command, or the app's default policy.
    ///   - lifetimeEndsAtMilliseconds: when the activity must end according to the timetable. Nil if the timetable does
    ///     not have the activity, or was not read.
    init(
        _ inspection: ActivityInspection,
        app: InspectedApp,
        activity: String,
        policy: Policy,
        lifetimeEndsAtMilliseconds: Int64? = nil,
        nowMilliseconds: Int64
    ) {
        let paceSettings = policy.pace
        self.init(
            app: app.bundleId,
            activity: activity,
            nowMilliseconds: nowMilliseconds,
            policyName: policy.name,
            token: inspection.token.map(Token.init),
            registeredAtMilliseconds: inspection.registeredAtMilliseconds,
            allowsFrequentUpdates: inspection.allowsFrequentUpdates,
            audienceCount: inspection.audiences.count,
            newestVersion: inspection.newestVersion.map(NewestVersion.init),
            lastSentVersion: inspection.lastPush.map {
                SentVersion(timestamp: $0.timestamp, atMilliseconds: $0.sentAtMilliseconds)
            },
            shownDigest: inspection.shownDigest,
            heldCommand: inspection.heldCommand.map {
                HeldCommand(
                    version: $0.version,
                    commandJSON: JSONValue(parsing: $0.command) ?? .null,
                    hasAlert: $0.hasAlert
                )
            },
            pace: Pace(
                spacingMilliseconds: inspection.spacingMilliseconds(paceSettings, nowMilliseconds: nowMilliseconds),
                spacingDoublingCount: inspection.spacingDoublingCount(paceSettings, nowMilliseconds: nowMilliseconds),
                nextPushAtMilliseconds: inspection.spacingEndMilliseconds(
                    paceSettings,
                    nowMilliseconds: nowMilliseconds
                )
            ),
            budget: Budget(inspection.remainingBudget(paceSettings, nowMilliseconds: nowMilliseconds)),
            updatesUntilMilliseconds: inspection.updatesUntilMilliseconds,
            lifetimeEndsAtMilliseconds: lifetimeEndsAtMilliseconds
        )
    }
}

extension DeviceReport {
    /// Makes the report from a device's hash in Redis. `policy` sets the budget for starts.
    init(
        _ inspection: DeviceInspection,
        app: InspectedApp,
        device: String,
        policy: Policy,
        nowMilliseconds: Int64
    ) {
        self.init(
            app: app.bundleId,
            device: device,
            nowMilliseconds: nowMilliseconds,
            policyName: policy.name,
            startBudget: ActivityReport.Budget(
                inspection.remainingStartBudget(policy.startBudget, nowMilliseconds: nowMilliseconds)
            ),
            attributesTypeReports: inspection.attributesTypeStates.map { typeState in
                AttributesTypeReport(
                    attributesType: typeState.attributesType,
                    token: typeState.token.map(ActivityReport.Token.init),
                    registeredAtMilliseconds: typeState.token == nil ? nil : typeState.registeredAtMilliseconds,
                    heldStarts: typeState.heldStarts.map {
                        HeldCommand(
                            version: $0.version,
                            commandJSON: JSONValue(parsing: $0.command) ?? .null,
                            hasAlert: true
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

extension ActivityReport.NewestVersion {
    fileprivate init(_ newest: ActivityInspection.NewestVersion) {
        self.init(version: newest.version, isEnd: newest.isEnd, phase: newest.phase)
    }
}

extension ActivityReport.Budget {
    init(_ budget: InspectedBudget) {
        self.init(
            remainingDrawCount: budget.remainingDrawCount,
            drawsMax: budget.bucket.pushes,
            reservedDrawCount: budget.bucket.reservedForAlerts,
            fullAtMilliseconds: budget.fullAtMilliseconds
        )
    }
}
