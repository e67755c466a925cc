import APNsSimulator
import Testbed
import Testing

@testable import APNs

/// A pool sends pushes while the simulator injects faults. Each push has one outcome, none is lost, and none reaches
/// its phone twice. The simulator's own log proves this.
@Suite(.serialized) struct SimulatorFaultTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let faults: Faults
        /// What this fault must cause, besides the expectations for every fault.
        let expect: @Sendable (SentPushes, ServiceStatistics) -> Void
        var requestTimeoutMilliseconds: Int64 = 10_000

        init(
            _ name: String,
            timeout: Int64 = 10_000,
            _ adjust: (inout Faults) -> Void,
            expect: @escaping @Sendable (SentPushes, ServiceStatistics) -> Void
        ) {
            testDescription = name
            var faults = Faults()
            adjust(&faults)
            self.faults = faults
            self.expect = expect
            requestTimeoutMilliseconds = timeout
        }
    }

    static let pushCount = 2_000

    static let connectionCases: [Case] = [
        Case("nothing") { _ in
        } expect: { sent, _ in
            #expect(sent.count(.accepted) == pushCount && sent.connectionAttemptCount == 2)
        },
        Case("GOAWAY") {
            $0.goAwayAfterRequests = 150
        } expect: { sent, statistics in
            #expect(sent.count(.accepted) == pushCount)
            #expect(statistics.goAwayCount >= 10 && sent.closeCauses.allSatisfy { $0 == .retired })
            #expect(sent.goAwayCount >= 10)
        },
        Case("GOAWAY with ENHANCE_YOUR_CALM, the last 100 unprocessed", timeout: 5_000) {
            $0.goAwayAfterRequests = 250
            $0.goAwayUnprocessedRequests = 100
            $0.goAway.errorCode = 11
            $0.latencyMilliseconds = 0...20
        } expect: { sent, statistics in
            // The last connections may carry too few requests to get their GOAWAY. Their pushes may then stay
            // without a response and be ambiguous.
            #expect(sent.count(.ambiguous) <= 200 && sent.count(.accepted) + sent.count(.ambiguous) == pushCount)
            #expect(statistics.goAwayCount >= 5 && sent.goAwayCount >= 5)
            #expect(sent.countResponses { $0.completion == .notProcessed } >= 500)
        },
        Case("GOAWAY in two steps") {
            $0.goAwayAfterRequests = 300
            $0.goAway.graceMilliseconds = 20
            $0.latencyMilliseconds = 0...40
        } expect: { sent, statistics in
            #expect(sent.count(.accepted) == pushCount)
            #expect(statistics.acceptedConnectionCount >= 4 && sent.goAwayCount >= 2)
        },
        Case("connections cut") {
            $0.cutAfterRequests = 300
            $0.latencyMilliseconds = 0...20
        } expect: { sent, statistics in
            #expect(statistics.cutConnectionCount >= 2)
            #expect(sent.count(.ambiguous) >= 100 && sent.count(.accepted) + sent.count(.ambiguous) == pushCount)
            #expect(sent.closeCauses.contains(.connectionLost))
        },
        Case("connections half open", timeout: 1_000) {
            $0.silentAfterRequests = 700
        } expect: { sent, statistics in
            #expect(statistics.halfOpenConnectionCount >= 2 && statistics.requestWithoutResponseCount > 0)
            #expect(sent.closeCauses.contains(.pingTimeout))
            #expect(sent.count(.ambiguous) >= statistics.requestWithoutResponseCount)
            #expect(sent.count(.accepted) + sent.count(.ambiguous) == pushCount)
        },
        Case("connections half open and not read", timeout: 1_000) {
            $0.silentAfterRequests = 700
            $0.silentStopsReading = true
        } expect: { sent, statistics in
            #expect(statistics.halfOpenConnectionCount >= 2 && sent.closeCauses.contains(.pingTimeout))
            #expect(sent.count(.ambiguous) > 0 && sent.count(.accepted) + sent.count(.ambiguous) == pushCount)
        },
        Case("a small window") {
            $0.connectionWindowBytes = 20_000
            $0.latencyMilliseconds = 5...10
        } expect: { sent, _ in
            #expect(sent.count(.accepted) == pushCount && sent.connectionAttemptCount == 2)
            // At first a connection may send 65,535 bytes, more than the configured window of 20,000. The server grants
            // more bytes only when fewer than 20,000 are left. Each connection sends so much that fewer are left. So at
            // the end no window is larger than 20,000 bytes.
            #expect(sent.sendWindowsLeftBytes.count == 2 && sent.sendWindowsLeftBytes.allSatisfy { $0 <= 20_000 })
            #expect(sent.windowStopCount > 0)
        },
        Case("one stream") {
            $0.concurrentStreams = 1
        } expect: { sent, statistics in
            #expect(sent.count(.accepted) == pushCount && sent.connectionAttemptCount == 2)
            #expect(statistics.requestCount == pushCount)
            #expect(sent.peakInFlightPushCount <= 2 && sent.streamLimits == [1, 1])
        },
    ]

    static let responseCases: [Case] = [
        Case("10 % TooManyRequests, 5 % InternalServerError") {
            $0.reasonShares = [.tooManyRequests: 0.1, .internalServerError: 0.05]
        } expect: { sent, statistics in
            #expect(sent.count(.accepted) == pushCount)
            #expect(sent.countResponses { $0.status == 429 } == statistics[.tooManyRequests])
            #expect(sent.countResponses { $0.status == 500 } == statistics[.internalServerError])
            #expect(statistics[.tooManyRequests] > 100 && statistics[.internalServerError] > 40)
        },
        Case("Shutdown and IdleTimeout") {
            $0.reasonShares = [.shutdown: 0.02, .idleTimeout: 0.02]
        } expect: { sent, statistics in
            #expect(sent.count(.accepted) == pushCount)
            #expect(sent.connectionAttemptCount > 2)
            #expect(statistics[.shutdown] > 0 && statistics[.idleTimeout] > 0)
        },
        Case("Unregistered") {
            $0.reasonShares = [.unregistered: 0.1]
        } expect: { sent, statistics in
            #expect(sent.count(.tokenDead) == statistics[.unregistered])
            let datedRefusalCount = sent.countResponses {
                $0.status == 410 && $0.invalidAtWallMilliseconds ?? 0 > 1_700_000_000_000
            }
            #expect(datedRefusalCount > 100)
        },
        Case("unknown reasons") {
            $0.unknownReasonShare = 0.2
        } expect: { sent, statistics in
            #expect(sent.count(.rejected) == statistics.undocumentedResponseCount)
            #expect(sent.countResponses { $0.reasonText == "ReasonOfTomorrow" } == statistics.undocumentedResponseCount)
            #expect(statistics.undocumentedResponseCount > 200)
        },
        Case("bodies that are not JSON") {
            $0.notJSONShare = 0.2
        } expect: { sent, statistics in
            #expect(sent.count(.accepted) == pushCount)
            #expect(
                sent.countResponses { $0.status == 503 && $0.reason == .absent } == statistics.undocumentedResponseCount
            )
            #expect(statistics.undocumentedResponseCount > 200)
        },
        Case("1xx first") {
            $0.informationalShare = 0.5
        } expect: { sent, statistics in
            #expect(sent.count(.accepted) == pushCount && statistics.requestCount == pushCount)
            #expect(statistics.informationalResponseCount > 500)
        },
        Case("responses after the deadline", timeout: 5_000) {
            $0.lateShare = 0.05
            $0.lateMilliseconds = 10_000
        } expect: { sent, _ in
            #expect((20...400).contains(sent.count(.ambiguous)))
            #expect(sent.count(.accepted) + sent.count(.ambiguous) == pushCount)
            #expect(sent.connectionAttemptCount == 2)
        },
        Case("no responses", timeout: 1_000) {
            $0.noResponseShare = 0.05
            $0.requestsWithoutResponseTakeEffect = false
        } expect: { sent, statistics in
            #expect(statistics.requestWithoutResponseCount > 40)
            #expect(sent.count(.ambiguous) >= statistics.requestWithoutResponseCount)
            #expect(sent.count(.accepted) + sent.count(.ambiguous) == pushCount)
        },
        Case("refused streams") {
            $0.refusedShare = 0.1
        } expect: { sent, statistics in
            #expect(sent.count(.accepted) == pushCount)
            #expect(sent.countResponses { $0.completion == .notProcessed } == statistics.refusedStreamCount)
            #expect(statistics.refusedStreamCount > 100)
        },
        Case("the next 50 reset with CANCEL") {
            $0.resetShare = 1
            $0.resetCode = 8
            $0.requestsSubjectToFaultsMax = 50
        } expect: { sent, statistics in
            #expect(sent.count(.ambiguous) == 50 && statistics.resetStreamCount == 50)
            #expect(sent.count(.accepted) == pushCount - 50)
        },
    ]

    @Test(arguments: connectionCases + responseCases) func `Each push gets one outcome`(_ given: Case) async throws {
        try await SimulatorFixture.run {
            $0.faults = given.faults
        } _: { fixture in
            let timeout = given.requestTimeoutMilliseconds
            let sent = try await fixture.send(Self.pushCount) { $0.requestTimeoutMilliseconds = timeout }
            let statistics = try await fixture.simulator.statistics()
            await fixture.simulator.stop()
            try check(sent, try fixture.log())
            given.expect(sent, statistics)
        }
    }

    /// MAX_CONCURRENT_STREAMS changes from 1,000 to 1 while a thousand pushes are in flight, and later back.
    @Test func `The limit of streams falls and rises`() async throws {
        try await SimulatorFixture.run { fixture in
            var faults = Faults()
            // The latency is so long that the limit of streams is lowered before the first thousand responses,
            // even if this task runs late.
            faults.latencyMilliseconds = 4_000...4_000
            try await fixture.simulator.setFaults(faults)
            async let sending = fixture.send(8_000) {
                $0.connectionsMax = 1
                $0.connectionsMin = 1
            }
            try await eventuallyInTask("a thousand requests", every: .milliseconds(1)) {
                try await fixture.simulator.statistics().requestCount >= 1_000
            }
            faults.concurrentStreams = 1
            faults.latencyMilliseconds = 100...100
            try await fixture.simulator.setFaults(faults)
            // The pushes in flight get their responses. From then on pushes are sent one after the other.
            var (requestCount, singleRequestCount) = (0, 0)
            try await eventuallyInTask("pushes one by one", every: .milliseconds(1)) {
                let newRequestCount = try await fixture.simulator.statistics().requestCount
                if newRequestCount != requestCount {
                    singleRequestCount = newRequestCount == requestCount + 1 ? singleRequestCount + 1 : 0
                }
                requestCount = newRequestCount
                return singleRequestCount == 5
            }
            faults.concurrentStreams = nil
            try await fixture.simulator.setFaults(faults)
            let sent = try await sending
            let statistics = try await fixture.simulator.statistics()
            #expect(
                sent.count(.accepted) == 8_000 && sent.connectionAttemptCount == 1
                    && statistics.acceptedConnectionCount == 1
            )
            // nghttp2 refuses pushes that come before the client knows the lower limit. The simulator does not count a
            // refusal, but counts the push when the client sends it again. So each push counts once.
            #expect(statistics.requestCount == 8_000 && requestCount < 8_000)
            #expect(sent.streamLimits.contains(1) && sent.streamLimits.last == 1_000)
            await fixture.simulator.stop()
            try check(sent, try fixture.log())
        }
    }

    /// Checks the expectations that hold for every fault.
    private func check(_ sent: SentPushes, _ log: [UInt64: [SimulatorFixture.LogEntry]]) throws {
        #expect(log.keys.allSatisfy { sent.responses[$0] != nil })
        var faults: [String] = []
        for (tag, responses) in sent.responses {
            let entries = log[tag] ?? []
            let appliedCount = entries.count { $0.isApplied }
            if appliedCount > 1 { faults.append("\(tag) reached its phone \(appliedCount) times") }
            if entries.count > responses.count {
                faults.append("\(tag): \(entries.count) attempts, \(responses.count) responses")
            }
            let clientStatuses = responses.filter { $0.completion == .responded }.map { Int($0.status) }.sorted()
            var loggedStatuses = entries.map(\.status).filter { $0 > 0 }.sorted()
            for status in clientStatuses {
                guard let index = loggedStatuses.firstIndex(of: status) else {
                    faults.append("\(tag): the response \(status) is not written down")
                    continue
                }
                loggedStatuses.remove(at: index)
            }
            guard let last = responses.last else { continue }
            for response in responses.dropLast()
            where ![.retrySoon, .retryLater, .throttled].contains(response.disposition) {
                faults.append("\(tag): \(response.disposition) is not the last response")
            }
            if last.disposition == .accepted, appliedCount != 1 {
                faults.append("\(tag) is accepted and reached no phone")
            }
            if last.disposition != .ambiguous, last.disposition != .accepted, appliedCount > 0 {
                faults.append("\(tag) reached its phone and is called \(last.disposition)")
            }
        }
        #expect(faults.isEmpty, "\(faults.prefix(5))")
    }
}
