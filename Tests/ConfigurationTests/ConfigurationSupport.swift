import Foundation

@testable import CausewayConfiguration

/// The least that loads: what has no default.
let smallestFile = """
    kafka:
      bootstrapServers: broker:9092
    redis:
      url: redis://cache
    apps:
      match:
        bundleId: com.example.match
        teamId: TEAM123456
        keyId: KEY1234567
        keyFile: key.p8

    """

/// Loads YAML under the name `c.yaml`, and the environment given.
func load(
    _ text: String,
    environment: [String: String] = [:],
    requiresFiles: Bool = false
) throws(ConfigurationFaults) -> WorkerConfiguration {
    try ConfigurationLoader(environment: environment, requiresFiles: requiresFiles).load(text: text, file: "c.yaml")
}

/// The lines that a configuration is refused with; empty if it is not.
func faults(of text: String, environment: [String: String] = [:], requiresFiles: Bool = false) -> [String] {
    do {
        _ = try load(text, environment: environment, requiresFiles: requiresFiles)
        return []
    } catch {
        return error.faults.map(\.description)
    }
}

/// The file of the repository that documents every key.
func documentedFile() throws -> String { try repositoryFile("Config/causeway.yaml") }

/// A text of the repository.
func repositoryFile(_ path: String) throws -> String {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    return try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
}
