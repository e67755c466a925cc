public import LiveActivity

/// Where the round of a range stood at its last checkpoint, for people.
public struct RangeProgress: Sendable, Equatable {
    /// A version on its way through the range's members.
    public struct UnderWay: Sendable, Equatable {
        public let version: Version
        /// How much of its window is behind it, 0 to 1.
        public let share: Double
        public let counts: MemberCounts
        public let times: RoundTimes
    }

    /// Oldest first; none: the round is over.
    public let versions: [UnderWay]
    /// Members that are tried again, since the service refused in passing.
    public let parkedCount: Int

    /// Nil if the text is no checkpoint.
    public init?(checkpoint text: [UInt8], of range: SegmentRange) {
        guard let checkpoint = text.withUnsafeBytes({ Checkpoint($0) }) else { return nil }
        let lap = range.ordinals.upperBound - range.ordinals.lowerBound
        versions = checkpoint.entries.map { entry in
            let length = entry.length ?? lap
            let passed = min(length, checkpoint.watermark - entry.start)
            return UnderWay(
                version: entry.version,
                share: length == 0 ? 1 : Double(passed) / Double(length),
                counts: entry.counts,
                times: entry.times
            )
        }
        parkedCount = checkpoint.parked.count
    }
}
