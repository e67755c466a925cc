/// Counts the reports to the timetable after which Redis usually refuses a restart: of the producer's starts and ends,
/// of tombstones, and of updates that came after the end. If the count of an activity has changed since Redis was asked
/// about the activity's restart, Redis must be asked again. (R35)
///
/// Activities whose hashes have the same lowest bits share a count. So Redis is sometimes asked again without need, and
/// the restart then loses its place in the queue of its pool. There are enough counts to make this rare, also if many
/// activities end at once.
struct LifetimeReportCounts {
    /// A power of two: the lowest bits of a hash are the index of its count.
    private static var countsMax: Int { 1 << 14 }
    static var byteCount: Int { countsMax * MemoryLayout<UInt16>.stride }

    private var counts = [UInt16](repeating: 0, count: countsMax)

    private static func countIndex(_ hash: UInt64) -> Int { Int(truncatingIfNeeded: hash) & (countsMax - 1) }

    func reportCount(ofActivity hash: UInt64) -> UInt16 { counts[Self.countIndex(hash)] }

    mutating func noteReport(ofActivity hash: UInt64) { counts[Self.countIndex(hash)] &+= 1 }
}
