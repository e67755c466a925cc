import COpenSSL
import Glibc
import Reactor
import Testbed
import Testing

@testable import APNs

/// A new signing key is offered to the source of provider tokens, and a pool tries it.
@Suite(.ownThread) struct KeyTrialTests {
    /// A new key is first tried on a separate connection. When APNs accepts the key, both old connections are replaced.
    @Test func `A new key is tried and then replaces the old one`() throws {
        let fixture = try PoolFixture {
            $0.connectionsMax = 2
            $0.connectionsMin = 2
        }
        fixture.server.respond = { _ in .accepted }
        fixture.warmUp(connectionCount: 2)
        let newKeyPath = TestCredentials.keyPath("Next.p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        try fixture.pool.tokenSource.offer(SigningKey(path: newKeyPath), keyId: "NEXTKEY000")
        #expect(fixture.pool.tokenSource.keyStatus.candidateKeyId == "NEXTKEY000")
        var tag: UInt64 = 0
        fixture.runLoop(until: {
            if fixture.submit(tag) { tag += 1 }
            fixture.loop.runIteration(waitMilliseconds: 1)
            return fixture.pool.connections.count == 2
                && fixture.pool.connections.allSatisfy { $0.providerToken?.keyGeneration == 1 && $0.phase == .open }
        })
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(
            fixture.pool.tokenSource.keyStatus
                == ProviderTokenSource.KeyStatus(
                    keyId: "NEXTKEY000",
                    candidateKeyId: nil,
                    candidateRefusalReason: nil
                )
        )
        #expect(fixture.recorder.count(.responded) == fixture.recorder.responseCount)
        #expect(fixture.recorder.singleResponseCount == fixture.recorder.responseCount)
        #expect(fixture.recorder.retirementCauses == [.providerToken, .providerToken])
        // Each connection carried at least one push.
        #expect(fixture.server.connections.allSatisfy { $0.requestCount > 0 })
    }

    /// APNs may send a 429, 500 or 503 before it has checked the provider token, and a proxy may send a 404. Such a
    /// response proves nothing about the key, so the key stays the candidate.
    @Test(
        arguments: [
            (503, "ServiceUnavailable", false), (500, "InternalServerError", false), (429, "TooManyRequests", false),
            (429, "TooManyProviderTokenUpdates", false), (404, "BadPath", false), (410, "Unregistered", true),
            (400, "BadDeviceToken", true), (400, "BadPriority", true),
        ]
    )
    func `Only a response that depends on the token proves its key`(status: Int, reason: String, isProof: Bool) throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        let firstConnection = fixture.server.connections[0]
        fixture.server.respond = {
            $0.connection === firstConnection ? .accepted : .status(status, reason: reason)
        }
        let newKeyPath = TestCredentials.keyPath("Trial\(status)\(reason).p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        try fixture.pool.tokenSource.offer(SigningKey(path: newKeyPath), keyId: "NEXTKEY000")
        var tag: UInt64 = 0
        var isTried = false
        fixture.recorder.onResponse = { if $0.connectionNumber != 1 { isTried = true } }
        fixture.runLoop(until: {
            if fixture.submit(tag) { tag += 1 }
            return isTried
        })
        let status = fixture.pool.tokenSource.keyStatus
        #expect(status.keyId == (isProof ? "NEXTKEY000" : "ABC123DEFG"))
        #expect(status.candidateKeyId == (isProof ? nil : "NEXTKEY000"))
        #expect(status.candidateRefusalReason == nil)
        // The first attempt may have proven nothing about the new key. Then the pool uses the new key as soon as
        // APNs has accepted one push with it.
        fixture.server.respond = { _ in .accepted }
        fixture.runLoop(until: {
            if fixture.submit(tag) { tag += 1 }
            return fixture.pool.tokenSource.keyStatus.keyId == "NEXTKEY000"
        })
        fixture.recorder.onResponse = nil
    }

    /// A pool that sends nothing cannot try the key, and leaves the trial to other pools.
    @Test func `An idle pool tries no key`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        let newKeyPath = TestCredentials.keyPath("Idle.p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        // Waits for the end of the sizing interval in which the pool sent its first push. In the next interval the
        // pool is idle.
        fixture.runLoop(until: { fixture.pool.sizingInterval.endedPushCount == 0 })
        try fixture.pool.tokenSource.offer(SigningKey(path: newKeyPath), keyId: "NEXTKEY000")
        let began = fixture.pool.sizingIntervalBeganAtMilliseconds
        fixture.runLoop(until: { fixture.pool.sizingIntervalBeganAtMilliseconds != began })
        #expect(fixture.pool.trialToken == nil)
        #expect(fixture.pool.tokenSource.beginKeyTrial(unixSeconds: fixture.loop.wallMilliseconds / 1_000) != nil)
    }

    /// While a pool tries a new key, a second new key replaces this key. The pool then retires the trial's connection,
    /// although the push on it has no response yet.
    @Test func `The connection of a discarded key is closed`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        let firstConnection = fixture.server.connections[0]
        // The trial gets no result, because its push gets no response.
        fixture.server.respond = { $0.connection === firstConnection ? .accepted : nil }
        let newKeyPath = TestCredentials.keyPath("Forsaken.p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        try fixture.pool.tokenSource.offer(SigningKey(path: newKeyPath), keyId: "NEXTKEY000")
        var tag: UInt64 = 0
        fixture.runLoop(until: {
            if fixture.submit(tag) { tag += 1 }
            return fixture.pool.connections.contains { $0.phase == .unauthenticated && $0.inFlightPushCount == 1 }
        })
        try fixture.pool.tokenSource.offer(SigningKey(path: newKeyPath), keyId: "NEXTKEY001")
        fixture.runLoop(until: { !fixture.recorder.retirementCauses.isEmpty })
        #expect(fixture.recorder.retirementCauses == [.providerToken])
        #expect(fixture.pool.connections.first { $0.phase == .draining }?.number == 2)
    }

    /// APNs refuses the key in use from the first push on. The next key replaces it, whether this pool or another pool
    /// tries the next key.
    @Test(arguments: [false, true]) func `A refused key is replaced by the next`(isProvenElsewhere: Bool) throws {
        let fixture = try PoolFixture {
            $0.breaker.providerTokenRefusalsMax = 1
            $0.breaker.probeDelayMilliseconds = 20
        }
        let refusal = ServedResponse.status(403, reason: "InvalidProviderToken")
        fixture.server.respond = { _ in refusal }
        fixture.pool.start()
        var tag: UInt64 = 0
        fixture.runLoop(until: {
            if fixture.submit(tag) { tag += 1 }
            return fixture.pool.breakerCause == .providerToken
        })
        let firstConnection = fixture.server.connections[0]
        fixture.server.respond = { $0.connection === firstConnection ? refusal : .accepted }
        let newKeyPath = TestCredentials.keyPath("After\(isProvenElsewhere).p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        let tokens = fixture.pool.tokenSource
        try tokens.offer(SigningKey(path: newKeyPath), keyId: "NEXTKEY000")
        if isProvenElsewhere {
            tokens.endKeyTrial(of: try #require(tokens.beginKeyTrial(unixSeconds: Int64(time(nil)))), .accepted)
        }
        fixture.runLoop(until: {
            if fixture.submit(tag) { tag += 1 }
            return fixture.pool.breakerCause == nil
        })
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(tokens.keyStatus.keyId == "NEXTKEY000" && tokens.keyStatus.candidateRefusalReason == nil)
        #expect(fixture.recorder.singleResponseCount == fixture.recorder.responseCount)
    }

    /// APNs refuses the new key, or the new key may not send to the topic. The trial costs one attempt of one push, and
    /// the old key stays in use.
    @Test(arguments: [APNs.Reason.invalidProviderToken, .topicDisallowed])
    func `A refused key is discarded`(reason: APNs.Reason) throws {
        let fixture = try PoolFixture { $0.breaker.providerTokenRefusalsMax = 1 }
        fixture.warmUp()
        let firstConnection = fixture.server.connections[0]
        fixture.server.respond = {
            $0.connection === firstConnection
                ? .accepted : .status(Int(reason.documentedStatus), reason: "\(reason)")
        }
        let newKeyPath = TestCredentials.keyPath("Wrong\(reason).p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        try fixture.pool.tokenSource.offer(SigningKey(path: newKeyPath), keyId: "WRONGKEY00")
        var tag: UInt64 = 0
        fixture.runLoop(until: {
            if fixture.submit(tag) { tag += 1 }
            fixture.loop.runIteration(waitMilliseconds: 1)
            return fixture.pool.tokenSource.keyStatus.candidateRefusalReason != nil
        })
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(
            fixture.pool.tokenSource.keyStatus
                == ProviderTokenSource.KeyStatus(
                    keyId: "ABC123DEFG",
                    candidateKeyId: nil,
                    candidateRefusalReason: reason
                )
        )
        #expect(fixture.recorder.count(.notProcessed) == 1)
        #expect(fixture.recorder.count(.responded) == fixture.recorder.responseCount - 1)
        #expect(fixture.pool.breakerCause == nil)
        #expect(fixture.submit(100_000))
    }

    /// The bundle id is wrong, so APNs refuses the topic with every key. Other apps may use the new key, so the trial
    /// must not discard it.
    @Test func `A key is not discarded if APNs refuses the topic with the old key too`() throws {
        let fixture = try PoolFixture {
            $0.breaker.providerTokenRefusalsMax = 1
            $0.breaker.probeDelayMilliseconds = 20
        }
        fixture.server.respond = { _ in .status(400, reason: "TopicDisallowed") }
        fixture.pool.start()
        var tag: UInt64 = 0
        fixture.runLoop(until: {
            if fixture.submit(tag) { tag += 1 }
            return fixture.pool.breakerCause == .providerToken
        })
        let newKeyPath = TestCredentials.keyPath("WrongTopic.p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        let tokens = fixture.pool.tokenSource
        try tokens.offer(SigningKey(path: newKeyPath), keyId: "NEXTKEY000")
        var isTried = false
        fixture.recorder.onResponse = { if $0.connectionNumber != 1 { isTried = true } }
        fixture.runLoop(until: {
            if fixture.submit(tag) { tag += 1 }
            return isTried
        })
        fixture.recorder.onResponse = nil
        #expect(tokens.keyStatus.keyId == "ABC123DEFG" && tokens.keyStatus.candidateRefusalReason == nil)
        #expect(tokens.keyStatus.candidateKeyId == "NEXTKEY000")
    }

    /// A trial's connection gets its first push so late that its provider token is too old. APNs would refuse this
    /// token, which proves nothing against the new key.
    @Test func `A new key is not refused because its token is too old`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        let newKeyPath = TestCredentials.keyPath("Late.p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        let tokens = fixture.pool.tokenSource
        try tokens.offer(SigningKey(path: newKeyPath), keyId: "NEXTKEY000")
        var tag: UInt64 = 0
        fixture.runLoop(until: {
            let trialConnection = fixture.pool.connections.first { $0.trialToken != nil }
            // The pool opens the trial's connection only after it has sent pushes on the other connection.
            if trialConnection == nil, fixture.pool.trialToken == nil, fixture.submit(tag) { tag += 1 }
            return trialConnection?.phase == .unauthenticated && fixture.pool.inFlightPushCount == 0
        })
        let connection = try #require(fixture.pool.connections.first { $0.trialToken != nil })
        // Simulates a trial that began when the token was signed.
        let beganAtSeconds = fixture.loop.wallMilliseconds / 1_000 - ProviderTokenTimes.ageSecondsMax
        tokens.endKeyTrial(of: try #require(connection.trialToken), .inconclusive)
        let oldToken = try #require(tokens.beginKeyTrial(unixSeconds: beganAtSeconds))
        connection.trialToken = oldToken
        connection.providerToken = oldToken
        connection.headerEncoder.setAuthorization(oldToken.headerValue)
        connection.tokenUsedSinceSeconds = beganAtSeconds
        connection.newerTokenCheckAtWallMilliseconds = fixture.loop.wallMilliseconds
        let oldAuthorization = "bearer " + oldToken.text
        fixture.server.respond = {
            $0.value("authorization") == oldAuthorization ? .status(403, reason: "ExpiredProviderToken") : .accepted
        }
        fixture.runLoop(until: {
            if fixture.submit(tag) { tag += 1 }
            return tokens.keyStatus.candidateKeyId == nil
        })
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(tokens.keyStatus.keyId == "NEXTKEY000" && tokens.keyStatus.candidateRefusalReason == nil)
        #expect(fixture.recorder.count(.responded) == fixture.recorder.responseCount)
    }
}
