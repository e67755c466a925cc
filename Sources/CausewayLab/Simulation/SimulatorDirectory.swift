import APNsSimulator
import Foundation

/// A key that signs provider tokens: one that the command line names, or the simulator's own.
struct ProviderTokenKeyFile {
    var teamId: String
    var keyId: String
    var file: String

    init(teamId: String, keyId: String, file: String) {
        self.teamId = teamId
        self.keyId = keyId
        self.file = file
    }

    /// Reads a text of the form `team:key:file`.
    init?(_ text: String) {
        let parts = text.split(separator: ":", maxSplits: 2)
        guard parts.count == 3 else { return nil }
        self.init(teamId: String(parts[0]), keyId: String(parts[1]), file: String(parts[2]))
    }

    func readPEM() throws -> String {
        do {
            return try String(contentsOfFile: file, encoding: .utf8)
        } catch {
            throw LabError("--key \(file): cannot be read")
        }
    }
}

/// The directory in which a simulator keeps its files.
struct SimulatorDirectory {
    /// The team id and the key id of the simulator's own key. The text has ten characters like Apple's ids, but looks
    /// different.
    static let ownTeamAndKeyId = "SIMULATION"

    let path: String
    private let isTemporary: Bool

    /// - Parameter path: the directory, which is created if needed; nil: a new directory, which is removed at the end.
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

    /// Returns the key in the directory. If there is none, creates one in a file that only the owner may read.
    func ensureOwnKey() throws -> ProviderTokenKeyFile {
        let file = path + "/AuthKey_\(Self.ownTeamAndKeyId).p8"
        if !FileManager.default.fileExists(atPath: file) {
            let contents = Data(try ProviderKey.makeP8().utf8)
            guard
                FileManager.default.createFile(atPath: file, contents: contents, attributes: [.posixPermissions: 0o600])
            else {
                throw LabError("--directory \(path): cannot be written")
            }
        }
        return ProviderTokenKeyFile(
            teamId: Self.ownTeamAndKeyId,
            keyId: Self.ownTeamAndKeyId,
            file: file
        )
    }
}
