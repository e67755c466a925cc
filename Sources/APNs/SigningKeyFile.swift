import Glibc

/// A key file that may be replaced while it is in use: it is overwritten, another file is renamed to it, or the
/// symbolic link to a directory above it is changed, as Kubernetes does. Only ``poll()`` checks the file; if it is
/// unchanged, the check costs one `stat`.
public struct SigningKeyFile {
    public enum Change {
        case unchanged
        /// The file has changed since the last check, or is there again after it was missing. It holds a usable key.
        case replaced(SigningKey)
        /// The file has changed and holds no usable key, or cannot be read. ``poll()`` returns this once for
        /// each change.
        case broken(SigningKeyError)
    }

    public let path: String
    /// The identity of the file when a check last found it. Until a check has found the file, it is the identity that
    /// the file had when the caller read `loadedKey`.
    private var lastIdentity: FileIdentity
    private var isMissing = false

    /// Watches the file of a key that the caller has already read. The first `poll` reports a change since then.
    public init(path: String, loadedKey: SigningKey) {
        self.path = path
        lastIdentity = loadedKey.fileIdentity
    }

    /// Checks whether the file has changed since the last check.
    public mutating func poll() -> Change {
        guard let identity = SigningKeyFile.identity(path) else {
            defer { isMissing = true }
            return isMissing ? .unchanged : .broken(SigningKeyError(path, .unreadable(errno)))
        }
        guard isMissing || identity != lastIdentity else { return .unchanged }
        isMissing = false
        lastIdentity = identity
        do {
            return .replaced(try SigningKey(path: path))
        } catch {
            return .broken(error)
        }
    }

    private static func identity(_ path: String) -> FileIdentity? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return FileIdentity(status)
    }
}

/// Values of a file that differ after the file was replaced, or changed in place.
struct FileIdentity: Equatable, Sendable {
    private let device: UInt
    private let inode: UInt
    private let sizeBytes: Int
    private let modifiedAtSeconds: Int
    private let modifiedAtNanoseconds: Int

    init(_ status: stat) {
        device = status.st_dev
        inode = status.st_ino
        sizeBytes = status.st_size
        modifiedAtSeconds = status.st_mtim.tv_sec
        modifiedAtNanoseconds = status.st_mtim.tv_nsec
    }
}
