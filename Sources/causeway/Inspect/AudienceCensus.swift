import ActivityStore
import Glibc
import LiveActivity
import Redis

/// The members of an audience, counted on their pages.
///
/// Pages are read some at a time, and between two steps the reading rests for as long as the last step took, so that workers find Redis free
/// for at least half of the time. Beyond ``pagesMax`` pages the members are an estimate: of each segment the same share of pages is read.
struct AudienceCensus {
    /// Some 8 KiB each; those of about a million members.
    static let pagesMax = 20_000
    private static let pagesPerStep = 256

    private(set) var members = 0
    private(set) var devices = 0
    private(set) var sandbox = 0
    private(set) var frequent = 0
    /// Devices whose activities may begin on a broadcast channel.
    private(set) var onChannels = 0
    /// In all directories.
    private(set) var pages = 0
    private(set) var pagesRead = 0
    /// Pages, or directories, that hold something else than the scripts write.
    private(set) var unreadable = 0
    /// What the pages that were read take, without what Redis reserves beyond.
    private(set) var bytes = 0
    /// By segment: the members that were read.
    private(set) var membersBySegment = [Int](repeating: 0, count: MemberPlace.segmentCount)

    var isComplete: Bool { pagesRead == pages }
    /// Of all pages, by those that were read.
    var estimate: Int {
        isComplete ? members : Int((Double(members) * Double(pages) / Double(max(1, pagesRead))).rounded())
    }

    /// - Parameter pagesMax: how many pages are read at most; nil: all.
    init(of segments: InspectedSegments, pagesMax: Int? = AudienceCensus.pagesMax, _ queries: RedisQueries) throws {
        let directories = try queries.values(
            (0..<MemberPlace.segmentCount).map { segments.directoryKey(segment: UInt8($0)) }
        )
        var keys: [(segment: Int, key: [UInt8])] = []
        for (segment, directory) in directories.enumerated() {
            guard let bounds = try? InspectedSegments.bounds(ofDirectory: directory) else {
                unreadable += 1
                continue
            }
            keys += bounds.map { (segment, segments.pageKey(segment: UInt8(segment), lowerBound: $0)) }
        }
        pages = keys.count
        if let pagesMax, keys.count > pagesMax {
            // Every n-th of them, in the order of the segments.
            keys = (0..<pagesMax).map { keys[$0 * keys.count / pagesMax] }
        }
        let scratch = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)
        defer { scratch.deallocate() }
        for start in stride(from: 0, to: keys.count, by: Self.pagesPerStep) {
            let step = keys[start..<min(start + Self.pagesPerStep, keys.count)]
            let began = ContinuousClock.now
            let values = try queries.values(step.map(\.key))
            let took = began.duration(to: .now)
            for (key, value) in zip(step, values) { count(value, segment: key.segment, scratch) }
            if step.endIndex < keys.count { Self.rest(took) }
        }
    }

    /// A page that has expired meanwhile has no members.
    private mutating func count(_ value: [UInt8], segment: Int, _ scratch: UnsafeMutableBufferPointer<MemberReference>)
    {
        pagesRead += 1
        bytes += value.count
        guard !value.isEmpty else { return }
        value.withUnsafeBytes { value in
            guard let page = MemberPage(value) else {
                unreadable += 1
                return
            }
            let found = page.members(into: scratch)
            if !found.isWhole { unreadable += 1 }
            for reference in scratch[..<found.count] {
                guard let member = page[reference] else { continue }
                members += 1
                membersBySegment[segment] += 1
                if member.kind == .device { devices += 1 }
                if member.environment == .sandbox { sandbox += 1 }
                if member.frequentUpdates { frequent += 1 }
                if member.takesChannels { onChannels += 1 }
            }
        }
    }

    private static func rest(_ duration: Duration) {
        let parts = duration.components
        var time = timespec(tv_sec: Int(parts.seconds), tv_nsec: Int(parts.attoseconds / 1_000_000_000))
        nanosleep(&time, nil)
    }
}
