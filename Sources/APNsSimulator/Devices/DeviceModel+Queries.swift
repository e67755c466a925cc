/// Queries about what each phone shows and what happened to the pushes.
extension DeviceModel {
    /// An activity that does not show the expected content state, with its actual state.
    public struct ContentMismatch: Sendable, Equatable {
        public var activity: String
        /// The content state on the Lock Screen, as JSON; nil if there is none.
        public var shownContentState: String?
        /// The timestamp of the shown content, UNIX seconds; 0 if nothing is shown.
        public var timestamp: Int64
        /// The state of the activity: `unknown`, `active`, `ended` or `gone`.
        public var state: String
    }

    /// How many activities show the expected content states, and which ones do not.
    public struct ContentComparison: Sendable, Equatable {
        public var matchingActivityCount = 0
        public var mismatchingActivities: [ContentMismatch] = []
    }

    /// Figures about all phones except compact ones.
    public struct Summary: Sendable, Equatable {
        public var phoneCount = 0
        public var activeActivityCount = 0
        public var endedActivityCount = 0
        public var goneActivityCount = 0
        /// Active activities on a channel.
        public var subscribedActivityCount = 0
        /// Activities that at least one broadcast has reached, including ended ones.
        public var reachedActivityCount = 0
        /// The broadcasts that have reached activities, counted once for each activity.
        public var receivedBroadcastCount = 0
        public var effects = EffectCounts()
        public var alertCount = 0
        /// Starts by push that repeated the start of an activity which was still active: the attributes and the alerts
        /// were equal, and the timestamps differed by a few seconds at most.
        public var duplicateStartCount = 0
        /// Alerts that repeated an earlier alert of the same activity.
        public var repeatedAlertCount = 0
        public var suspiciousDateCount = 0
        public var equalTimestampPushCount = 0
        public var timestampRegressionCount = 0
        /// The largest number of pushes with priority 10 to one activity.
        public var busiestActivityPriority10PushCount = 0
        /// The shortest time between two pushes to one activity; nil if no activity got two.
        public var shortestGapMilliseconds: Int64?
        public var registrationCount = 0
    }

    /// Compares what activities show with what they should show. If an expected `contentState` is nil, the activity
    /// should not be on the Lock Screen. An unknown activity is always a mismatch. If several activities have the same
    /// id, the youngest counts.
    ///
    /// Two content states are equal if they are the same JSON, regardless of spaces and of the order of keys.
    public mutating func compareContentStates(
        app: String,
        expected: [(activity: String, contentState: [UInt8]?)],
        nowMilliseconds: Int64
    ) throws(Fault) -> ContentComparison {
        let appIndex = try appIndex(app)
        var comparison = ContentComparison()
        var expectedTape = JSONTape()
        var shownTape = JSONTape()
        for (identifier, contentState) in expected {
            let key = AppScopedIdentifier(appIndex: appIndex, identifier: identifier)
            guard let index = activityIndicesByIdentifier[key]?.last else {
                comparison.mismatchingActivities.append(
                    ContentMismatch(activity: identifier, shownContentState: nil, timestamp: 0, state: "unknown")
                )
                continue
            }
            advance(index, nowMilliseconds: nowMilliseconds)
            let shownContentState = activities[index].isVisible ? activities[index].shownContentState : nil
            let isSame: Bool
            if let contentState, let shownContentState {
                isSame =
                    contentState == shownContentState
                    || isSameJSONText(contentState, shownContentState, &expectedTape, &shownTape)
            } else {
                isSame = contentState == nil && shownContentState == nil
            }
            if isSame {
                comparison.matchingActivityCount += 1
            } else {
                comparison.mismatchingActivities.append(
                    ContentMismatch(
                        activity: identifier,
                        shownContentState: shownContentState.map { String(decoding: $0, as: UTF8.self) },
                        timestamp: shownContentState == nil ? 0 : activities[index].shownTimestamp,
                        state: activities[index].state.name
                    )
                )
            }
        }
        return comparison
    }

    private func isSameJSONText(
        _ left: [UInt8],
        _ right: [UInt8],
        _ leftTape: inout JSONTape,
        _ rightTape: inout JSONTape
    ) -> Bool {
        left.withUnsafeBytes { leftText in
            right.withUnsafeBytes { rightText in
                do throws(JSONTape.Fault) {
                    try leftTape.read(leftText)
                    try rightTape.read(rightText)
                } catch {
                    return false
                }
                return isSameJSON(leftTape, at: 0, rightTape, at: 0)
            }
        }
    }

