/// Endpoints for the service itself: its description, counts, clock and reset. Two more endpoints compare and sum up
/// what phones show.
extension ControlHandler {
    func describeService() async throws(SimulatorError) -> [UInt8] {
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
            return (try tape.requiredString("app", of: 0), expected)
        }
        let comparison = try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.compareContentStates(app: app, expected: expected, nowMilliseconds: now)
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

    func summarizeDevices() async throws(SimulatorError) -> [UInt8] {
        let summary = try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            devices.summary(nowMilliseconds: now)
        }
        return Self.jsonObject { writer in
            writer.member("phones", summary.phoneCount)
            writer.member(
                "activities",
                object: { writer in
                    writer.member("active", summary.activeActivityCount)
                    writer.member("ended", summary.endedActivityCount)
                    writer.member("gone", summary.goneActivityCount)
                    writer.member("onChannels", summary.subscribedActivityCount)
                    writer.member("reachedByBroadcasts", summary.reachedActivityCount)
                }
            )
            writer.member("effects", object: { writer in summary.effects.write(to: &writer) })
            writer.member("broadcastsReceived", summary.receivedBroadcastCount)
            writer.member("alerts", summary.alertCount)
            writer.member("duplicateStarts", summary.duplicateStartCount)
            writer.member("repeatedAlerts", summary.repeatedAlertCount)
            writer.member("suspiciousDates", summary.suspiciousDateCount)
            writer.member("equalTimestamps", summary.equalTimestampPushCount)
            writer.member("regressions", summary.timestampRegressionCount)
            writer.member("priority10PushesMax", summary.busiestActivityPriority10PushCount)
            if let gapMilliseconds = summary.shortestGapMilliseconds {
                writer.member("leastDistanceMilliseconds", gapMilliseconds)
            }
            writer.member("registrations", summary.registrationCount)
        }
    }

    func getStatistics() async throws(SimulatorError) -> [UInt8] {
        let statistics = try await simulator.statistics()
        return Self.jsonObject { writer in
            writer.member("requests", statistics.requestCount)
            writer.member("requestsLastSecond", statistics.lastSecondRequestCount)
            writer.member("requestsPerSecondMax", statistics.busiestSecondRequestCount)
            writer.member("accepted", statistics[.success])
            writer.member(
                "acceptedByPriority",
                object: { writer in
                    writer.member("5", statistics.priority5PushCount)
                    writer.member("10", statistics.priority10PushCount)
                }
            )
            writer.member(
                "refused",
                object: { writer in
                    for reason in SimulatedResponse.allCases where reason != .success && statistics[reason] > 0 {
                        writer.member("\(reason.status) \(reason.text)", statistics[reason])
                    }
                }
            )
            writer.member("broadcasts", statistics.broadcastCount)
            writer.member("managementRequests", statistics.managementRequestCount)
            writer.member("channelsCreated", statistics.createdChannelCount)
            writer.member("channelsDeleted", statistics.deletedChannelCount)
            writer.member("streamsRefused", statistics.refusedStreamCount)
            writer.member("streamsReset", statistics.resetStreamCount)
            writer.member("requestsWithoutResponse", statistics.requestWithoutResponseCount)
            writer.member("pushLogLinesLost", statistics.lostPushLogLineCount)
            writer.member("goAways", statistics.goAwayCount)
            writer.member("connectionsCut", statistics.cutConnectionCount)
            writer.member("connectionsSilenced", statistics.halfOpenConnectionCount)
            writer.member("undocumentedResponses", statistics.undocumentedResponseCount)
            writer.member("informationalResponses", statistics.informationalResponseCount)
            writer.member("connectionsAccepted", statistics.acceptedConnectionCount)
            writer.member("connectionsOpen", statistics.openConnectionCount)
            writer.member("tokenVerifications", statistics.tokenVerificationCount)
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
