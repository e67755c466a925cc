import APNsSimulator
import Foundation

/// A key that may sign provider tokens, as given on the command line.
struct SimulatorKey {
    var teamIdentifier: String
    var keyIdentifier: String
    var file: String

    init(teamIdentifier: String, keyIdentifier: String, file: String) {
        self.teamIdentifier = teamIdentifier
        self.keyIdentifier = keyIdentifier
        self.file = file
    }

    /// Reads `team:key:file`.
    init?(_ text: String) {
        let parts = text.split(separator: ":", maxSplits: 2)
        guard parts.count == 3 else { return nil }
        self.init(teamIdentifier: String(parts[0]), keyIdentifier: String(parts[1]), file: String(parts[2]))
    }

    func pem() throws -> String {
        do {
            return try String(contentsOfFile: file, encoding: .utf8)
        } catch {
            throw LabError("--key \(file): cannot be read")
        }
    }
}

/// Where a simulator keeps its files.
struct SimulatorDirectory {
    /// Ten letters like Apple's identifiers, and clearly not one of them.
    static let ownIdentifier = "SIMULATION"

    let path: String
    private let isTemporary: Bool

    /// - Parameter path: created if it does not exist; nil: a new directory that is removed afterwards.
    init(path: String?) throws {
        isTemporary = path == nil
        self.path =
            path
            ?? FileManager.default.temporaryDirectory.appendingPathComponent("causeway-simulator-\(UUID().uuidString)")
            .path
        try FileManager.default.createDirectory(atPath: self.path, withIntermediateDirectories: true)
    }

    func removeIfTemporary() {
        if isTemporary { try? FileManager.default.removeItem(atPath: path) }
    }

    /// The directory's key, which is created the first time. Only the owner may read it.
    func ownKey() throws -> SimulatorKey {
        let file = path + "/AuthKey_\(Self.ownIdentifier).p8"
        if !FileManager.default.fileExists(atPath: file) {
            let contents = Data(try ProviderKey.makeP8().utf8)
            guard
                FileManager.default.createFile(atPath: file, contents: contents, attributes: [.posixPermissions: 0o600])
            else {
                throw LabError("--directory \(path): cannot be written")
            }
        }
        return SimulatorKey(teamIdentifier: Self.ownIdentifier, keyIdentifier: Self.ownIdentifier, file: file)
    }
}
