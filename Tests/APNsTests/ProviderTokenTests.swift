import COpenSSL
import Glibc
import Reactor
import Testbed
import Testing

@testable import APNs

@Suite(.ownThread) struct ProviderTokenTests {
    @Test func `All pools use one token until its renewal`() throws {
        let source = try Shared.tokens()
        let start: Int64 = 1_790_000_000
        let firstToken = try #require(source.currentToken(unixSeconds: start))
        #expect(source.currentToken(unixSeconds: start + 35 * 60 - 1) === firstToken)
        let secondToken = try #require(source.currentToken(unixSeconds: start + 35 * 60))
        #expect(secondToken !== firstToken)
        #expect(secondToken.issuedAtSeconds == start + 35 * 60)
        #expect(source.currentToken(unixSeconds: start + 36 * 60) === secondToken)
        // The clock was set back. APNs refuses a token from the future, so a new one is signed.
        #expect(source.currentToken(unixSeconds: start)?.issuedAtSeconds == start)
    }

    @Test func `A refused token is replaced unless it is young`() throws {
        let source = try Shared.tokens()
        let start: Int64 = 1_790_000_000
        let firstToken = try #require(source.currentToken(unixSeconds: start))
        source.dropExpired(firstToken, unixSeconds: start + 20 * 60 - 1)
        #expect(source.currentToken(unixSeconds: start + 20 * 60 - 1) === firstToken)
        source.dropExpired(firstToken, unixSeconds: start + 20 * 60)
        let secondToken = try #require(source.currentToken(unixSeconds: start + 20 * 60))
        #expect(secondToken !== firstToken)
        // Refusals of the first token on other connections do not concern the second token, so the second
        // token stays in use.
        source.dropExpired(firstToken, unixSeconds: start + 45 * 60)
        #expect(source.currentToken(unixSeconds: start + 20 * 60) === secondToken)
    }

    /// A connection pins a token: it uses only this token until a review. The test tries every age of a token
    /// before its renewal. The review comes at least 20 minutes after the pinning, when the token is 35 to 55
    /// minutes old.
    @Test func `Pinning a token keeps Apple's rules`() {
        for age in stride(from: Int64(0), to: ProviderTokenTimes.renewalAgeSeconds, by: 1) {
            let review = ProviderTokenTimes.reviewAtSeconds(pinnedAtSeconds: age, issuedAtSeconds: 0)
            #expect(review - age >= 20 * 60)
            #expect(review >= 35 * 60)
            #expect(review <= 55 * 60)
        }
    }

    @Test func `A connection keeps its token until the review`() throws {
        let fixture = try PoolFixture()
        var seenAuthorizations: Set<String> = []
        fixture.server.respond = {
            seenAuthorizations.insert($0.value("authorization") ?? "")
            return .accepted
        }
        let beganAtSeconds = fixture.loop.wallMilliseconds / 1_000
        fixture.warmUp()
        let connection = try #require(fixture.pool.connections.first)
        let seconds = fixture.loop.wallMilliseconds / 1_000
        // The connection pins the token in the second in which the token is signed.
        let pinnedAtSeconds = connection.tokenPinnedAtSeconds
        #expect(beganAtSeconds <= pinnedAtSeconds && pinnedAtSeconds <= seconds)
        #expect(connection.tokenReviewAtMilliseconds == (pinnedAtSeconds + 35 * 60) * 1_000)
        // Simulates a token that is due for renewal and was pinned long ago.
        let oldToken = ProviderToken(token: Array("old".utf8), issuedAtSeconds: seconds - 36 * 60)
        connection.token = oldToken
        connection.tokenPinnedAtSeconds = seconds - 20 * 60
        connection.encoder.setAuthorization(oldToken.headerValue)
        #expect(fixture.submit(1))
        connection.tokenReviewAtMilliseconds = fixture.loop.wallMilliseconds
        #expect(fixture.submit(2))
        fixture.turn(until: { fixture.pool.pushesInFlight == 0 })
        #expect(seenAuthorizations.count == 2 && seenAuthorizations.contains("bearer old"))
        #expect(connection.token !== oldToken)
    }

