import COpenSSL
import Glibc
import Reactor
import Testbed
import Testing

@testable import APNs

@Suite(.ownThread) struct ProviderTokenTests {
    @Test func `All pools use one token until its renewal`() throws {
        let source = try TestCredentials.makeTokenSource()
        let start: Int64 = 1_790_000_000
        let firstToken = try #require(source.provideToken(unixSeconds: start))
        #expect(source.provideToken(unixSeconds: start + 35 * 60 - 1) === firstToken)
        let secondToken = try #require(source.provideToken(unixSeconds: start + 35 * 60))
        #expect(secondToken !== firstToken)
        #expect(secondToken.issuedAtSeconds == start + 35 * 60)
        #expect(source.provideToken(unixSeconds: start + 36 * 60) === secondToken)
        // The clock was set back. APNs refuses a token from the future, so a new one is signed.
        #expect(source.provideToken(unixSeconds: start)?.issuedAtSeconds == start)
    }

    @Test func `A refused token is replaced unless it is young`() throws {
        let source = try TestCredentials.makeTokenSource()
        let start: Int64 = 1_790_000_000
        let firstToken = try #require(source.provideToken(unixSeconds: start))
        source.forgetRefusedToken(firstToken, unixSeconds: start + 20 * 60 - 1)
        #expect(source.provideToken(unixSeconds: start + 20 * 60 - 1) === firstToken)
        source.forgetRefusedToken(firstToken, unixSeconds: start + 20 * 60)
        let secondToken = try #require(source.provideToken(unixSeconds: start + 20 * 60))
        #expect(secondToken !== firstToken)
        // Refusals of the first token on other connections do not concern the second token, so the second token stays
        // in use.
        source.forgetRefusedToken(firstToken, unixSeconds: start + 45 * 60)
        #expect(source.provideToken(unixSeconds: start + 20 * 60) === secondToken)
    }

    /// A connection uses one token until it checks whether there is a newer one. This check must come at least 20
    /// minutes after the connection took the token, when the token is 35 to 55 minutes old. The test lets the
    /// connection take a token of every age before the renewal.
    @Test func `The time until a connection changes its token keeps Apple's rules`() {
        for age in stride(from: Int64(0), to: ProviderTokenTimes.renewalAgeSeconds, by: 1) {
            let checkAtSeconds = ProviderTokenTimes.newerTokenCheckAtSeconds(usedSinceSeconds: age, issuedAtSeconds: 0)
            #expect(checkAtSeconds - age >= 20 * 60)
            #expect(checkAtSeconds >= 35 * 60)
            #expect(checkAtSeconds <= 55 * 60)
        }
    }

    @Test func `A connection keeps its token until it checks for a newer one`() throws {
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
        // The connection takes the token in the second in which the token is signed.
        let usedSinceSeconds = connection.tokenUsedSinceSeconds
        #expect(beganAtSeconds <= usedSinceSeconds && usedSinceSeconds <= seconds)
        #expect(connection.newerTokenCheckAtWallMilliseconds == (usedSinceSeconds + 35 * 60) * 1_000)
        // Simulates a token that is due for renewal, and that the connection has kept for long.
        let oldToken = ProviderToken(token: Array("old".utf8), issuedAtSeconds: seconds - 36 * 60)
        connection.providerToken = oldToken
        connection.tokenUsedSinceSeconds = seconds - 20 * 60
        connection.headerEncoder.setAuthorization(oldToken.headerValue)
        #expect(fixture.submit(1))
        connection.newerTokenCheckAtWallMilliseconds = fixture.loop.wallMilliseconds
        #expect(fixture.submit(2))
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(seenAuthorizations.count == 2 && seenAuthorizations.contains("bearer old"))
        #expect(connection.providerToken !== oldToken)
    }

