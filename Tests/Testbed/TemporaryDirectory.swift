import Foundation
import Glibc

/// A directory for a test's files. It is deleted when this object is released. Its path is short, because a Unix socket
/// in it needs a path of at most 107 bytes.
public final class TemporaryDirectory: Sendable {
    public let path: String

    public var url: URL { URL(fileURLWithPath: path, isDirectory: true) }

    public init() throws {
        let parent = FileManager.default.temporaryDirectory.path
        var template = Array("\(parent)/causeway-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw CocoaError(.fileWriteUnknown) }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    /// The path of a file in the directory.
    public func path(_ name: String) -> String { "\(path)/\(name)" }

    /// - Returns: the written file.
    @discardableResult
    public func write(_ text: String, to name: String) throws -> URL {
        let file = url.appendingPathComponent(name)
        try Data(text.utf8).write(to: file)
        return file
    }
}
