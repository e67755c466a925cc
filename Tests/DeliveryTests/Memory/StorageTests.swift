import LiveActivity
import Numbers
import Testbed
import Testing

@testable import Delivery

/// A ring of indices keeps their order while it grows and wraps. (R3)
@Suite struct IndexQueueTests {
    private func popAll(from queue: inout IndexQueue<UInt32>) -> [UInt32] {
        var elements: [UInt32] = []
        while let element = queue.popFirst() { elements.append(element) }
        return elements
    }

    @Test func `The first index in is the first out`() {
        var queue = IndexQueue<UInt32>(limit: 100)
        #expect(queue.isEmpty == true)
        #expect(queue.first == nil)
        for number in 1...3 as ClosedRange<UInt32> { queue.append(number) }
        #expect(queue.first == 1)
        #expect(queue.count == 3)
        #expect(popAll(from: &queue) == [1, 2, 3])
        #expect(popAll(from: &queue) == [])
    }

    @Test func `A prepended index is the first`() {
        var queue = IndexQueue<UInt32>(limit: 100)
        queue.append(2)
        queue.prepend(1)
        queue.prepend(0)
        #expect(popAll(from: &queue) == [0, 1, 2])
    }

    @Test(arguments: 1...10 as ClosedRange<UInt64>) func `The queue agrees with an array`(seed: UInt64) {
        var random = SplitMix64(simulationSeed: seed)
        var queue = IndexQueue<UInt32>(limit: 1_000)
        var model: [UInt32] = []
        for step in 0..<20_000 as Range<UInt32> {
            // The queue is filled and emptied in turn, so that it wraps and grows at many positions.
            let appendPerMille = (step / 1_500) % 2 == 0 ? 650 : 350
            if random.chance(appendPerMille), model.count < 1_000 {
                if random.chance(100) {
                    queue.prepend(step)
                    model.insert(step, at: 0)
                } else {
                    queue.append(step)
                    model.append(step)
                }
            } else {
                let popped = queue.popFirst()
                #expect(popped == (model.isEmpty ? nil : model.removeFirst()))
            }
            #expect(queue.count == model.count)
            #expect(queue.first == model.first)
        }
        #expect(popAll(from: &queue) == model)
    }
}

/// A slab reuses freed indices, has a limit, and keeps the values of all other indices. (R3)
@Suite struct SlabTests {
    @Test func `A freed index is given out again`() {
        var slab = Slab<Int>(limit: 100)
        let freedIndex = slab.allocate(10)
        let otherIndex = slab.allocate(20)
        #expect(freedIndex != otherIndex)
        slab.free(freedIndex)
        #expect(slab.isInUse(freedIndex) == false)
        #expect(slab.isInUse(otherIndex) == true)
        #expect(slab.allocate(30) == freedIndex)
        #expect(slab[freedIndex] == 30)
        #expect(slab[otherIndex] == 20)
        #expect(slab.indexBound == 2)
    }

    @Test func `A slab is full at its limit`() {
        var slab = Slab<Int>(limit: 3)
        for number in 0..<3 {
            #expect(slab.isFull == false)
            _ = slab.allocate(number)
        }
        #expect(slab.isFull == true)
        slab.free(1)
        #expect(slab.isFull == false)
    }

    @Test func `Indices stay valid when the slab grows`() {
        var slab = Slab<Int>(limit: 5_000)
        let indices = (0..<5_000).map { slab.allocate($0 * 7) }
        #expect(Set(indices).count == 5_000)
        #expect(indices.enumerated().allSatisfy { slab[$1] == $0 * 7 })
        #expect(slab.indexBound == 5_000)
        slab[indices[17]] += 1
        #expect(slab[indices[17]] == 17 * 7 + 1)
        #expect(slab.address(of: indices[17]).pointee == 17 * 7 + 1)
    }

    @Test func `An index that was never given out is not in use`() {
        var slab = Slab<Int>(limit: 100)
        #expect(slab.isInUse(0) == false)
        _ = slab.allocate(1)
        #expect(slab.isInUse(1) == false)
        #expect(slab.isInUse(.null) == false)
    }
}

