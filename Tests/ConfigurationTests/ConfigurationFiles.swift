import Foundation
import Testbed

@testable import CausewayConfiguration

/// The smallest valid file: it has only the keys without defaults.
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

/// Loads YAML under the name `c.yaml`, with the given environment.
func load(
    _ text: String,
    environment: [String: String] = [:],
    requiresFiles: Bool = false
) throws(ConfigurationFaults) -> WorkerConfiguration {
    try ConfigurationLoader(environment: environment, requiresFiles: requiresFiles).load(text: text, file: "c.yaml")
}

/// Returns one line for each fault of a configuration; empty if it is valid.
func faults(of text: String, environment: [String: String] = [:], requiresFiles: Bool = false) -> [String] {
    do {
        _ = try load(text, environment: environment, requiresFiles: requiresFiles)
        return []
    } catch {
        return error.faults.map(\.description)
    }
}

/// Returns the repository's file that documents every key.
func documentedFile() throws -> String { try repositoryFile("Config/causeway.yaml") }

func repositoryFile(_ path: String) throws -> String { try Repository.text(path) }
