import Glibc

/// A key file that may be replaced while it is in use. It may be overwritten, or renamed over, or a symbolic link in
/// its path may change, as with Kubernetes. Only ``poll()`` checks the file: with one `stat` if nothing has changed and
/// the file has a usable key.
public struct SigningKeyFile {
    public enum Change {
        case unchanged
        /// The file holds a usable key. The file has changed since the last check, or was missing or unusable then.
        case replaced(SigningKey)
        /// The file has changed and holds no usable key, or cannot be read. ``poll()`` returns this once for each
        /// change.
        case unusable(SigningKeyError)
    }

    public let path: String
    /// The version of the file at the last attempt to read it; at first, the one from which the caller read
    /// `loadedKey`.
    private var lastIdentity: FileIdentity
    private var isMissing = false
    /// Whether the last attempt to read a key from the file failed. Each poll then reads the file again: a new mode may
    /// make the file readable, but does not change ``FileIdentity``.
    private var wasUnusable = false

    /// Watches the file of a key that the caller has already read. The first `poll` reports a change since then.
    public init(path: String, loadedKey: SigningKey) {
        self.path = path
        lastIdentity = loadedKey.fileIdentity
    }

    /// Checks whether the file has changed since the last check. If it has, or held no usable key then, reads it again.
    public mutating func poll() -> Change {
        guard let identity = SigningKeyFile.readIdentity(path) else {
            defer { isMissing = true }
            return isMissing ? .unchanged : .unusable(SigningKeyError(path, .unreadable(errno)))
        }
        let hasFileChanged = isMissing || identity != lastIdentity
        guard hasFileChanged || wasUnusable else { return .unchanged }
        isMissing = false
        lastIdentity = identity
        do {
            let key = try SigningKey(path: path)
            wasUnusable = false
            return .replaced(key)
        } catch {
            wasUnusable = true
            return hasFileChanged ? .unusable(error) : .unchanged
        }
    }

    private static func readIdentity(_ path: String) -> FileIdentity? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return FileIdentity(status)
    }
}

/// Identifies one version of a file. At least one of these values differs after the file was replaced or was changed in
/// place.
struct FileIdentity: Equatable, Sendable {
    private let fileSystemNumber: UInt
    private let inode: UInt
    private let sizeBytes: Int
    private let modifiedAtSeconds: Int
    private let modifiedAtNanoseconds: Int

    init(_ status: stat) {
        fileSystemNumber = status.st_dev
        inode = status.st_ino
        sizeBytes = status.st_size
        modifiedAtSeconds = status.st_mtim.tv_sec
        modifiedAtNanoseconds = status.st_mtim.tv_nsec
    }
}
