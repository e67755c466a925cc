/// Hash tags whose slots are spread evenly over a cluster, so that each primary has some of these slots,
/// called anchors.
///
/// The tags never change. Keys with these tags move with their slots: a primary that takes over slots takes
/// over these keys.
struct SlotAnchors {
    /// One slot in each block of this many slots is an anchor. A primary with so few slots that it has no
    /// anchor cannot be watched.
    static let slotsApart = 128
    static let count = KeyPlace.slotCount / slotsApart

    /// One tag per ``slotsApart`` slots, with its slot, in the order of the slots.
    let tags: [(tag: String, slot: Int)]

    /// The only tag, for a server without a cluster.
    static let ofSingleServer = SlotAnchors(tags: [("causeway/mark", 0)])

    /// The tags for a cluster. Computing them takes some thousand checksums, once.
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
