/// Counts the reports to the timetable after which Redis may refuse a restart: of the producer's starts and ends, of
/// tombstones, and of updates that came after the end. If the count of an activity has changed since Redis was asked
/// about the activity's restart, Redis must be asked again. (R35)
///
/// Activities whose hashes have the same lowest bits share a count. So Redis is sometimes asked again without need.
struct LifetimeReportCounts {
    private static var bucketCount: Int { 256 }

    private var counts = InlineArray<256, UInt16>(repeating: 0)

    private static func bucketIndex(_ hash: UInt64) -> Int { Int(truncatingIfNeeded: hash) & (bucketCount - 1) }

    func reportCount(ofActivity hash: UInt64) -> UInt16 { counts[Self.bucketIndex(hash)] }

    mutating func noteReport(ofActivity hash: UInt64) { counts[Self.bucketIndex(hash)] &+= 1 }
}
