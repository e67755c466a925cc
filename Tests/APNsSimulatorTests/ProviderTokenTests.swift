import APNsSimulator
import Glibc
import Testbed
import Testing

@Suite(.ownThread) struct ProviderTokenTests {
    private func expect(
        _ reason: Reason,
        _ token: String,
        _ scene: Scene,
        _ client: H2Client? = nil,
        at location: SourceLocation = #_sourceLocation
    ) throws {
        let response = try (client ?? scene.connect())
            .perform(
                scene.headers(["authorization": "bearer " + token]),
                body: scene.update(home: 1)
            )
        let body = reason == .success ? "" : "{\"reason\":\"\(reason.word)\"}"
        #expect(response.status == reason.status && response.body == body, "\(response)", sourceLocation: location)
    }

    @Test func `The answer says what is wrong with a token`() async throws {
        try await Scene.run { scene in
            let (signer, now) = (scene.signer, time(nil))
            try expect(.success, signer.token(), scene)
            try expect(.invalidProviderToken, signer.token(algorithm: "HS256"), scene)
            try expect(.invalidProviderToken, signer.token(keyIdentifier: "UNKNOWN000"), scene)
            try expect(.invalidProviderToken, signer.token(teamIdentifier: "ANOTHER000"), scene)
            try expect(.invalidProviderToken, signer.token(keyIdentifier: "KEY7654321"), scene)
            try expect(.invalidProviderToken, signer.token(claims: #"{"iss":"TEAM123456"}"#), scene)
            try expect(.invalidProviderToken, signer.token(claims: #"{"iss":"TEAM123456","iat":"\#(now)x"}"#), scene)
            try expect(
                .invalidProviderToken,
                signer.token(claims: #"{"iss":"TEAM123456","iat":-9223372036854775808}"#),
                scene
            )
            try expect(.invalidProviderToken, signer.token(issuedAt: now + 3_700), scene)
            // Apple requires `iat` as a number of seconds. The simulator also accepts the digits as a string.
            try expect(.success, signer.token(claims: #"{"iss":"TEAM123456","iat":"\#(now)"}"#), scene)
            try expect(.success, signer.token(issuedAt: now - 3_500), scene)
            try expect(.expiredProviderToken, signer.token(issuedAt: now - 3_700), scene)
            var broken = Array(signer.token().utf8)
            broken[broken.count - 20] ^= 1
            try expect(.invalidProviderToken, String(decoding: broken, as: UTF8.self), scene)
            try expect(.invalidProviderToken, String(repeating: "a", count: 4_000), scene)
        }
    }

    @Test func `A token is verified once per connection`() async throws {
        try await Scene.run { scene in
            let (client, token) = (try scene.connect(), scene.signer.token())
            for _ in 0..<5 { try expect(.success, token, scene, client) }
            let statistics = try await scene.simulator.statistics()
            #expect(statistics.tokenVerifications == 1)
        }
    }

    @Test func `A token that expires on its connection makes the connection unusable`() async throws {
        try await Scene.run { scene in
            let (client, token) = (try scene.connect(), scene.signer.token())
            try expect(.success, token, scene, client)
            try await scene.simulator.advanceClock(milliseconds: 3_700_000)
            try expect(.expiredProviderToken, token, scene, client)
            let fresh = scene.signer.token(issuedAt: time(nil) + 3_700)
            try expect(.expiredProviderToken, fresh, scene, client)
            try expect(.success, fresh, scene)
        }
    }

    @Test func `A connection may change its token once in twenty minutes`() async throws {
        try await Scene.run { scene in
            let (client, now) = (try scene.connect(), time(nil))
            let (first, second) = (scene.signer.token(issuedAt: now - 10), scene.signer.token(issuedAt: now))
            try expect(.success, first, scene, client)
            let response = try client.perform(
                scene.headers(["authorization": "bearer " + second]),
                body: scene.update(home: 1)
            )
            #expect(response.status == 429)
            #expect(response.body == "{\"reason\":\"TooManyProviderTokenUpdates\"}")
            try expect(.success, first, scene, client)
            try await scene.simulator.advanceClock(milliseconds: 20 * 60_000)
            try expect(.success, second, scene, client)
        }
    }

    @Test func `A connection accepts only tokens of its first key`() async throws {
        try await Scene.run { scene in
            let client = try scene.connect()
            try expect(.success, scene.signer.token(), scene, client)
            try expect(.unrelatedKeyIdInToken, scene.otherSigner.token(), scene, client)
            try expect(.success, scene.otherSigner.token(), scene)
        }
    }

    @Test func `Keys of the other environment are refused`() async throws {
        try await Scene.run(\.keys[0].environment, .sandbox) { scene in
            try expect(.badEnvironmentKeyIdInToken, scene.signer.token(), scene)
        }
    }

    @Test func `An invalid key is refused at the start`() async throws {
        var configuration = SimulatorConfiguration(security: .cleartext, keys: [])
        configuration.keys = [.init(teamIdentifier: "T", keyIdentifier: "K", pem: "no key")]
        await #expect(throws: SimulatorError.self) { try await Simulator(configuration).start() }
    }
}