/// An arena gives out blocks for the bytes of records, and uses freed blocks again. (R3)
@Suite struct ArenaTests {
    @Test(arguments: [0, 1, 63, 64, 65, 127, 128, 129, 4_096, 131_071, 131_072, 131_073, 1_000_000])
    func `A block has the requested size and is aligned`(count: Int) {
        var arena = Arena()
        let blocks = (0..<20).map { _ in arena.allocate(count) }
        for (number, block) in blocks.enumerated() {
            #expect(UInt(bitPattern: block.base) % 16 == 0)
            block.base.initializeMemory(as: UInt8.self, repeating: UInt8(number), count: count)
        }
        for (number, block) in blocks.enumerated() {
            let bytes = UnsafeRawBufferPointer(start: block.base, count: count)
            #expect(bytes.allSatisfy { $0 == UInt8(number) }, "blocks do not overlap")
            arena.free(block)
        }
    }

    @Test func `A freed block is used again for its size`() {
        var arena = Arena()
        let block = arena.allocate(1_000)
        arena.free(block)
        #expect(arena.allocate(2_000).base != block.base)
        #expect(arena.allocate(1_024).base == block.base)
    }

    @Test(arguments: 1...5 as ClosedRange<UInt64>) func `Blocks of all sizes keep their bytes`(seed: UInt64) {
        var random = SplitMix64(simulationSeed: seed)
        var arena = Arena()
        var blocksInUse: [(block: Arena.Block, count: Int, mark: UInt8)] = []
        for step in 0..<5_000 {
            if random.chance(550), blocksInUse.count < 300 {
                let count = random.number(1...(1 << random.number(1...18)))
                let block = arena.allocate(count)
                let mark = UInt8(truncatingIfNeeded: step)
                block.base.storeBytes(of: mark, as: UInt8.self)
                block.base.storeBytes(of: mark, toByteOffset: count - 1, as: UInt8.self)
                blocksInUse.append((block, count, mark))
            } else if !blocksInUse.isEmpty {
                let (block, count, mark) = blocksInUse.remove(at: random.number(0...blocksInUse.count - 1))
                #expect(block.base.load(as: UInt8.self) == mark)
                #expect(block.base.load(fromByteOffset: count - 1, as: UInt8.self) == mark)
                arena.free(block)
            }
            if step % 700 == 0 { arena.deallocateFreeChunks() }
        }
        for entry in blocksInUse { arena.free(entry.block) }
        #expect(arena.usedBlockBytes == 0)
        arena.deallocateFreeChunks()
        #expect(arena.allocatedChunkBytes == 0)
    }

    /// Each size of blocks in use needs a chunk at least.
    @Test func `A lane with little memory has small chunks`() {
        var arena = Arena(chunkBytes: Arena.chunkBytesMin)
        let blocks = [100, 1_000, 131_072].map { arena.allocate($0) }
        #expect(arena.allocatedChunkBytes == 3 * 128 << 10)
        for block in blocks.dropFirst() { arena.free(block) }
        arena.deallocateFreeChunks()
        #expect(arena.allocatedChunkBytes == 128 << 10)
        arena.free(blocks[0])
        arena.deallocateFreeChunks()
        #expect(arena.allocatedChunkBytes == 0)
    }

    /// Large records may follow a backlog of small ones. So the arena must be able to give back the memory of the small
    /// ones. A chunk with one block in use stays.
    @Test func `Completely free chunks are given back`() {
        var arena = Arena()
        let smallBlocks = (0..<10_000).map { _ in arena.allocate(512) }
        #expect(arena.usedBlockBytes == 10_000 * 512 && arena.allocatedChunkBytes == 5 << 20)
        for block in smallBlocks.dropFirst() { arena.free(block) }
        arena.deallocateFreeChunks()
        #expect(arena.usedBlockBytes == 512 && arena.allocatedChunkBytes == 1 << 20, "one block is in use")
        let moreBlocks = (0..<3_000).map { _ in arena.allocate(512) }
        #expect(Set(moreBlocks.map(\.base)).count == 3_000 && !moreBlocks.contains { $0.base == smallBlocks[0].base })
        for block in moreBlocks + [smallBlocks[0]] { arena.free(block) }
        #expect(arena.usedBlockBytes == 0)
        let outsizedBlock = arena.allocate(1_000_000)
        #expect(arena.usedBlockBytes == 1_000_000)
        arena.free(outsizedBlock)
        #expect(arena.usedBlockBytes == 0)
    }
}

