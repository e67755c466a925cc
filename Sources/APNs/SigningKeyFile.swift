import Glibc

/// A key file that may be replaced while it is in use: in place, by a rename, or as Kubernetes does it, by swapping the symbolic link
/// to a directory above it. Looks only when asked to; a file that stays the same costs one `stat`.
public struct SigningKeyFile {
    public enum Change {
        case unchanged
        /// The file is another one than at the last look, and holds a usable key.
        case replaced(SigningKey)
        /// It is another one and no usable key, or it cannot be read. Said once for each such file.
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
    /// Nil while there is no file.
    private var seen: Identity?
    private var isMissing = false

    /// A file whose present content is known already.
    public init(path: String) {
        self.path = path
        seen = SigningKeyFile.identity(path)
    }

    /// What has become of the file since the last look.
    public mutating func poll() -> Change {
        guard let identity = SigningKeyFile.identity(path) else {
            defer { isMissing = true }
            return isMissing ? .unchanged : .broken(SigningKeyError(path, .unreadable(errno)))
        }
        isMissing = false
        guard identity != seen else { return .unchanged }
        seen = identity
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
