import LiveActivity
import Testing

@testable import ActivityStore

@Suite struct DirectoryCacheTests {
    private func store(_ bounds: [UInt32], of tag: String, into cache: inout PageDirectoryCache) -> Bool {
        let bytes = bounds.flatMap { bound in withUnsafeBytes(of: bound.littleEndian) { Array($0) } }
        return bytes.withUnsafeBytes { bytes in
            Array(tag.utf8).withUnsafeBytes { cache.cacheDirectory(bytes, hashTag: $0) }
        }
    }

    private func pageBounds(of position: UInt32, _ tag: String, in cache: borrowing PageDirectoryCache) -> PageBounds {
        Array(tag.utf8).withUnsafeBytes { cache.pageBounds(of: position, hashTag: $0) }
    }

    @Test func `The cache finds the page of a position, and for an unknown segment the first page`() {
        var cache = PageDirectoryCache()
        #expect(store([0, 10, 20], of: "a", into: &cache))
        #expect(pageBounds(of: 9, "a", in: cache) == PageBounds(lowerBound: 0, nextLowerBound: 10))
        #expect(pageBounds(of: 10, "a", in: cache) == PageBounds(lowerBound: 10, nextLowerBound: 20))
        #expect(pageBounds(of: .max, "a", in: cache) == PageBounds(lowerBound: 20, nextLowerBound: 0))
        #expect(pageBounds(of: .max, "b", in: cache) == PageBounds(lowerBound: 0, nextLowerBound: 0))
        #expect(!store([0, 10, 10], of: "a", into: &cache))
        #expect(pageBounds(of: 10, "a", in: cache) == PageBounds(lowerBound: 10, nextLowerBound: 20))
        #expect(store([], of: "a", into: &cache))
        #expect(pageBounds(of: 10, "a", in: cache) == PageBounds(lowerBound: 0, nextLowerBound: 0))
    }

    @Test func `A full cache forgets all segments except the last one`() {
        var cache = PageDirectoryCache()
        let bounds = (0..<UInt32(PageLimits.pagesMax)).map { $0 * 2 }
        let fittingDirectoryCount = PageDirectoryCache.boundsMax / bounds.count
        for segment in 0..<fittingDirectoryCount { #expect(store(bounds, of: "\(segment)", into: &cache)) }
        // Another segment may have evicted the bounds of segment 0. After this call the cache has them in any case.
        #expect(store(bounds, of: "0", into: &cache))
        #expect(pageBounds(of: 7, "0", in: cache) == PageBounds(lowerBound: 6, nextLowerBound: 8))
        for segment in 0..<fittingDirectoryCount { #expect(store(bounds, of: "other \(segment)", into: &cache)) }
        #expect(
            pageBounds(of: 7, "other \(fittingDirectoryCount - 1)", in: cache)
                == PageBounds(lowerBound: 6, nextLowerBound: 8)
        )
        #expect(pageBounds(of: 7, "0", in: cache) == PageBounds(lowerBound: 0, nextLowerBound: 0))
        #expect(!store(bounds + [.max], of: "0", into: &cache))
    }
}
