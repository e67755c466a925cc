/// The hash tags in the keys of marks (``PrimaryMarks``). A hash tag decides the slot of its keys. The slots of these
/// tags are spread evenly over a cluster. So each primary with many slots has keys of marks, which are missing if it
/// loses its data (R24).
///
/// The tags never change. Keys with these tags move with their slots: a primary that gets a slot also gets
/// its keys.
struct MarkHashTags {
    /// Of this many neighbouring slots, one has a hash tag, and so keys of marks. A primary that serves few slots may
    /// have none of these keys. The worker then does not notice that the primary has lost its data.
    static let slotsPerHashTag = 128
    static let hashTagCount = KeySlot.slotCount / slotsPerHashTag

    /// The hash tags in the order of their slots. Redis puts each key with a hash tag into the hash tag's
    /// slot.
    let tags: [(tag: String, slot: Int)]

    /// One hash tag for all marks, for a server without a cluster. Such a server has no slots, so slot 0 means nothing.
    static let forSingleServer = MarkHashTags(tags: [("causeway/mark", 0)])

    /// The hash tags for a cluster. A checksum of a hash tag decides its slot. So the first access tries several
    /// hundred texts, until it has a hash tag for each block of slots.
    static let forCluster: MarkHashTags = {
        var tagsByBlockNumber: [Int: (tag: String, slot: Int)] = [:]
        var number = 0
        while tagsByBlockNumber.count < hashTagCount {
            let tag = "causeway/mark/\(number)"
            let slot = Array(tag.utf8).withUnsafeBytes { KeySlot.slot(of: $0) }
            let blockNumber = slot / slotsPerHashTag
            if tagsByBlockNumber[blockNumber] == nil { tagsByBlockNumber[blockNumber] = (tag, slot) }
            number += 1
        }
        return MarkHashTags(tags: tagsByBlockNumber.sorted { $0.key < $1.key }.map(\.value))
    }()

    private init(tags: [(tag: String, slot: Int)]) { self.tags = tags }
}
