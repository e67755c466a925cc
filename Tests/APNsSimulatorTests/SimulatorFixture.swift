import APNsSimulator
import Foundation
import FoundationNetworking
import Glibc
import Testbed
import Testing

/// A running simulator with one phone. The phone has one app with one activity. Two other apps are declared to the
/// simulator, but are on no phone.
struct SimulatorFixture {
    static let app = "com.example.scores"
    static let topic = app + ".push-type.liveactivity"

    let simulator: Simulator
    let signer: ProviderTokenSigner
    let otherSigner: ProviderTokenSigner
    /// The provider token that `headers` uses. It is signed only once: two signatures of the same claims differ, and a
    /// connection may change its token only once in twenty minutes.
    let providerToken: String
    let directory: TemporaryDirectory
    let caFile: String
    let token: String
    let startToken: String

    static func run(_ body: (SimulatorFixture) async throws -> Void) async throws {
        try await run(\.threadCount, 1, body)
    }

    /// Runs `body` with the fixture on a simulator with one changed setting, and then stops the simulator.
    static func run<Value>(
        _ setting: WritableKeyPath<SimulatorConfiguration, Value>,
        _ value: Value,
        _ body: (SimulatorFixture) async throws -> Void
    ) async throws {
        let directory = try TemporaryDirectory()
        let signer = ProviderTokenSigner(p8: try ProviderKey.makeP8())
        let other = ProviderTokenSigner(keyId: "KEY7654321", p8: try ProviderKey.makeP8())
        var configuration = SimulatorConfiguration(
            transportSecurity: .selfSigned(directory: directory.path),
            keys: [
                .init(teamId: signer.teamId, keyId: signer.keyId, pem: signer.p8),
                .init(teamId: other.teamId, keyId: other.keyId, pem: other.p8),
            ]
        )
        configuration.seed = 1
        configuration[keyPath: setting] = value
        let simulator = Simulator(configuration)
        try await simulator.start()
        let match = DeviceModel.TypeDeclaration(
            name: "MatchAttributes",
            attributes: try Shape(json: #"{"matchId":"string"}"#),
            contentState: try Shape(json: #"{"home":"int","away":"int"}"#),
            identifierAttribute: "matchId"
        )
        try await simulator.withDevices { (devices, nowMilliseconds) throws(DeviceModel.Fault) in
            try devices.declareApp(SimulatorFixture.app, teamId: "TEAM123456", types: [match])
            try devices.declareApp("com.example.other", teamId: "OTHERTEAM0", types: [])
            try devices.declareApp("com.example.sibling", teamId: nil, types: [])
            try devices.install(app: SimulatorFixture.app, device: "phone", nowMilliseconds: nowMilliseconds)
            try devices.start(
                .init(
                    activity: "m1",
                    device: "phone",
                    attributesType: "MatchAttributes",
                    attributes: #"{"matchId":"m1"}"#,
                    contentState: #"{"home":0,"away":0}"#,
                    timestamp: nowMilliseconds / 1_000 - 60
                ),
                app: SimulatorFixture.app,
                nowMilliseconds: nowMilliseconds
            )
        }
        let (token, startToken) = try await simulator.withDevices { (devices, _) throws(DeviceModel.Fault) in
            (
                try devices.token(ofActivity: "m1", app: SimulatorFixture.app) ?? "",
                try devices.pushToStartToken(ofDevice: "phone", attributesType: "MatchAttributes", app: Self.app)
            )
        }
        let fixture = SimulatorFixture(
            simulator: simulator,
            signer: signer,
            otherSigner: other,
            providerToken: signer.token(),
            directory: directory,
            caFile: simulator.caFile ?? "",
            token: token,
            startToken: startToken
        )
        do {
            try await body(fixture)
        } catch {
            await simulator.stop()
            throw error
        }
        await simulator.stop()
    }

    func control(
        _ method: String,
        _ path: String,
        _ body: String? = nil
    ) async throws -> (status: Int, object: [String: Any]) {
        let url = try #require(URL(string: "http://127.0.0.1:\(simulator.controlPort)\(path)"))
        var request = URLRequest(url: url)
        request.httpMethod = method
        request.timeoutInterval = 300
        request.httpBody = body.map { Data($0.utf8) }
        let (data, response) = try await URLSession.shared.data(for: request)
        let object = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        return ((response as? HTTPURLResponse)?.statusCode ?? 0, object)
    }

    func connect() throws -> H2Client {
        try H2Client(port: simulator.port, caFile: caFile)
    }

    /// Returns the header fields of a valid push with the given changes. A nil value removes a field.
    func headers(_ changes: [String: String?] = [:], token: String? = nil) -> [(String, String)] {
        var fields: [(String, String)] = [
            (":method", "POST"), (":scheme", "https"), (":authority", "localhost"),
            (":path", "/3/device/" + (token ?? self.token)), ("authorization", "bearer " + providerToken),
            ("apns-push-type", "liveactivity"), ("apns-topic", SimulatorFixture.topic), ("apns-priority", "5"),
            ("apns-expiration", "0"), ("apns-id", "11111111-2222-3333-4444-555555555555"),
        ]
        for (name, value) in changes {
            let index = fields.firstIndex { $0.0 == name } ?? fields.count
            fields.removeAll { $0.0 == name }
            if let value { fields.insert((name, value), at: index) }
        }
        return fields
    }

    func update(home: Int, timestamp: Int? = nil) -> String {
        let seconds = timestamp ?? time(nil)
        return #"{"aps":{"timestamp":\#(seconds),"event":"update","content-state":{"home":\#(home),"away":0}}}"#
    }
}

/// Runs a program of /usr/bin. Returns its exit status, and its standard output and standard error as one text.
func output(of program: String, _ arguments: [String]) async throws -> (text: String, status: Int32) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/" + program)
    process.arguments = arguments
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = pipe
    process.standardInput = FileHandle.nullDevice
    return try await withCheckedThrowingContinuation { continuation in
        let reader = Thread {
            do {
                try process.start()
            } catch {
                continuation.resume(throwing: error)
                return
            }
            let data = pipe.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            continuation.resume(returning: (String(decoding: data, as: UTF8.self), process.terminationStatus))
        }
        reader.start()
    }
}
