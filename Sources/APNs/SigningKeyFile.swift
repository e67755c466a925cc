import Glibc

/// A key file that may be replaced while it is in use. It is replaced in place, by a rename, or by changing
/// the symbolic link to a directory above it, as Kubernetes does. Only ``poll()`` checks the file; if it is
/// unchanged, the check costs one `stat`.
public struct SigningKeyFile {
    public enum Change {
        case unchanged
        /// The file has changed since the last check and holds a usable key.
        case replaced(SigningKey)
        /// The file has changed and holds no usable key, or cannot be read. ``poll()`` returns this once for
        /// each change.
        case broken(SigningKeyError)
    }

    private struct Identity: Equatable {
        var device: UInt
        var inode: UInt
        var bytes: Int
        var seconds: Int
        var nanoseconds: Int
    }

    public let path: String
    /// What identified the file at the last check that found it; nil if no check has found it.
    private var lastIdentity: Identity?
    private var isMissing = false

    /// Watches a file. The caller has already read its key, so the first `poll` reports only a later change.
    public init(path: String) {
        self.path = path
        lastIdentity = SigningKeyFile.identity(path)
    }

    /// Checks whether the file has changed since the last check.
    public mutating func poll() -> Change {
        guard let identity = SigningKeyFile.identity(path) else {
            defer { isMissing = true }
            return isMissing ? .unchanged : .broken(SigningKeyError(path, .unreadable(errno)))
        }
        isMissing = false
        guard identity != lastIdentity else { return .unchanged }
        lastIdentity = identity
        do {
            return .replaced(try SigningKey(path: path))
        } catch {
            return .broken(error)
        }
    }

    private static func identity(_ path: String) -> Identity? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Identity(
            device: status.st_dev,
            inode: status.st_ino,
            bytes: status.st_size,
            seconds: status.st_mtim.tv_sec,
            nanoseconds: status.st_mtim.tv_nsec
        )
    }
}
