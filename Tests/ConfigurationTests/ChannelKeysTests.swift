import LiveActivity
import Testing

@testable import CausewayConfiguration

/// The keys of broadcast channels.
struct ChannelKeysTests {
    private static let configurationText = """
        kafka: {bootstrapServers: "localhost:9092"}
        redis: {url: "redis://localhost"}
        apps:
          match:
            bundleId: com.example.match
            teamId: TEAM123456
            keyId: KEY1234567
            keyFile: /nowhere.p8

        """

    private func load(_ channels: String, environment: [String: String] = [:]) throws -> WorkerConfiguration.Channels {
        let loader = ConfigurationLoader(environment: environment, requiresFiles: false)
        return try loader.load(text: Self.configurationText + channels, file: "c.yaml").apps[0].channels
    }

    private func faults(_ channels: String, environment: [String: String] = [:]) -> [String] {
        let loader = ConfigurationLoader(environment: environment, requiresFiles: false)
        do {
            _ = try loader.load(text: Self.configurationText + channels, file: "c.yaml")
            return []
        } catch {
            return error.faults.map { "\($0.key): \($0.message)" }
        }
    }

    @Test func `No audience gets a channel by default`() throws {
        let channels = try load("")
        #expect(channels.audiences.isEmpty && channels.environments == [.production])
    }

    @Test func `Patterns of audiences are read`() throws {
        let channels = try load("    channels: {audiences: [\"match-*\", final], storage: none, keepSeconds: 0}\n")
        #expect(channels.audiences == ["match-*", "final"] && channels.storage == .none && channels.keepSeconds == 0)
        let variables = ["CAUSEWAY_APPS_MATCH_CHANNELS_AUDIENCES": "cup-*,final"]
        #expect(try load("", environment: variables).audiences == ["cup-*", "final"])
        #expect(try load("    channels: {audiences: []}\n").audiences.isEmpty)
    }

    @Test func `The error about a channel key says what is wrong`() {
        let key = "apps.match.channels"
        let pattern = "is not an audience pattern: 1 to \(Limits.identifierBytesMax) bytes, * only at the end"
        #expect(faults("    channels: {audiences: [\"a*b\"]}\n") == ["\(key).audiences: a*b \(pattern)"])
        #expect(faults("    channels: {audiences: [a, a]}\n") == ["\(key).audiences: has a value twice"])
        #expect(
            faults("    channels: {audiences: a}\n")
                == ["\(key).audiences: must be a list such as [\"match-*\"], or [] for none"]
        )
        #expect(faults("    channels: {storage: all}\n") == ["\(key).storage: is not one of none, newest"])
        let missingEnvironmentFault = "\(key).environments: production is not one of the app's environments"
        #expect(faults("    environments: [sandbox]\n    channels: {audiences: [a]}\n") == [missingEnvironmentFault])
        #expect(faults("    environments: [sandbox]\n").isEmpty)
    }
}
