import Testbed
import Testing

@testable import APNs

@Suite(.ownThread) struct CircuitBreakerTests {
    /// Records the sample this many times. Returns the changes of the breaker that this causes.
    private func recordSamples(
        _ breaker: inout CircuitBreaker,
        _ sample: CircuitBreakerSample,
        _ count: Int,
        at nowMilliseconds: Int64 = 0
    )
        -> [CircuitBreaker
        .Transition]
    {
        (0..<count).map { _ in breaker.noteEndedPush(sample, nowMilliseconds: nowMilliseconds) }.filter { $0 != .none }
    }

    /// A push that has timed out counts as a failure even if the socket had not taken all of it.
    @Test(arguments: [
        (hasTimedOut: true, sample: CircuitBreakerSample.unavailable),
        (hasTimedOut: false, sample: CircuitBreakerSample.inconclusive),
    ])
    func `An unprocessed push is a failure if it has timed out`(hasTimedOut: Bool, sample: CircuitBreakerSample) {
        let unprocessed = CircuitBreakerSample(
            completion: .notProcessed,
            disposition: .retrySoon,
            reason: .absent,
            hasTimedOut: hasTimedOut
        )
        #expect(unprocessed == sample)
    }

    @Test func `The breaker opens when most responses are failures`() {
        var breaker = CircuitBreaker(CircuitBreakerConfiguration())
        #expect(recordSamples(&breaker, .available, 50).isEmpty)
        #expect(recordSamples(&breaker, .unavailable, 50).isEmpty)
        #expect(recordSamples(&breaker, .unavailable, 1) == [.opened(.unavailability)])
    }

    @Test func `The breaker does not open after few responses`() {
        var breaker = CircuitBreaker(CircuitBreakerConfiguration())
        #expect(recordSamples(&breaker, .unavailable, 49).isEmpty)
        // After ten seconds the breaker counts failures from zero again, so only the fiftieth failure from then on
        // opens it.
        #expect(recordSamples(&breaker, .unavailable, 49, at: 10_000).isEmpty)
        #expect(recordSamples(&breaker, .unavailable, 1, at: 10_000) == [.opened(.unavailability)])
    }

    @Test func `The breaker opens at a burst of suspect tokens`() {
        var breaker = CircuitBreaker(CircuitBreakerConfiguration())
        #expect(recordSamples(&breaker, .available, 900).isEmpty)
        #expect(recordSamples(&breaker, .deviceTokenSuspect, 47).isEmpty)
        #expect(recordSamples(&breaker, .deviceTokenSuspect, 1) == [.opened(.deviceTokens)])
        var freshBreaker = CircuitBreaker(CircuitBreakerConfiguration())
        #expect(recordSamples(&freshBreaker, .deviceTokenSuspect, 19).isEmpty)
        #expect(recordSamples(&freshBreaker, .deviceTokenSuspect, 1) == [.opened(.deviceTokens)])
    }

    @Test func `The breaker opens at several 403 responses in a row`() {
        var breaker = CircuitBreaker(CircuitBreakerConfiguration())
        #expect(recordSamples(&breaker, .providerRefused, 4).isEmpty)
        #expect(recordSamples(&breaker, .available, 1).isEmpty)
        #expect(recordSamples(&breaker, .providerRefused, 4).isEmpty)
        #expect(recordSamples(&breaker, .providerRefused, 1) == [.opened(.providerToken)])
    }

    /// APNs checks a device token only after it has accepted the provider token.
    @Test func `A response about a device token shows that the key is right`() {
        var breaker = CircuitBreaker(CircuitBreakerConfiguration())
        for _ in 0..<3 {
            #expect(recordSamples(&breaker, .providerRefused, 4).isEmpty)
            #expect(recordSamples(&breaker, .deviceTokenSuspect, 1).isEmpty)
        }
        #expect(recordSamples(&breaker, .providerRefused, 4).isEmpty)
        #expect(recordSamples(&breaker, .providerRefused, 1) == [.opened(.providerToken)])
    }

    @Test(arguments: [CircuitBreakerSample.unavailable, .throttled, .inconclusive])
    func `Responses that say nothing about the key do not reset the count of 403 responses`(
        sample: CircuitBreakerSample
    ) {
        var breaker = CircuitBreaker(CircuitBreakerConfiguration())
        for _ in 0..<4 {
            #expect(recordSamples(&breaker, .providerRefused, 1).isEmpty)
            #expect(recordSamples(&breaker, sample, 1).isEmpty)
        }
        #expect(recordSamples(&breaker, .providerRefused, 1) == [.opened(.providerToken)])
    }

    /// A 429 shows that APNs is available again. But APNs may send a 429 before it checks the provider token.
    @Test func `A 429 closes a breaker that an outage opened, but not one that a wrong key opened`() {
        for (sample, responseCount, transition) in [
            (CircuitBreakerSample.unavailable, 100, CircuitBreaker.Transition.closed),
            (.providerRefused, 5, .openedAgain),
        ] {
            var breaker = CircuitBreaker(CircuitBreakerConfiguration())
            _ = recordSamples(&breaker, sample, responseCount)
            #expect(!breaker.isClosed)
            breaker.noteSubmission()
            #expect(breaker.noteEndedPush(.throttled, nowMilliseconds: 1_000) == transition)
        }
    }

