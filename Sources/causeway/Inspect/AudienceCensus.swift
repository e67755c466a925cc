import ActivityStore
import Glibc
import LiveActivity
import Redis

/// Counts the members of an audience from their pages in Redis.
///
/// The census reads some pages, and then pauses for as long as the reading took. So Redis is free for workers
/// at least half of the time. Of more than ``pagesMax`` pages, the census reads the same share in each
/// segment, and the number of members is an estimate.
struct AudienceCensus {
    /// The most pages that are read. A page has up to 32 KiB, so these pages hold several million members.
    static let pagesMax = 20_000
    private static let pagesPerStep = 256

    private(set) var members = 0
    private(set) var devices = 0
    private(set) var sandbox = 0
    private(set) var frequent = 0
    /// The number of devices whose starts may name a broadcast channel.
    private(set) var onChannels = 0
    /// The number of pages of the audience. Each segment has a directory in Redis that names its pages.
    private(set) var pages = 0
    private(set) var pagesRead = 0
    /// The number of pages and directories whose form is unknown, because another program wrote them.
    private(set) var unreadable = 0
    /// The size of the pages that were read, without Redis' own overhead.
    private(set) var bytes = 0
    /// The number of members that were read, by segment.
    private(set) var membersBySegment = [Int](repeating: 0, count: MemberLocation.segmentCount)

    var isComplete: Bool { pagesRead == pages }
    /// The estimated number of members on all pages.
    var estimate: Int {
        isComplete ? members : Int((Double(members) * Double(pages) / Double(max(1, pagesRead))).rounded())
    }

    /// - Parameter pagesMax: the most pages to read; nil: all pages.
    init(of segments: InspectedAudienceKeys, pagesMax: Int? = AudienceCensus.pagesMax, _ queries: RedisQueries) throws {
        let directories = try queries.values(
            (0..<MemberLocation.segmentCount).map { segments.directoryKey(segment: UInt8($0)) }
        )
        var keys: [(segment: Int, key: [UInt8])] = []
        for (segment, directory) in directories.enumerated() {
            guard let bounds = try? InspectedAudienceKeys.bounds(ofDirectory: directory) else {
                unreadable += 1
                continue
            }
            keys += bounds.map { (segment, segments.pageKey(segment: UInt8(segment), lowerBound: $0)) }
        }
        pages = keys.count
        if let pagesMax, keys.count > pagesMax {
            // Take every n-th page, so that each segment keeps the same share of its pages.
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

    /// Counts the members of one page. An empty value is a page that has expired, which has no members.
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
                if member.supportsChannels { onChannels += 1 }
            }
        }
    }

    private static func rest(_ duration: Duration) {
        let parts = duration.components
        var time = timespec(tv_sec: Int(parts.seconds), tv_nsec: Int(parts.attoseconds / 1_000_000_000))
        nanosleep(&time, nil)
    }
}
