/// Hash tags whose slots are spread evenly over a cluster, so that each of its primaries has some of them.
///
/// They are always the same, and what is kept under them moves with its slot: a primary that takes slots over has it too.
struct SlotAnchors {
    /// A primary with fewer slots than every this many has no anchor, and cannot be watched.
    static let slotsApart = 128
    static let count = KeyPlace.slotCount / slotsApart

    /// One tag for each ``slotsApart`` slots, with its slot, in their order.
    let tags: [(tag: String, slot: Int)]

    /// Of servers that stand alone: one place for all.
    static let alone = SlotAnchors(tags: [("causeway/mark", 0)])

    /// Of a cluster. Takes some thousand checksums.
    static let ofCluster: SlotAnchors = {
        var found: [Int: (tag: String, slot: Int)] = [:]
        var number = 0
        while found.count < count {
            let tag = "causeway/mark/\(number)"
            let slot = Array(tag.utf8).withUnsafeBytes { KeyPlace.slot(of: $0) }
            if found[slot / slotsApart] == nil { found[slot / slotsApart] = (tag, slot) }
            number += 1
        }
        return SlotAnchors(tags: found.sorted { $0.key < $1.key }.map(\.value))
    }()

    private init(tags: [(tag: String, slot: Int)]) { self.tags = tags }
}
