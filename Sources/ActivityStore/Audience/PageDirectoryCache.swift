import LiveActivity
import Redis

/// A lane's cache of segment directories, so that it sends a member's entry to the right page without a look-up. A
/// directory lists the pages of one segment by their lower bounds.
///
/// A cached directory may be outdated, so the script `append` checks the bounds in the page itself. The cache is a
/// table of fixed size. If two segments have the same place, the newer directory replaces the older one.
struct PageDirectoryCache: ~Copyable {
    /// The number of places in the table: enough for 32 audiences, each of which has 256 segments. A power of two,
    /// because the lowest bits of a hash choose the place.
    static let capacity = 8_192
    /// The maximum number of lower bounds in all cached directories together; they take 4 MiB. Before the cache exceeds
    /// this number, it removes all directories except the newest one. In large audiences a page has about 200 members,
    /// so the bounds are enough for about 200 million members.
    static let boundsMax = 1 << 20

    private struct CachedDirectory {
        /// A hash (``KeyFingerprint``) of the segment's hash tag; 0: the place is empty. Very rarely, another segment
        /// has the same hash.
        var fingerprint: UInt64 = 0
        var bounds: [UInt32] = []
    }

    private var directories = [CachedDirectory](repeating: CachedDirectory(), count: capacity)
    private var boundCount = 0

    private static func index(_ fingerprint: UInt64) -> Int { Int(fingerprint & UInt64(capacity - 1)) }

    /// Returns the bounds of the page to which a member's position belongs, as far as the cache knows. For a segment
    /// that is not in the cache, the bounds include all positions, because a small segment has only one page.
    ///
    /// - Parameter hashTag: the segment's hash tag (``AudienceStoreKey``).
    func pageBounds(of position: UInt32, hashTag: UnsafeRawBufferPointer) -> PageBounds {
        let fingerprint = KeyFingerprint(hashTag).value
        let index = Self.index(fingerprint)
        guard directories[index].fingerprint == fingerprint else { return PageBounds(lowerBound: 0, nextLowerBound: 0) }
        return Self.pageBounds(of: position, in: directories[index].bounds)
    }

    private static func pageBounds(of position: UInt32, in bounds: [UInt32]) -> PageBounds {
        var (low, high) = (0, bounds.count)
        while low < high {
            let middle = (low + high) / 2
            if bounds[middle] <= position { low = middle + 1 } else { high = middle }
        }
        guard low > 0 else { return PageBounds(lowerBound: 0, nextLowerBound: 0) }
        return PageBounds(lowerBound: bounds[low - 1], nextLowerBound: low < bounds.count ? bounds[low] : 0)
    }

    /// Caches a segment's directory from Redis: the lower bounds of its pages, ascending, four bytes each. The first
    /// bound is 0. There are at most ``PageLimits/pagesMax`` bounds, and none if Redis has no directory.
    ///
    /// - Returns: false, without a change, if the bytes are not a valid directory.
    mutating func cacheDirectory(_ directory: UnsafeRawBufferPointer, hashTag: UnsafeRawBufferPointer) -> Bool {
        guard Self.isValidDirectory(directory) else { return false }
        let fingerprint = KeyFingerprint(hashTag).value
        let index = Self.index(fingerprint)
        let count = directory.count / AudienceStoreKey.lowerBoundByteCount
        boundCount += count - directories[index].bounds.count
        if boundCount > Self.boundsMax {
            directories = [CachedDirectory](repeating: CachedDirectory(), count: Self.capacity)
            boundCount = count
        }
        directories[index].fingerprint = fingerprint
        directories[index].bounds.removeAll(keepingCapacity: true)
        for boundIndex in 0..<count { directories[index].bounds.append(Self.bound(boundIndex, of: directory)) }
        return true
    }

    private static func isValidDirectory(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count % AudienceStoreKey.lowerBoundByteCount == 0 else { return false }
        let count = bytes.count / AudienceStoreKey.lowerBoundByteCount
        return count <= PageLimits.pagesMax && (count == 0 || bound(0, of: bytes) == 0)
            && (1..<max(1, count)).allSatisfy { bound($0 - 1, of: bytes) < bound($0, of: bytes) }
    }

    private static func bound(_ index: Int, of directory: UnsafeRawBufferPointer) -> UInt32 {
        let storedBound = directory.loadUnaligned(
            fromByteOffset: index * AudienceStoreKey.lowerBoundByteCount,
            as: UInt32.self
        )
        return UInt32(littleEndian: storedBound)
    }
}

/// The range of positions that belong to a page.
struct PageBounds: Equatable, BitwiseCopyable {
    var lowerBound: UInt32
    /// The next page's lower bound; 0 if the page reaches to the end of the segment.
    var nextLowerBound: UInt32

    /// The position at which the upper page begins if this page is split; nil if the page has only one position.
    var splitPosition: UInt32? {
        let end = nextLowerBound == 0 ? MemberLocation.positionsPerSegment : UInt64(nextLowerBound)
        guard end > UInt64(lowerBound) + 1 else { return nil }
        return UInt32(UInt64(lowerBound) + (end - UInt64(lowerBound)) / 2)
    }
}