/// The table finds the index of an activity by a hash of its identifier.
@Suite struct ActivityTableTests {
    @Test func `The caller tells entries with equal hashes apart`() {
        var table = ActivityHashTable()
        table.insert(5, index: 1)
        table.insert(5, index: 2)
        #expect(table.find(5) { $0 == 2 } == 2)
        #expect(table.find(5) { $0 == 1 } == 1)
        #expect(table.find(5) { $0 == 3 } == nil)
        #expect(table.find(6) { _ in true } == nil)
        table.remove(5, index: 1)
        #expect(table.find(5) { _ in true } == 2)
        #expect(table.count == 1)
    }

    @Test func `A run of full cells that wraps is repaired when its first entry is removed`() {
        var table = ActivityHashTable()
        let last: UInt64 = 4_095
        // The run of full cells begins in the last cell and continues in the first ones. Two of the entries belong in
        // the first cells.
        for (index, hash) in [last, last, 0, last, 1].enumerated() {
            table.insert(hash, index: ActivityIndex(rawValue: UInt32(index)))
        }
        table.remove(last, index: 0)
        #expect(table.find(last) { $0 == 1 } == 1)
        #expect(table.find(0) { $0 == 2 } == 2)
        #expect(table.find(last) { $0 == 3 } == 3)
        #expect(table.find(1) { $0 == 4 } == 4)
    }

    /// Hashes collide often, so runs of full cells are long, and wrap around the end while the table grows.
    @Test(arguments: 1...10 as ClosedRange<UInt64>) func `The table agrees with a dictionary`(seed: UInt64) {
        var random = SplitMix64(simulationSeed: seed)
        var table = ActivityHashTable()
        var model: [ActivityIndex: UInt64] = [:]
        var addedCount: UInt32 = 0
        for step in 0..<20_000 {
            if random.chance((step / 6_000) % 2 == 0 ? 700 : 300) {
                let hash = UInt64(random.number(0...200)) &* 67 &+ 4_000
                let index = ActivityIndex(rawValue: addedCount)
                table.insert(hash, index: index)
                model[index] = hash
                addedCount += 1
            } else if let index = chooseRandomKey(of: model, below: addedCount, &random),
                let hash = model.removeValue(forKey: index)
            {
                table.remove(hash, index: index)
                #expect(table.find(hash) { $0 == index } == nil)
            }
            #expect(table.count == model.count)
            if let index = chooseRandomKey(of: model, below: addedCount, &random), let hash = model[index] {
                #expect(table.find(hash) { $0 == index } == index)
            }
        }
        for (index, hash) in model { #expect(table.find(hash) { $0 == index } == index) }
    }

    private func chooseRandomKey(
        of model: [ActivityIndex: UInt64],
        below addedCount: UInt32,
        _ random: inout SplitMix64
    ) -> ActivityIndex? {
        for _ in 0..<20 where addedCount > 0 {
            let index = ActivityIndex(rawValue: UInt32(random.number(0...Int(addedCount) - 1)))
            if model[index] != nil { return index }
        }
        return nil
    }

    @Test func `A hash depends on the seed, the app and every byte`() {
        func hash(_ text: String, seed: UInt64 = 1, appIndex: UInt16 = 0) -> UInt64 {
            Array(text.utf8).withUnsafeBytes { activityHash(seed: seed, appIndex: appIndex, identifier: $0) }
        }
        let hashes = [
            hash(""), hash("a"), hash("b"), hash("aa"), hash("activity"), hash("activitz"), hash("activity "),
            hash("a", seed: 1 << 40), hash("a", appIndex: 1), hash("activity\0"),
        ]
        #expect(Set(hashes).count == hashes.count)
        #expect(hash("activity-17") == hash("activity-17"))
    }
}