    /// A connection pinned a token less than 20 minutes ago, and the token is now too old to use. APNs allows the
    /// connection no second token so soon, so the pool replaces the connection.
    @Test func `A connection never gets two tokens within 20 minutes`() throws {
        let fixture = try PoolFixture()
        var tokensByConnection: [ObjectIdentifier: Set<String>] = [:]
        fixture.server.respond = {
            tokensByConnection[ObjectIdentifier($0.connection), default: []].insert($0.value("authorization") ?? "")
            return .accepted
        }
        fixture.warmUp()
        let connection = try #require(fixture.pool.connections.first)
        let seconds = fixture.loop.wallMilliseconds / 1_000
        let oldToken = ProviderToken(token: Array("old".utf8), issuedAtSeconds: seconds - 55 * 60)
        connection.token = oldToken
        connection.tokenPinnedAtSeconds = seconds - 20 * 60 + 60
        connection.encoder.setAuthorization(oldToken.headerValue)
        tokensByConnection.removeAll()
        #expect(fixture.submit(1))
        connection.tokenReviewAtMilliseconds = 0
        #expect(!fixture.submit(2))
        fixture.turn(until: { fixture.submit(3) })
        fixture.turn(until: { fixture.pool.pushesInFlight == 0 })
        #expect(fixture.recorder.retirementCauses == [.providerToken])
        #expect(try fixture.recorder.only(1).connection == 1 && fixture.recorder.only(3).connection == 2)
        #expect(tokensByConnection.count == 2 && tokensByConnection.values.allSatisfy { $0.count == 1 })
        #expect(Set(tokensByConnection.values.joined()).count == 2)
    }

    /// A connection pins a token that is already due for renewal. The review comes at the latest when the token is 55
    /// minutes old. The connection may change its token only 20 minutes after the pinning.
    @Test func `Pinning a token late keeps Apple's rules`() {
        for age in stride(from: ProviderTokenTimes.renewalAgeSeconds, to: ProviderTokenTimes.ageSecondsMax, by: 1) {
            let review = ProviderTokenTimes.reviewAtSeconds(pinnedAtSeconds: age, issuedAtSeconds: 0)
            #expect(review <= 55 * 60)
            #expect(ProviderTokenTimes.permitsChange(pinnedAtSeconds: age, nowSeconds: review) == (age == 35 * 60))
            #expect(ProviderTokenTimes.permitsChange(pinnedAtSeconds: age, nowSeconds: age + 20 * 60))
        }
    }

