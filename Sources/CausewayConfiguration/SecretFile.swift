import Glibc

/// A secret that is mounted as a file, as Kubernetes does.
package enum SecretFile {
    /// The longest file that is taken for a password.
    static let bytesMax = 4_096

    /// A password: the file's first line, without the line's end.
    package static func read(_ path: String) throws(SecretFileError) -> String {
        try contents(path, bytesMax: bytesMax, nothing: "holds no text in its first line") { bytes in
            bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        }
    }

    /// All that the file holds, several lines too, without the line's end at its end.
    package static func text(_ path: String, bytesMax: Int) throws(SecretFileError) -> String {
        try contents(path, bytesMax: bytesMax, nothing: "holds no text") { bytes in
            var text = bytes
            if text.last == UInt8(ascii: "\n") { text.removeLast() }
            if text.last == UInt8(ascii: "\r") { text.removeLast() }
            return text
        }
    }

    /// The file's mode lets others read it (`o+r`), as Kubernetes' secrets are unless they are mounted with `defaultMode: 0440`.
    package static func isReadableByOthers(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IROTH != 0
    }

    private static func contents(
        _ path: String,
        bytesMax: Int,
        nothing: String,
        wanted: (ArraySlice<UInt8>) -> ArraySlice<UInt8>
    ) throws(SecretFileError) -> String {
        // What is no file, a pipe above all, must not keep the start waiting.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw SecretFileError(path: path, reason: String(cString: strerror(errno))) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw SecretFileError(path: path, reason: "is not a file")
        }
        var bytes = [UInt8](repeating: 0, count: bytesMax + 1)
        defer {
            bytes.withUnsafeMutableBytes { bytes in
                if let start = bytes.baseAddress { explicit_bzero(start, bytes.count) }
            }
        }
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        guard count >= 0 else { throw SecretFileError(path: path, reason: String(cString: strerror(errno))) }
        guard count <= bytesMax else { throw SecretFileError(path: path, reason: "is longer than \(bytesMax) bytes") }
        guard let secret = String(validating: wanted(bytes[..<count]), as: UTF8.self), !secret.isEmpty else {
            throw SecretFileError(path: path, reason: nothing)
        }
        return secret
    }
}

package struct SecretFileError: Error, CustomStringConvertible {
    package var path: String
    package var reason: String

    package init(path: String, reason: String) {
        self.path = path
        self.reason = reason
    }

    package var description: String { "\(path): \(reason)" }
}
