import Foundation
import Testing

@testable import CausewayWorker

struct AllocatorLimitsTests {
    /// Whether a sanitizer has replaced the allocator.
    private static let isSanitized = dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil

    /// In glibc's heaps, a small block that stays keeps the memory below it. After a free block of 16 MiB, glibc would
    /// take blocks of up to 16 MiB from its heaps.
    @Test(.disabled(if: isSanitized, "the sanitizer keeps freed memory"))
    func `The memory of large blocks returns to the system when they are freed`() async {
        await #expect(processExitsWith: .success) {
            AllocatorLimits.apply()
            UnsafeMutableRawPointer.allocate(byteCount: 16 << 20, alignment: 16).deallocate()
            let startBytes = try Self.readResidentBytes()
            var largeBlocks: [UnsafeMutableRawPointer] = []
            var smallBlocks: [UnsafeMutableRawPointer] = []
            for _ in 0..<128 {
                let block = UnsafeMutableRawPointer.allocate(byteCount: 256 << 10, alignment: 16)
                block.initializeMemory(as: UInt8.self, repeating: 1, count: 256 << 10)
                largeBlocks.append(block)
                smallBlocks.append(.allocate(byteCount: 64, alignment: 16))
            }
            #expect(try Self.readResidentBytes() - startBytes >= 30 << 20)
            for block in largeBlocks { block.deallocate() }
            #expect(try Self.readResidentBytes() - startBytes < 8 << 20)
            for block in smallBlocks { block.deallocate() }
        }
    }

    private static func readResidentBytes() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
        let pageCount = try #require(text.split(separator: " ").dropFirst().first.flatMap { Int($0) })
        return pageCount * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}