    @Test func `An expired provider token closes the connection`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        fixture.server.respond = { [unowned fixture] in
            $0.connection === fixture.server.connections[0] ? .status(403, reason: "ExpiredProviderToken") : .accepted
        }
        for tag in 0..<20 { #expect(fixture.submit(UInt64(tag))) }
        fixture.turn(until: { fixture.pool.pushesInFlight == 0 })
        for tag in 0..<20 { #expect(try fixture.recorder.only(UInt64(tag)).disposition == .refreshProviderToken) }
        fixture.turn(until: { fixture.submit(100) })
        fixture.turn(until: { fixture.recorder.outcomes[100] != nil })
        #expect(try fixture.recorder.only(100).connection == 2)
        #expect(fixture.recorder.retirementCauses == [.providerToken])
        #expect(fixture.pool.breakerCause == nil)
    }

    /// A new key is first tried on a separate connection. When APNs accepts the key, both old connections are replaced.
    @Test func `A new key is tried and then replaces the old one`() throws {
        let fixture = try PoolFixture {
            $0.connectionsMax = 2
            $0.connectionsMin = 2
        }
        fixture.server.respond = { _ in .accepted }
        fixture.warmUp(connections: 2)
        let newKeyPath = Shared.keyPath("Next.p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        try fixture.pool.tokenSource.offer(SigningKey(path: newKeyPath), keyIdentifier: "NEXTKEY000")
        #expect(fixture.pool.tokenSource.keyStatus.candidateIdentifier == "NEXTKEY000")
        var tag: UInt64 = 0
        fixture.turn(until: {
            if fixture.submit(tag) { tag += 1 }
            fixture.loop.turn(waitMilliseconds: 1)
            return fixture.pool.connections.count == 2
                && fixture.pool.connections.allSatisfy { $0.token?.keyGeneration == 1 && $0.phase == .open }
        })
        fixture.turn(until: { fixture.pool.pushesInFlight == 0 })
        #expect(
            fixture.pool.tokenSource.keyStatus
                == ProviderTokenSource.KeyStatus(keyIdentifier: "NEXTKEY000", candidateIdentifier: nil, refusal: nil)
        )
        #expect(fixture.recorder.count(.answered) == fixture.recorder.responses)
        #expect(fixture.recorder.answeredOnceCount == fixture.recorder.responses)
        #expect(fixture.recorder.retirementCauses == [.providerToken, .providerToken])
        // Each connection carried at least one push.
        #expect(fixture.server.connections.allSatisfy { $0.requests > 0 })
    }

    /// APNs may send a 429, 500 or 503 before it has checked the provider token. Such a response proves nothing about
    /// the key, so the trial continues.
    @Test(
        arguments: [
            (503, "ServiceUnavailable", false), (500, "InternalServerError", false), (429, "TooManyRequests", false),
            (429, "TooManyProviderTokenUpdates", false), (410, "Unregistered", true), (400, "BadDeviceToken", true),
        ]
    )
    func `Only an answer that depends on the token proves its key`(status: Int, reason: String, isProof: Bool) throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        let firstConnection = fixture.server.connections[0]
        fixture.server.respond = {
            $0.connection === firstConnection ? .accepted : .status(status, reason: reason)
        }
        let newKeyPath = Shared.keyPath("Trial\(status)\(reason).p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        try fixture.pool.tokenSource.offer(SigningKey(path: newKeyPath), keyIdentifier: "NEXTKEY000")
        var tag: UInt64 = 0
        var isTried = false
        fixture.recorder.onResponse = { if $0.connection != 1 { isTried = true } }
        fixture.turn(until: {
            if fixture.submit(tag) { tag += 1 }
            return isTried
        })
        let status = fixture.pool.tokenSource.keyStatus
        #expect(status.keyIdentifier == (isProof ? "NEXTKEY000" : "ABC123DEFG"))
        #expect(status.candidateIdentifier == (isProof ? nil : "NEXTKEY000"))
        #expect(status.refusal == nil)
        // The first attempt may have proven nothing. The new key is then used as soon as APNs has accepted
        // one push.
        fixture.server.respond = { _ in .accepted }
        fixture.turn(until: {
            if fixture.submit(tag) { tag += 1 }
            return fixture.pool.tokenSource.keyStatus.keyIdentifier == "NEXTKEY000"
        })
        fixture.recorder.onResponse = nil
    }

    /// A pool that sends nothing cannot try the key, and leaves the trial to other pools.
    @Test func `An idle pool tries no key`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        let newKeyPath = Shared.keyPath("Idle.p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        // Waits for the end of the sizing interval in which the pool sent its first push. In the next interval the
        // pool is idle.
        fixture.turn(until: { fixture.pool.interval.pushesEnded == 0 })
        try fixture.pool.tokenSource.offer(SigningKey(path: newKeyPath), keyIdentifier: "NEXTKEY000")
        let began = fixture.pool.intervalBeganMilliseconds
        fixture.turn(until: { fixture.pool.intervalBeganMilliseconds != began })
        #expect(fixture.pool.trialToken == nil)
        #expect(fixture.pool.tokenSource.takeTrialToken(unixSeconds: fixture.loop.wallMilliseconds / 1_000) != nil)
    }

    /// A second new key replaces the first one during the trial of the first one. The pool retires the connection of
    /// this trial, although its push has no response yet.
    @Test func `The connection of a dropped key is closed`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        let firstConnection = fixture.server.connections[0]
        // The trial gets no verdict, because its push is not answered.
        fixture.server.respond = { $0.connection === firstConnection ? .accepted : nil }
        let newKeyPath = Shared.keyPath("Forsaken.p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        try fixture.pool.tokenSource.offer(SigningKey(path: newKeyPath), keyIdentifier: "NEXTKEY000")
        var tag: UInt64 = 0
        fixture.turn(until: {
            if fixture.submit(tag) { tag += 1 }
            return fixture.pool.connections.contains { $0.phase == .unauthenticated && $0.pushesInFlight == 1 }
        })
        try fixture.pool.tokenSource.offer(SigningKey(path: newKeyPath), keyIdentifier: "NEXTKEY001")
        fixture.turn(until: { !fixture.recorder.retirementCauses.isEmpty })
        #expect(fixture.recorder.retirementCauses == [.providerToken])
        #expect(fixture.pool.connections.first { $0.phase == .draining }?.identifier == 2)
    }

    /// APNs refuses the key in use from the first push on. The next key replaces it, whether this pool or another pool
    /// tries the next key.
    @Test(arguments: [false, true]) func `A refused key is replaced by the next`(isProvenElsewhere: Bool) throws {
        let fixture = try PoolFixture {
            $0.breaker.forbiddenMax = 1
            $0.breaker.probeMilliseconds = 20
        }
        let refusal = Reply.status(403, reason: "InvalidProviderToken")
        fixture.server.respond = { _ in refusal }
        fixture.pool.start()
        var tag: UInt64 = 0
        fixture.turn(until: {
            if fixture.submit(tag) { tag += 1 }
            return fixture.pool.breakerCause == .providerToken
        })
        let firstConnection = fixture.server.connections[0]
        fixture.server.respond = { $0.connection === firstConnection ? refusal : .accepted }
        let newKeyPath = Shared.keyPath("After\(isProvenElsewhere).p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        let tokens = fixture.pool.tokenSource
        try tokens.offer(SigningKey(path: newKeyPath), keyIdentifier: "NEXTKEY000")
        if isProvenElsewhere {
            tokens.endTrial(of: try #require(tokens.takeTrialToken(unixSeconds: Int64(time(nil)))), .accepted)
        }
        fixture.turn(until: {
            if fixture.submit(tag) { tag += 1 }
            return fixture.pool.breakerCause == nil
        })
        fixture.turn(until: { fixture.pool.pushesInFlight == 0 })
        #expect(tokens.keyStatus.keyIdentifier == "NEXTKEY000" && tokens.keyStatus.refusal == nil)
        #expect(fixture.recorder.answeredOnceCount == fixture.recorder.responses)
    }

    /// APNs refuses the new key. The trial costs one attempt of one push, and the old key stays in use.
    @Test func `A refused key is dropped`() throws {
        let fixture = try PoolFixture { $0.breaker.forbiddenMax = 1 }
        fixture.warmUp()
        let firstConnection = fixture.server.connections[0]
        fixture.server.respond = {
            $0.connection === firstConnection ? .accepted : .status(403, reason: "InvalidProviderToken")
        }
        let newKeyPath = Shared.keyPath("Wrong.p8")
        try writeFile(newKeyPath, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        try fixture.pool.tokenSource.offer(SigningKey(path: newKeyPath), keyIdentifier: "WRONGKEY00")
        var tag: UInt64 = 0
        fixture.turn(until: {
            if fixture.submit(tag) { tag += 1 }
            fixture.loop.turn(waitMilliseconds: 1)
            return fixture.pool.tokenSource.keyStatus.refusal != nil
        })
        fixture.turn(until: { fixture.pool.pushesInFlight == 0 })
        #expect(
            fixture.pool.tokenSource.keyStatus
                == ProviderTokenSource.KeyStatus(
                    keyIdentifier: "ABC123DEFG",
                    candidateIdentifier: nil,
                    refusal: .invalidProviderToken
                )
        )
        #expect(fixture.recorder.count(.notProcessed) == 1)
        #expect(fixture.recorder.count(.answered) == fixture.recorder.responses - 1)
        #expect(fixture.pool.breakerCause == nil)
        #expect(fixture.submit(100_000))
    }

    /// The key is replaced in two ways. The symbolic link to its directory gets another target, as Kubernetes does for
    /// a mounted secret. Later, the key file itself is overwritten.
    @Test func `A replaced key file is noticed`() throws {
        let directory = Shared.keyPath("mounted")
        for name in ["", "/one", "/two", "/three"] { mkdir(directory + name, 0o700) }
        let (firstPEM, secondPEM) = try (
            privateKeyPEM(curve: NID_X9_62_prime256v1), privateKeyPEM(curve: NID_X9_62_prime256v1)
        )
        try writeFile(directory + "/one/key.p8", firstPEM, mode: 0o600)
        try writeFile(directory + "/two/key.p8", secondPEM, mode: 0o600)
        try writeFile(directory + "/three/key.p8", "no key", mode: 0o600)
        symlink("one", directory + "/data")
        symlink("data/key.p8", directory + "/key.p8")
        func swap(to target: String) {
            symlink(target, directory + "/data.new")
            rename(directory + "/data.new", directory + "/data")
        }
        var file = SigningKeyFile(path: directory + "/key.p8")
        #expect(file.poll().name == "unchanged")
        swap(to: "two")
        #expect(file.poll().name == "replaced")
        #expect(file.poll().name == "unchanged")
        swap(to: "three")
        #expect(file.poll().name == "broken")
        #expect(file.poll().name == "unchanged")
        swap(to: "nowhere")
        #expect(file.poll().name == "broken")
        #expect(file.poll().name == "unchanged")
        swap(to: "one")
        #expect(file.poll().name == "replaced")
        try writeFile(directory + "/one/key.p8", secondPEM + "\n", mode: 0o600)
        #expect(file.poll().name == "replaced")
    }

    @Test func `Unusable key files are named in the error`() throws {
        let directory = try Shared.files.get().directory
        let validPEM = try privateKeyPEM(curve: NID_X9_62_prime256v1)
        let cases: [(String, String, mode_t, SigningKeyError.Cause)] = [
            ("text.p8", "not a key", 0o600, .notPrivateKey),
            ("empty.p8", "", 0o600, .notPrivateKey),
            ("p384.p8", try privateKeyPEM(curve: NID_secp384r1), 0o600, .notP256),
            ("encrypted.p8", encryptedKey, 0o600, .notPrivateKey),
            ("large.p8", String(repeating: "x", count: 20_000), 0o600, .tooLarge),
        ]
        for (name, text, mode, cause) in cases {
            let path = "\(directory)/\(name)"
            try writeFile(path, text, mode: mode)
            let error = #expect(throws: SigningKeyError.self) { try SigningKey(path: path) }
            #expect(error?.cause == cause, "\(name)")
            #expect(error?.description.hasPrefix(path) == true)
        }
        let missingFileError = #expect(throws: SigningKeyError.self) { try SigningKey(path: directory + "/none.p8") }
        #expect(missingFileError?.cause == .unreadable(ENOENT))
        let directoryError = #expect(throws: SigningKeyError.self) { try SigningKey(path: directory) }
        #expect(directoryError?.cause == .notRegularFile)
        try writeFile(directory + "/group.p8", validPEM, mode: 0o440)
        #expect(try !SigningKey(path: directory + "/group.p8").isReadableByOthers)
        try writeFile(directory + "/world.p8", validPEM, mode: 0o644)
        #expect(try SigningKey(path: directory + "/world.p8").isReadableByOthers)
    }

    @Test func `Identifiers are checked`() throws {
        let key = try SigningKey(path: Shared.files.get().signingKeyFile)
        for identifier in ["", "ABC", "ABC123DEF\"", "ABC123DEFGH"] {
            let kid = #expect(throws: ConfigurationError.self) {
                try ProviderTokenSource(key: key, keyIdentifier: identifier, teamIdentifier: "DEF123GHIJ")
            }
            #expect(kid?.field == "keyIdentifier")
            let team = #expect(throws: ConfigurationError.self) {
                try ProviderTokenSource(key: key, keyIdentifier: "DEF123GHIJ", teamIdentifier: identifier)
            }
            #expect(team?.field == "teamIdentifier")
        }
    }

    // MARK: -

    /// A key with a passphrase. It must be refused, and the terminal must not be asked for the passphrase.
    private var encryptedKey: String {
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAh5F3bkwW1uAAICCAAw\n"
            + "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEJ7oNl8J5xZlFhG9c3v6v3IEgZA=\n-----END ENCRYPTED PRIVATE KEY-----\n"
    }
}

extension SigningKeyFile.Change {
    fileprivate var name: String {
        switch self {
        case .unchanged: "unchanged"
        case .replaced: "replaced"
        case .broken: "broken"
        }
    }
}
