import ActivityStore
import Glibc
import LiveActivity
import Redis

/// Counts the members of an audience from their pages in Redis.
///
/// After each batch of pages, the census pauses for as long as the reading took, so that Redis is free for workers at
/// least half of the time. Of an audience with more than ``pagesMax`` pages, it reads only that many: the same share of
/// each segment. The number of members is then an estimate.
struct AudienceCensus {
    /// The maximum number of pages that are read. A page has up to 32 KiB, so these pages can have several million
    /// members.
    static let pagesMax = 20_000
    private static let pagesPerBatch = 256

    private(set) var readMemberCount = 0
    private(set) var deviceCount = 0
    private(set) var sandboxMemberCount = 0
    private(set) var frequentUpdateMemberCount = 0
    /// The number of devices that support broadcast channels: a start for such a device may name a channel.
    private(set) var channelCapableDeviceCount = 0
    /// The number of pages that the segments' directories in Redis list for the audience.
    private(set) var pageCount = 0
    private(set) var readPageCount = 0
    /// The number of pages and directories that cannot be read completely, for example because another program wrote
    /// them.
    private(set) var unreadableValueCount = 0
    /// The size of the pages that were read, without Redis' own overhead.
    private(set) var pageBytes = 0
    /// The number of members that were read, by segment.
    private(set) var memberCountsBySegment = [Int](repeating: 0, count: MemberLocation.segmentCount)

    var isComplete: Bool { readPageCount == pageCount }
    /// The number of members on all pages, estimated if not all pages were read. Members on damaged pages may be
    /// missing.
    var estimatedMemberCount: Int {
        if isComplete { return readMemberCount }
        return Int((Double(readMemberCount) * Double(pageCount) / Double(max(1, readPageCount))).rounded())
    }

    /// - Parameter pagesMax: the maximum number of pages to read; nil: all pages.
    init(
        of audienceKeys: AudienceKeyWriter,
        pagesMax: Int? = AudienceCensus.pagesMax,
        _ queries: RedisQueries
    ) throws {
        let nowMilliseconds = try queries.readServerWallMilliseconds(for: audienceKeys.audienceKey)
        let directories = try queries.readStrings(
            (0..<MemberLocation.segmentCount).map { audienceKeys.directoryKey(segment: UInt8($0)) }
        )
        var pageKeys: [(segment: Int, key: [UInt8])] = []
        for (segment, directory) in directories.enumerated() {
            guard let bounds = try? AudienceKeyWriter.bounds(ofDirectory: directory) else {
                unreadableValueCount += 1
                continue
            }
            pageKeys += bounds.map { (segment, audienceKeys.pageKey(segment: UInt8(segment), lowerBound: $0)) }
        }
        pageCount = pageKeys.count
        if let pagesMax, pageKeys.count > pagesMax {
            // Take pages at equal distances in the list, so that each segment keeps the same share of its pages.
            pageKeys = (0..<pagesMax).map { pageKeys[$0 * pageKeys.count / pagesMax] }
        }
        let memberReferences = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)
        defer { memberReferences.deallocate() }
        for start in stride(from: 0, to: pageKeys.count, by: Self.pagesPerBatch) {
            let batch = pageKeys[start..<min(start + Self.pagesPerBatch, pageKeys.count)]
            let readStart = ContinuousClock.now
            let values = try queries.readStrings(batch.map(\.key))
            let readDuration = readStart.duration(to: .now)
            for (key, value) in zip(batch, values) {
                countMembers(value, segment: key.segment, memberReferences, nowMilliseconds)
            }
            if batch.endIndex < pageKeys.count { Self.pause(for: readDuration) }
        }
    }

    /// Counts the members of one page. An empty value means that Redis no longer has the page; the page counts as read.
    private mutating func countMembers(
        _ value: [UInt8],
        segment: Int,
        _ memberReferences: UnsafeMutableBufferPointer<MemberReference>,
        _ nowMilliseconds: Int64
    ) {
        readPageCount += 1
        pageBytes += value.count
        guard !value.isEmpty else { return }
        value.withUnsafeBytes { value in
            guard let page = MemberPage(value) else {
                unreadableValueCount += 1
                return
            }
            let pageMembers = page.members(into: memberReferences, nowMilliseconds: nowMilliseconds)
            if !pageMembers.isWhole { unreadableValueCount += 1 }
            for reference in memberReferences[..<pageMembers.count] {
                guard let member = page[reference] else { continue }
                readMemberCount += 1
                memberCountsBySegment[segment] += 1
                if member.kind == .device { deviceCount += 1 }
                if member.environment == .sandbox { sandboxMemberCount += 1 }
                if member.allowsFrequentUpdates { frequentUpdateMemberCount += 1 }
                if member.supportsChannels { channelCapableDeviceCount += 1 }
            }
        }
    }

    private static func pause(for duration: Duration) {
        let parts = duration.components
        var time = timespec(tv_sec: Int(parts.seconds), tv_nsec: Int(parts.attoseconds / 1_000_000_000))
        nanosleep(&time, nil)
    }
}
