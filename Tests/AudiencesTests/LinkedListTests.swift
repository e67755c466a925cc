import Delivery
import Numbers
import Testbed
import Testing

@testable import Audiences

/// A list of linked slots has the same order as an array, whatever is added, moved and removed. (R3)
@Suite struct LinkedListTests {
    private struct ListedSlot: LinkedSlot {
        var nextInList = SlabIndex<ListedSlot>.null
    }

    private typealias Index = SlabIndex<ListedSlot>

    private func indices(of list: LinkedList<ListedSlot>, in slots: borrowing Slab<ListedSlot>) -> [Index] {
        var (indices, index): ([Index], Index) = ([], list.first)
        while index != .null {
            indices.append(index)
            index = slots[index].nextInList
        }
        return indices
    }

    @Test(arguments: 1...10 as ClosedRange<UInt64>) func `A list agrees with an array`(seed: UInt64) {
        var random = SplitMix64(simulationSeed: seed)
        var slots = Slab<ListedSlot>(limit: 10)
        var unlistedIndices: [Index] = []
        for _ in 0..<10 { unlistedIndices.append(slots.allocate(ListedSlot())) }
        var list = LinkedList<ListedSlot>()
        var model: [Index] = []
        for _ in 0..<5_000 {
            let position = Int(random.next(below: UInt64(model.count)))
            let operation = random.next(below: 8)
            if operation < 5, let index = unlistedIndices.popLast() {
                switch operation {
                case 2 where !model.isEmpty:
                    list.insert(index, behind: model[position], in: &slots)
                    model.insert(index, at: position + 1)
                case 3 where !model.isEmpty:
                    list.insert(index, before: model[position], in: &slots)
                    model.insert(index, at: position)
                case 4 where !model.isEmpty:
                    list.replace(model[position], by: index, in: &slots)
                    unlistedIndices.append(model[position])
                    model[position] = index
                case 0:
                    list.prepend(index, in: &slots)
                    model.insert(index, at: 0)
                default:
                    list.append(index, in: &slots)
                    model.append(index)
                }
            } else if operation == 5 {
                let popped = list.popFirst(in: &slots)
                #expect(popped == model.first)
                unlistedIndices += model.prefix(1)
                model = Array(model.dropFirst())
            } else if operation == 6, !model.isEmpty {
                list.remove(model[position], in: &slots)
                unlistedIndices.append(model.remove(at: position))
            } else if operation == 7, random.next(below: 4) == 0 {
                let keptCount = model.isEmpty ? 0 : position
                let removed = list.removeAll(behind: model.prefix(keptCount).last, in: &slots)
                let removedIndices = indices(of: removed, in: slots)
                let removedFromModel = Array(model[keptCount...])
                let lastRemoved = removedFromModel.last ?? Index.null
                #expect(removedIndices == removedFromModel)
                #expect(removed.last == lastRemoved)
                unlistedIndices += removedIndices
                model.removeSubrange(keptCount...)
            }
            let listedIndices = indices(of: list, in: slots)
            let last = model.last ?? Index.null
            #expect(listedIndices == model)
            #expect(list.last == last)
        }
    }
}
