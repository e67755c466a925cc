import Glibc

/// Reads secrets from files, for example from those that Kubernetes mounts.
package enum SecretFile {
    /// The largest file that is read as a password.
    static let passwordBytesMax = 4_096

    /// Reads a password: the first line of the file, without its line end.
    package static func readPassword(_ path: String) throws(SecretFileError) -> String {
        try readSecret(path, bytesMax: passwordBytesMax, emptyReason: "has no text in its first line") { bytes in
            bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        }
    }

    /// Reads the whole file, without a line end at its end. The text may have several lines.
    package static func readText(_ path: String, bytesMax: Int) throws(SecretFileError) -> String {
        try readSecret(path, bytesMax: bytesMax, emptyReason: "has no text") { bytes in
            var text = bytes
            if text.last == UInt8(ascii: "\n") { text.removeLast() }
            if text.last == UInt8(ascii: "\r") { text.removeLast() }
            return text
        }
    }

    /// Whether the file's mode lets all users read it (`o+r`). By default, the files of a Kubernetes Secret have such a
    /// mode, 0644. A mount with `defaultMode: 0440` prevents this.
    package static func isReadableByOthers(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IROTH != 0
    }

    private static func readSecret(
        _ path: String,
        bytesMax: Int,
        emptyReason: String,
        trim: (ArraySlice<UInt8>) -> ArraySlice<UInt8>
    ) throws(SecretFileError) -> String {
        // Without O_NONBLOCK, opening a pipe would wait for its writer and so block the start.
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
        guard let secret = String(validating: trim(bytes[..<count]), as: UTF8.self), !secret.isEmpty else {
            throw SecretFileError(path: path, reason: emptyReason)
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