    /// However long the breaker is open, it allows at most one probe a second. The next probe also waits for the last
    /// probe's response.
    @Test func `An open breaker allows one probe a second`() {
        var breaker = CircuitBreaker(CircuitBreakerConfiguration())
        _ = recordSamples(&breaker, .providerRefused, 5)
        for second in Int64(1)...60 {
            let nowMilliseconds = second * 1_000
            #expect(breaker.probeAtMilliseconds == nowMilliseconds)
            #expect(!breaker.permitsProbe(inFlightPushCount: 0, nowMilliseconds: nowMilliseconds - 1))
            #expect(!breaker.permitsProbe(inFlightPushCount: 1, nowMilliseconds: nowMilliseconds))
            #expect(breaker.permitsProbe(inFlightPushCount: 0, nowMilliseconds: nowMilliseconds))
            breaker.noteSubmission()
            #expect(!breaker.permitsProbe(inFlightPushCount: 0, nowMilliseconds: nowMilliseconds + 100_000))
            #expect(breaker.noteEndedPush(.providerRefused, nowMilliseconds: nowMilliseconds) == .openedAgain)
        }
        breaker.noteSubmission()
        #expect(breaker.noteEndedPush(.available, nowMilliseconds: 61_000) == .closed)
        #expect(breaker.isClosed && breaker.cause == nil)
        #expect(recordSamples(&breaker, .providerRefused, 4).isEmpty)
    }

    @Test func `Responses to older pushes do not close the breaker`() {
        var breaker = CircuitBreaker(CircuitBreakerConfiguration())
        _ = recordSamples(&breaker, .providerRefused, 5)
        #expect(recordSamples(&breaker, .available, 100).isEmpty)
        #expect(!breaker.isClosed)
    }

    /// Sends pushes over the network. A wrong topic opens the breaker, and the corrected topic closes it. The
    /// disposition of the refused pushes, `topicSuspect`, retires no token.
    @Test func `A pool stops at a burst of refusals, and probes`() throws {
        // The pool accepts no push until the first probe is due. This time is so long that the check below comes before
        // the probe, even on a busy machine.
        let fixture = try PoolFixture { $0.breaker.probeDelayMilliseconds = 1_500 }
        fixture.warmUp()
        fixture.server.respond = { _ in .status(400, reason: "DeviceTokenNotForTopic") }
        for tag in 0..<30 { #expect(fixture.submit(UInt64(tag))) }
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.pool.breakerCause == .deviceTokens)
        #expect(!fixture.submit(50))
        #expect(fixture.pool.freeStreamCount == 0)
        #expect(try fixture.recorder.onlyResponse(to: 29).disposition == .topicSuspect)

        var probeCount = 0
        fixture.recorder.onRoom = { [unowned fixture] pool in
            guard pool.breakerCause != nil else { return }
            if fixture.submit(100 + UInt64(probeCount)) { probeCount += 1 }
            #expect(!fixture.submit(99))
        }
        fixture.runLoop(until: { probeCount == 2 })
        fixture.server.respond = { _ in .accepted }
        fixture.runLoop(until: { fixture.pool.breakerCause == nil })
        fixture.recorder.onRoom = nil
        #expect(fixture.submit(200))
        #expect(fixture.recorder.events.contains { if case .breakerClosed = $0 { true } else { false } })
    }

    /// If APNs has accepted another token since the last refusal, the refused token itself is bad. Otherwise the pool
    /// may be in the wrong environment, and the refusal proves nothing about the token.
    @Test func `A refused token is judged by the responses to other tokens`() throws {
        let fixture = try PoolFixture()
        #expect(!fixture.pool.trustsTokenRefusals)
        fixture.warmUp()
        var trustResults: [Bool] = []
        fixture.recorder.onResponse = { [unowned fixture] _ in trustResults.append(fixture.pool.trustsTokenRefusals) }
        func send(_ tag: UInt64) {
            #expect(fixture.submit(tag))
            fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        }
        fixture.server.respond = { _ in .status(400, reason: "BadDeviceToken") }
        for tag in 100..<103 { send(UInt64(tag)) }
        fixture.server.respond = { _ in .accepted }
        send(103)
        fixture.server.respond = { _ in .status(400, reason: "DeviceTokenNotForTopic") }
        for tag in 104..<106 { send(UInt64(tag)) }
        #expect(trustResults == [true, false, false, true, true, false])
        fixture.recorder.onResponse = nil
    }

    @Test func `The backoff doubles up to its limit`() {
        var generator = FixedGenerator(value: .max)
        var backoff = Backoff(baseMilliseconds: 200, jitterMillisecondsMax: 30_000)
        #expect(backoff.delayMilliseconds(using: &generator) == 0)
        var delays: [Int64] = []
        for _ in 0..<10 {
            backoff.noteFailure()
            delays.append(backoff.delayMilliseconds(using: &generator))
        }
        #expect(delays == [300, 500, 900, 1_700, 3_300, 6_500, 12_900, 25_700, 30_100, 30_100])
        backoff.noteSuccess()
        #expect(backoff.delayMilliseconds(using: &generator) == 0)
    }

    /// A generator that always returns the same number.
    private struct FixedGenerator: RandomNumberGenerator {
        let value: UInt64
        mutating func next() -> UInt64 { value }
    }
}