    /// A connection took a token less than 20 minutes ago, and the token is now too old to use. APNs allows the
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
        connection.providerToken = oldToken
        connection.tokenUsedSinceSeconds = seconds - 20 * 60 + 60
        connection.headerEncoder.setAuthorization(oldToken.headerValue)
        tokensByConnection.removeAll()
        #expect(fixture.submit(1))
        connection.newerTokenCheckAtWallMilliseconds = 0
        #expect(!fixture.submit(2))
        fixture.runLoop(until: { fixture.submit(3) })
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.recorder.retirementCauses == [.providerToken])
        #expect(
            try fixture.recorder.onlyResponse(to: 1).connection == 1
                && fixture.recorder.onlyResponse(to: 3).connection == 2
        )
        #expect(tokensByConnection.count == 2 && tokensByConnection.values.allSatisfy { $0.count == 1 })
        #expect(Set(tokensByConnection.values.joined()).count == 2)
    }

    /// The connection's times are two hours ahead, as after the clock was set back by two hours. APNs allows the
    /// connection no second token, so the pool replaces the connection.
    @Test func `After the clock was set back, no push has a token from the future`() throws {
        let fixture = try PoolFixture()
        var seenAuthorizations: Set<String> = []
        fixture.server.respond = {
            seenAuthorizations.insert($0.value("authorization") ?? "")
            return .accepted
        }
        fixture.warmUp()
        let connection = try #require(fixture.pool.connections.first)
        let futureSeconds = fixture.loop.wallMilliseconds / 1_000 + 2 * 3_600
        let futureToken = ProviderToken(token: Array("future".utf8), issuedAtSeconds: futureSeconds)
        connection.providerToken = futureToken
        connection.tokenUsedSinceSeconds = futureSeconds
        connection.newerTokenCheckAtWallMilliseconds = (futureSeconds + 35 * 60) * 1_000
        connection.headerEncoder.setAuthorization(futureToken.headerValue)
        #expect(!fixture.submit(1))
        fixture.runLoop(until: { fixture.submit(2) })
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.recorder.retirementCauses == [.providerToken])
        #expect(try fixture.recorder.onlyResponse(to: 2).connection == 2)
        #expect(!seenAuthorizations.contains("bearer future"))
    }

    /// A connection takes a token that is already due for renewal. The check for a newer token comes at the latest when
    /// the token is 55 minutes old. The connection may change its token only after 20 minutes.
    @Test func `A connection that takes a token late keeps Apple's rules`() {
        for age in stride(from: ProviderTokenTimes.renewalAgeSeconds, to: ProviderTokenTimes.ageSecondsMax, by: 1) {
            let checkAtSeconds = ProviderTokenTimes.newerTokenCheckAtSeconds(usedSinceSeconds: age, issuedAtSeconds: 0)
            #expect(checkAtSeconds <= 55 * 60)
            #expect(
                ProviderTokenTimes.mayChangeToken(usedSinceSeconds: age, nowSeconds: checkAtSeconds) == (age == 35 * 60)
            )
            #expect(ProviderTokenTimes.mayChangeToken(usedSinceSeconds: age, nowSeconds: age + 20 * 60))
        }
    }

    @Test func `An expired provider token closes the connection`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        fixture.server.respond = { [unowned fixture] in
            $0.connection === fixture.server.connections[0] ? .status(403, reason: "ExpiredProviderToken") : .accepted
        }
        for tag in 0..<20 { #expect(fixture.submit(UInt64(tag))) }
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        for tag in 0..<20 {
            #expect(try fixture.recorder.onlyResponse(to: UInt64(tag)).disposition == .refreshProviderToken)
        }
        fixture.runLoop(until: { fixture.submit(100) })
        fixture.runLoop(until: { fixture.recorder.responsesByTag[100] != nil })
        #expect(try fixture.recorder.onlyResponse(to: 100).connection == 2)
        #expect(fixture.recorder.retirementCauses == [.providerToken])
        #expect(fixture.pool.breakerCause == nil)
    }

    /// The key is replaced in two ways. The symbolic link to its directory gets another target, as Kubernetes does for
    /// a mounted secret. Later, the key file itself is overwritten.
    @Test func `A replaced key file is noticed`() throws {
        let directory = TestCredentials.keyPath("mounted")
        for name in ["", "/one", "/two", "/three"] { mkdir(directory + name, 0o700) }
        let (firstPEM, secondPEM) = try (
            privateKeyPEM(curve: NID_X9_62_prime256v1), privateKeyPEM(curve: NID_X9_62_prime256v1)
        )
        try writeFile(directory + "/one/key.p8", firstPEM, mode: 0o600)
        try writeFile(directory + "/two/key.p8", secondPEM, mode: 0o600)
        try writeFile(directory + "/three/key.p8", "no key", mode: 0o600)
        symlink("one", directory + "/data")
        symlink("data/key.p8", directory + "/key.p8")
        func pointLink(to target: String) {
            symlink(target, directory + "/data.new")
            rename(directory + "/data.new", directory + "/data")
        }
        let path = directory + "/key.p8"
        var file = SigningKeyFile(path: path, loadedKey: try SigningKey(path: path))
        #expect(file.poll().name == "unchanged")
        pointLink(to: "two")
        #expect(file.poll().name == "replaced")
        #expect(file.poll().name == "unchanged")
        pointLink(to: "three")
        #expect(file.poll().name == "unusable")
        #expect(file.poll().name == "unchanged")
        pointLink(to: "nowhere")
        #expect(file.poll().name == "unusable")
        #expect(file.poll().name == "unchanged")
        pointLink(to: "one")
        #expect(file.poll().name == "replaced")
        try writeFile(directory + "/one/key.p8", secondPEM + "\n", mode: 0o600)
        #expect(file.poll().name == "replaced")
    }

    /// If an operator only makes a key file readable, its `FileIdentity` stays the same, because the identity does not
    /// contain the mode. Root can read any file, so this test repairs the file's content instead, and restores its
    /// times.
    @Test func `A broken key file is read again although its identity is the same`() throws {
        let (path, pem) = try (TestCredentials.keyPath("repaired.p8"), privateKeyPEM(curve: NID_X9_62_prime256v1))
        try writeFile(path, pem, mode: 0o600)
        var file = SigningKeyFile(path: path, loadedKey: try SigningKey(path: path))
        try writeFile(path, String(pem.reversed()), mode: 0o600)
        #expect(file.poll().name == "unusable")
        #expect(file.poll().name == "unchanged", "the same error is reported once")
        var status = stat()
        try #require(stat(path, &status) == 0)
        let times = [status.st_atim, status.st_mtim]
        try writeFile(path, pem, mode: 0o600)
        try #require(utimensat(AT_FDCWD, path, times, 0) == 0)
        #expect(file.poll().name == "replaced")
        #expect(file.poll().name == "unchanged")
    }

    @Test func `Unusable key files are named in the error`() throws {
        let directory = try TestCredentials.files.get().directory
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

    @Test func `A key or team identifier of a wrong form is refused`() throws {
        let key = try SigningKey(path: TestCredentials.files.get().signingKeyFile)
        for identifier in ["", "ABC", "ABC123DEF\"", "ABC123DEFGH"] {
            let kid = #expect(throws: InvalidSettingError.self) {
                try ProviderTokenSource(key: key, keyId: identifier, teamId: "DEF123GHIJ")
            }
            #expect(kid?.setting == "keyId")
            let team = #expect(throws: InvalidSettingError.self) {
                try ProviderTokenSource(key: key, keyId: "DEF123GHIJ", teamId: identifier)
            }
            #expect(team?.setting == "teamId")
        }
    }

    // MARK: - Keys

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
        case .unusable: "unusable"
        }
    }
}