    public mutating func summary(nowMilliseconds: Int64) -> Summary {
        var summary = Summary()
        summary.phoneCount = installations.count
        summary.registrationCount = registrations.postedCount
        summary.effects[.acceptedForDeadToken] = acceptedForDeadTokenCount
        for index in activities.indices {
            advance(index, nowMilliseconds: nowMilliseconds)
            switch activities[index].state {
            case .active:
                summary.activeActivityCount += 1
                if activities[index].channelIndex != nil { summary.subscribedActivityCount += 1 }
            case .ended: summary.endedActivityCount += 1
            case .gone: summary.goneActivityCount += 1
            }
            // Leave out `started`: each start by push is counted both at its activity and at its phone, and the loop
            // over the phones below adds it.
            for effect in PushEffect.allCases where effect != .started {
                summary.effects[effect] += activities[index].effects[effect]
            }
            if activities[index].receivedBroadcastCount > 0 { summary.reachedActivityCount += 1 }
            summary.receivedBroadcastCount += activities[index].receivedBroadcastCount
            summary.alertCount += activities[index].alertCount
            summary.repeatedAlertCount += activities[index].repeatedAlertCount
            summary.suspiciousDateCount += activities[index].suspiciousDateCount
            summary.equalTimestampPushCount += activities[index].equalTimestampPushCount
            summary.timestampRegressionCount += activities[index].timestampRegressionCount
            summary.busiestActivityPriority10PushCount = max(
                summary.busiestActivityPriority10PushCount,
                activities[index].pushStatistics.priority10PushCount
            )
            if let gapMilliseconds = activities[index].pushStatistics.shortestGapMilliseconds {
                summary.shortestGapMilliseconds = min(
                    summary.shortestGapMilliseconds ?? gapMilliseconds,
                    gapMilliseconds
                )
            }
        }
        for installation in installations {
            for effect in PushEffect.allCases { summary.effects[effect] += installation.effects[effect] }
            summary.duplicateStartCount += installation.duplicateStartCount
        }
        return summary
    }

    /// Returns at most `limit` registrations in the order of posting, from number `cursor` on. The first registration
    /// that was ever posted has number 0. Returns nil if the log has dropped registration `cursor`, or if the cursor is
    /// above ``registrationCount``.
    public func registrations(since cursor: Int, limit: Int) -> [RegistrationRecord]? {
        registrations.records(since: cursor, limit: limit).map(Array.init)
    }

    /// Writes an activity as JSON. If several activities have this id, writes the youngest.
    public mutating func activityJSON(_ identifier: String, app: String, nowMilliseconds: Int64) throws(Fault)
        -> [UInt8]
    {
        let index = try activityIndex(identifier, appIndex: try appIndex(app))
        advance(index, nowMilliseconds: nowMilliseconds)
        var writer = SimulatorJSONWriter()
        write(activity: index, to: &writer, nowMilliseconds: nowMilliseconds, includesAlerts: true)
        return writer.bytes
    }

    /// Returns the first alerts of an activity in order, at most `Activity.keptAlertsMax`. If several activities have
    /// this id, returns those of the youngest.
    public func alerts(ofActivity identifier: String, app: String) throws(Fault) -> [Alert] {
        activities[try activityIndex(identifier, appIndex: try appIndex(app))].alerts
    }

    /// Writes a phone and all its activities as JSON.
    public mutating func phoneJSON(_ device: String, app: String, nowMilliseconds: Int64) throws(Fault) -> [UInt8] {
        phoneJSON(at: try installationIndex(device, appIndex: try appIndex(app)), nowMilliseconds: nowMilliseconds)
    }

    /// Writes the phone with this number, from 0 in the order of installation, as JSON; nil if there is none.
    public mutating func phoneJSON(number: Int, nowMilliseconds: Int64) -> [UInt8]? {
        installations.indices.contains(number) ? phoneJSON(at: number, nowMilliseconds: nowMilliseconds) : nil
    }

    private mutating func phoneJSON(at index: Int, nowMilliseconds: Int64) -> [UInt8] {
        for activity in installations[index].activityIndices { advance(activity, nowMilliseconds: nowMilliseconds) }
        let installation = installations[index]
        var writer = SimulatorJSONWriter()
        writer.object { writer in
            writer.member("app", apps[installation.appIndex].bundleId)
            writer.member("device", installation.device)
            writer.member("environment", installation.environment.rawValue)
            writer.member("frequentUpdates", installation.hasFrequentUpdates)
            writer.member("installed", installation.isInstalled)
            writer.member("channels", installation.supportsChannels)
            writer.member("online", installation.isOnline)
            writer.member(
                "pushToStartTokens",
                object: { writer in
                    for (position, token) in installation.startTokenIndices.enumerated() {
                        let type = types[apps[installation.appIndex].typeIndices[position]]
                        writer.member(type.name, tokens.hexadecimal(token))
                    }
                }
            )
            write(installation.effects, to: &writer)
            writer.member("duplicateStarts", installation.duplicateStartCount)
            if let problem = installation.lastProblem { writer.member("lastProblem", problem) }
            writer.member(
                "activities",
                array: { writer in
                    for activity in installation.activityIndices {
                        write(activity: activity, to: &writer, nowMilliseconds: nowMilliseconds, includesAlerts: true)
                    }
                }
            )
        }
        return writer.bytes
    }

