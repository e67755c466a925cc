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

    @inlinable
    public static func < (left: Version, right: Version) -> Bool {
        left.timestamp == right.timestamp ? left.sequence < right.sequence : left.timestamp < right.timestamp
    }
}
