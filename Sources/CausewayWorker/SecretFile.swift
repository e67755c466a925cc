import Glibc

/// A secret that is mounted as a file, as Kubernetes does: its first line, without the line's end.
enum SecretFile {
    /// The longest file that is taken for a secret.
    static let bytesMax = 4_096

    static func read(_ path: String) throws(SecretFileError) -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw SecretFileError(path: path, reason: String(cString: strerror(errno))) }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: bytesMax + 1)
        defer {
            bytes.withUnsafeMutableBytes { bytes in
                if let start = bytes.baseAddress { explicit_bzero(start, bytes.count) }
            }
        }
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        guard count >= 0 else { throw SecretFileError(path: path, reason: String(cString: strerror(errno))) }
        guard count <= bytesMax else { throw SecretFileError(path: path, reason: "is longer than \(bytesMax) bytes") }
        let line = bytes[..<count].prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard let secret = String(validating: line, as: UTF8.self), !secret.isEmpty else {
            throw SecretFileError(path: path, reason: "holds no text in its first line")
        }
        return secret
    }
}

struct SecretFileError: Error, CustomStringConvertible {
    var path: String
    var reason: String

    var description: String { "\(path): \(reason)" }
}
