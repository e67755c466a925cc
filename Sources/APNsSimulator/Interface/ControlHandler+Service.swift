/// Endpoints for the service itself: its description, counts, clock and reset. Two more endpoints compare and sum up
/// what phones show.
extension ControlHandler {
    func describe() async throws(SimulatorError) -> [UInt8] {
        Self.jsonObject { writer in
            writer.member("host", simulator.configuration.host)
            writer.member("port", simulator.port)
            writer.member("managementPort", simulator.managementPort)
            writer.member("environment", simulator.configuration.environment.rawValue)
            if let caFile = simulator.caFile { writer.member("caFile", caFile) }
        }
    }

    func compareActivities(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, expected) = try call.readBody { tape throws(SimulatorError) in
            guard let map = tape.member("activities", of: 0), tape[map].kind == .object else {
                throw SimulatorError(.invalidRequest, "activities is not an object")
            }
            var expected: [(activity: String, contentState: [UInt8]?)] = []
            tape.forEachMember(of: map) { key, value in
                let contentState = tape[value].kind == .null ? nil : Array(tape.json(value))
                expected.append((tape.string(key), contentState))
            }
            return (try tape.requiredText("app", of: 0), expected)
        }
        let comparison = try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.compare(app: app, expected: expected, nowMilliseconds: now)
        }
        return Self.jsonObject { writer in
            writer.member("matching", comparison.matchingActivityCount)
            writer.member(
                "mismatches",
                array: { writer in
                    for mismatch in comparison.mismatchingActivities {
                        writer.object { writer in
                            writer.member("activity", mismatch.activity)
                            writer.member("state", mismatch.state)
                            writer.member("timestamp", mismatch.timestamp)
                            if let shownContentState = mismatch.shownContentState {
                                writer.member("shows", json: Array(shownContentState.utf8))
                            }
                        }
                    }
                }
            )
        }
    }

    func summarize() async throws(SimulatorError) -> [UInt8] {
        let summary = try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            devices.summary(nowMilliseconds: now)
        }
        return Self.jsonObject { writer in
            writer.member("phones", summary.phones)
            writer.member(
                "activities",
                object: { writer in
                    writer.member("active", summary.activeActivities)
                    writer.member("ended", summary.endedActivities)
                    writer.member("gone", summary.goneActivities)
                    writer.member("onChannels", summary.activitiesOnChannels)
                    writer.member("reachedByBroadcasts", summary.activitiesReachedByBroadcasts)
                }
            )
            writer.member("effects", object: { writer in summary.effects.write(to: &writer) })
            writer.member("broadcastsReceived", summary.broadcastsReceived)
            writer.member("alerts", summary.alerts)
            writer.member("duplicateStarts", summary.duplicateStarts)
            writer.member("repeatedAlerts", summary.repeatedAlerts)
            writer.member("suspiciousDates", summary.suspiciousDates)
            writer.member("equalTimestamps", summary.equalTimestampPushes)
            writer.member("regressions", summary.timestampRegressions)
            writer.member("priority10PushesMax", summary.mostPriority10Pushes)
            if let gapMilliseconds = summary.shortestGapMilliseconds {
                writer.member("leastDistanceMilliseconds", gapMilliseconds)
            }
            writer.member("registrations", summary.registrations)
        }
    }

    func getStatistics() async throws(SimulatorError) -> [UInt8] {
        let statistics = try await simulator.statistics()
        return Self.jsonObject { writer in
            writer.member("requests", statistics.requests)
            writer.member("requestsLastSecond", statistics.requestsLastSecond)
            writer.member("requestsPerSecondMax", statistics.requestsInBusiestSecond)
            writer.member("accepted", statistics[.success])
            writer.member(
                "acceptedByPriority",
                object: { writer in
                    writer.member("5", statistics.priority5Pushes)
                    writer.member("10", statistics.priority10Pushes)
                }
            )
            writer.member(
                "refused",
                object: { writer in
                    for reason in Reason.allCases where reason != .success && statistics[reason] > 0 {
                        writer.member("\(reason.status) \(reason.text)", statistics[reason])
                    }
                }
            )
            writer.member("broadcasts", statistics.broadcasts)
            writer.member("managementRequests", statistics.managementRequests)
            writer.member("channelsCreated", statistics.channelsCreated)
            writer.member("channelsDeleted", statistics.channelsDeleted)
            writer.member("streamsRefused", statistics.streamsRefused)
            writer.member("streamsReset", statistics.streamsReset)
            writer.member("requestsUnanswered", statistics.requestsWithoutResponse)
            writer.member("pushLogLinesLost", statistics.pushLogLinesLost)
            writer.member("goAways", statistics.goAways)
            writer.member("connectionsCut", statistics.connectionsCut)
            writer.member("connectionsSilenced", statistics.connectionsSilenced)
            writer.member("oddAnswers", statistics.undocumentedResponses)
            writer.member("informationalAnswers", statistics.informationalResponses)
            writer.member("connectionsAccepted", statistics.connectionsAccepted)
            writer.member("connectionsOpen", statistics.connectionsOpen)
            writer.member("tokenVerifications", statistics.tokenVerifications)
        }
    }

    func advanceClock(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let milliseconds = try call.readBody { tape throws(SimulatorError) in
            try tape.optionalInt64("advanceMilliseconds", of: 0)
        }
        guard let milliseconds, milliseconds >= 0 else {
            throw SimulatorError(.invalidRequest, "advanceMilliseconds is not a whole number from 0")
        }
        try await simulator.advanceClock(milliseconds: milliseconds)
        return Self.jsonObject { _ in }
    }

    func reset() async throws(SimulatorError) -> [UInt8] {
        try await simulator.reset()
        return Self.jsonObject { _ in }
    }
}