    /// Writes at most `limit` activities of an app as JSON, oldest first.
    ///
    /// - Parameter position: where to begin in the list of the activities of all apps: 0, or `next` of an earlier
    ///   response.
    public mutating func activitiesJSON(
        app: String,
        since position: Int,
        limit: Int,
        includesAlerts: Bool,
        nowMilliseconds: Int64
    ) throws(Fault) -> [UInt8] {
        let appIndex = try appIndex(app)
        var writtenCount = 0
        var next = max(0, position)
        var indices: [Int] = []
        while next < activities.count, writtenCount < limit {
            if installations[activities[next].installationIndex].appIndex == appIndex {
                advance(next, nowMilliseconds: nowMilliseconds)
                indices.append(next)
                writtenCount += 1
            }
            next += 1
        }
        var writer = SimulatorJSONWriter()
        writer.object { writer in
            writer.member("next", next)
            writer.member(
                "activities",
                array: { writer in
                    for index in indices {
                        write(
                            activity: index,
                            to: &writer,
                            nowMilliseconds: nowMilliseconds,
                            includesAlerts: includesAlerts
                        )
                    }
                }
            )
        }
        return writer.bytes
    }

    private func write(
        activity index: Int,
        to writer: inout SimulatorJSONWriter,
        nowMilliseconds: Int64,
        includesAlerts: Bool
    ) {
        let activity = activities[index]
        writer.object { writer in
            writer.member("activity", activity.identifier)
            writer.member("device", installations[activity.installationIndex].device)
            writer.member("attributesType", types[activity.typeIndex].name)
            writer.member("startedBy", activity.isStartedByPush ? "push" : "app")
            writer.member("startedAt", activity.startedAtMilliseconds)
            writer.member("state", activity.state.name)
            if let endedOrRemovedAtMilliseconds = activity.endedOrRemovedAtMilliseconds {
                writer.member("endedAt", endedOrRemovedAtMilliseconds)
            }
            if case .ended(_, let dismissalAtMilliseconds) = activity.state {
                writer.member("dismissalAt", dismissalAtMilliseconds)
            }
            writer.member("attributes", json: activity.attributes)
            writer.member("contentState", json: activity.shownContentState)
            writer.member("timestamp", activity.shownTimestamp)
            writer.member("shownAt", activity.shownAtMilliseconds)
            if let staleDateSeconds = activity.staleDateSeconds {
                writer.member("staleDate", staleDateSeconds)
                writer.member("isStale", nowMilliseconds / 1_000 >= staleDateSeconds)
            }
            if let score = activity.relevanceScore { writer.member("relevanceScore", score) }
            if let token = activity.tokenIndex { writer.member("token", tokens.hexadecimal(token)) }
            if let channel = activity.channelIndex {
                writer.member("channel", channels[channel].identifier)
                writer.member("broadcastsReceived", activity.receivedBroadcastCount)
            }
            write(activity.effects, to: &writer)
            writer.member(
                "pushesByPriority",
                object: { writer in
                    writer.member("5", activity.pushStatistics.priority5PushCount)
                    writer.member("10", activity.pushStatistics.priority10PushCount)
                }
            )
            if let gapMilliseconds = activity.pushStatistics.shortestGapMilliseconds {
                writer.member("leastDistanceMilliseconds", gapMilliseconds)
            }
            writer.member("suspiciousDates", activity.suspiciousDateCount)
            writer.member("equalTimestamps", activity.equalTimestampPushCount)
            writer.member("regressions", activity.timestampRegressionCount)
            if let problem = activity.lastProblem { writer.member("lastProblem", problem) }
            writer.member("alertCount", activity.alertCount)
            writer.member("repeatedAlerts", activity.repeatedAlertCount)
            if includesAlerts { write(activity.alerts, to: &writer) }
        }
    }

    func write(_ effects: EffectCounts, to writer: inout SimulatorJSONWriter) {
        writer.member("effects", object: { writer in effects.write(to: &writer) })
    }

    private func write(_ alerts: [Alert], to writer: inout SimulatorJSONWriter) {
        writer.member(
            "alerts",
            array: { writer in
                for alert in alerts {
                    writer.object { writer in
                        writer.member("at", alert.rangAtMilliseconds)
                        writer.member("priority", alert.priority)
                        writer.member("timestamp", alert.timestamp)
                        writer.member("alert", json: alert.json)
                    }
                }
            }
        )
    }
}

extension EffectCounts {
    /// Writes each count that is not 0. The key is the name of the effect.
    func write(to writer: inout SimulatorJSONWriter) {
        for effect in PushEffect.allCases where self[effect] > 0 {
            writer.member(String(describing: effect), self[effect])
        }
    }
}

extension Activity {
    /// Whether the activity is on the Lock Screen.
    var isVisible: Bool {
        if case .gone = state { return false }
        return true
    }
}

extension SimulatedActivityState {
    var name: String {
        switch self {
        case .active: "active"
        case .ended: "ended"
        case .gone: "gone"
        }
    }
}
