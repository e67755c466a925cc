import Foundation

/// The repository that the tests were built from.
public enum Repository {
    private static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// Returns a file or folder of the repository, by its path from the root.
    public static func url(_ path: String) -> URL { root.appendingPathComponent(path) }

    public static func path(_ path: String) -> String { url(path).path }

    public static func text(_ path: String) throws -> String { try String(contentsOf: url(path), encoding: .utf8) }
}
