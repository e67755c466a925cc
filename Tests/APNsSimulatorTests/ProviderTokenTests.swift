import APNsSimulator
import Glibc
import Testbed
import Testing

@Suite(.ownThread) struct ProviderTokenTests {
    private func expect(
        _ reason: SimulatedResponse,
        _ token: String,
        _ fixture: SimulatorFixture,
        _ client: H2Client? = nil,
        at location: SourceLocation = #_sourceLocation
    ) throws {
        let response = try (client ?? fixture.connect())
            .perform(
                fixture.headers(["authorization": "bearer " + token]),
                body: fixture.update(home: 1)
            )
        let body = reason == .success ? "" : "{\"reason\":\"\(reason.text)\"}"
        #expect(response.status == reason.status && response.body == body, "\(response)", sourceLocation: location)
    }

    @Test func `The response says what is wrong with a token`() async throws {
        try await SimulatorFixture.run { fixture in
            let (signer, nowSeconds) = (fixture.signer, time(nil))
            try expect(.success, signer.token(), fixture)
            try expect(.invalidProviderToken, signer.token(algorithm: "HS256"), fixture)
            try expect(.invalidProviderToken, signer.token(keyId: "UNKNOWN000"), fixture)
            try expect(.invalidProviderToken, signer.token(teamId: "ANOTHER000"), fixture)
            try expect(.invalidProviderToken, signer.token(keyId: "KEY7654321"), fixture)
            try expect(.invalidProviderToken, signer.token(claims: #"{"iss":"TEAM123456"}"#), fixture)
            try expect(
                .invalidProviderToken,
                signer.token(claims: #"{"iss":"TEAM123456","iat":"\#(nowSeconds)x"}"#),
                fixture
            )
            try expect(
                .invalidProviderToken,
                signer.token(claims: #"{"iss":"TEAM123456","iat":-9223372036854775808}"#),
                fixture
            )
            try expect(.invalidProviderToken, signer.token(issuedAt: nowSeconds + 3_700), fixture)
            // Apple requires `iat` as a number of seconds. The simulator also accepts the digits as a string.
            try expect(.success, signer.token(claims: #"{"iss":"TEAM123456","iat":"\#(nowSeconds)"}"#), fixture)
            try expect(.success, signer.token(issuedAt: nowSeconds - 3_500), fixture)
            try expect(.expiredProviderToken, signer.token(issuedAt: nowSeconds - 3_700), fixture)
            var brokenToken = Array(signer.token().utf8)
            brokenToken[brokenToken.count - 20] ^= 1
            try expect(.invalidProviderToken, String(decoding: brokenToken, as: UTF8.self), fixture)
            try expect(.invalidProviderToken, String(repeating: "a", count: 4_000), fixture)
        }
    }

    @Test func `A token is verified once per connection`() async throws {
        try await SimulatorFixture.run { fixture in
            let (client, token) = (try fixture.connect(), fixture.signer.token())
            for _ in 0..<5 { try expect(.success, token, fixture, client) }
            let statistics = try await fixture.simulator.statistics()
            #expect(statistics.tokenVerificationCount == 1)
        }
    }

    @Test func `A token that expires on its connection makes the connection unusable`() async throws {
        try await SimulatorFixture.run { fixture in
            let (client, token) = (try fixture.connect(), fixture.signer.token())
            try expect(.success, token, fixture, client)
            try await fixture.simulator.advanceClock(milliseconds: 3_700_000)
            try expect(.expiredProviderToken, token, fixture, client)
            let futureToken = fixture.signer.token(issuedAt: time(nil) + 3_700)
            try expect(.expiredProviderToken, futureToken, fixture, client)
            try expect(.success, futureToken, fixture)
        }
    }

    @Test func `A connection may change its token once in twenty minutes`() async throws {
        try await SimulatorFixture.run { fixture in
            let (client, nowSeconds) = (try fixture.connect(), time(nil))
            let (first, second) = (
                fixture.signer.token(issuedAt: nowSeconds - 10), fixture.signer.token(issuedAt: nowSeconds)
            )
            try expect(.success, first, fixture, client)
            let response = try client.perform(
                fixture.headers(["authorization": "bearer " + second]),
                body: fixture.update(home: 1)
            )
            #expect(response.status == 429)
            #expect(response.body == "{\"reason\":\"TooManyProviderTokenUpdates\"}")
            try expect(.success, first, fixture, client)
            try await fixture.simulator.advanceClock(milliseconds: 20 * 60_000)
            try expect(.success, second, fixture, client)
        }
    }

    @Test func `A connection accepts only tokens of its first key`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try fixture.connect()
            try expect(.success, fixture.signer.token(), fixture, client)
            try expect(.unrelatedKeyIdInToken, fixture.otherSigner.token(), fixture, client)
            try expect(.success, fixture.otherSigner.token(), fixture)
        }
    }

    @Test func `Keys of the other environment are refused`() async throws {
        try await SimulatorFixture.run(\.keys[0].environment, .sandbox) { fixture in
            try expect(.badEnvironmentKeyIdInToken, fixture.signer.token(), fixture)
        }
    }

    @Test func `An invalid key is refused at the start`() async throws {
        var configuration = SimulatorConfiguration(transportSecurity: .cleartext, keys: [])
        configuration.keys = [.init(teamId: "T", keyId: "K", pem: "no key")]
        await #expect(throws: SimulatorError.self) { try await Simulator(configuration).start() }
    }
}
