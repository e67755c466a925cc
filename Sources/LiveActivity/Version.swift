/// The order of the commands of one activity, audience or channel: the timestamp, and for equal timestamps the
/// sequence.
@frozen
public struct Version: Comparable, Hashable, Sendable, BitwiseCopyable {
    /// `aps.timestamp`, UNIX seconds.
    public var timestamp: Int64
    /// The command's `sequence`; 0 if it has none.
    public var sequence: UInt64

    @inlinable
    public init(timestamp: Int64, sequence: UInt64) {
        self.timestamp = timestamp
        self.sequence = sequence
    }

    /// Lower than the version of any command, because a command's timestamp is at least ``Limits/timestampMin``. Code
    /// that only compares versions uses `zero` for "no version".
    @inlinable
    public static var zero: Version { Version(timestamp: 0, sequence: 0) }

    @inlinable
    public static func < (left: Version, right: Version) -> Bool {
        left.timestamp == right.timestamp ? left.sequence < right.sequence : left.timestamp < right.timestamp
    }
}
