public import LiveActivity

/// How far the round of one range had come at its last checkpoint (``RoundSlot``). `causeway inspect` prints it.
public struct RangeProgress: Sendable, Equatable {
    /// One version of the audience (``RangeVersionSlot``) that is on its way through the range's members.
    public struct VersionProgress: Sendable, Equatable {
        public let version: Version
        /// How far the version has come on its way through its members: 0 to 1.
        public let progressFraction: Double
        public let counts: MemberOutcomeCounts
        public let times: ResponseTimes
    }

    /// The versions under way, oldest first. Empty: the round has ended.
    public let versions: [VersionProgress]
    /// The number of parked members in the checkpoint. They get a push later, because an earlier push failed for a
    /// temporary reason, or their pool was unavailable.
    public let parkedMemberCount: Int

    /// Reads a checkpoint of the range; nil if the text is no checkpoint.
    public init?(checkpoint text: [UInt8], of range: SegmentRange) {
        guard let checkpoint = text.withUnsafeBytes({ Checkpoint($0) }) else { return nil }
        let positionsPerLap = range.ordinals.upperBound - range.ordinals.lowerBound
        versions = checkpoint.entries.map { entry in
            let positionCount = entry.positionCount ?? positionsPerLap
            let passedPositionCount = min(positionCount, checkpoint.completedPosition - entry.startPosition)
            return VersionProgress(
                version: entry.version,
                progressFraction: positionCount == 0 ? 1 : Double(passedPositionCount) / Double(positionCount),
                counts: entry.counts,
                times: entry.times
            )
        }
        parkedMemberCount = checkpoint.parkedPositions.count
    }
}
