/// The hash tags in the keys of marks (``PrimaryMarks``). Their hash slots are spread evenly over a cluster, so that
/// each primary with many hash slots has marks, which are missing when it loses its data (R24).
///
/// The tags never change. When a hash slot moves to another primary, Redis moves its marks too.
struct MarkHashTags {
    /// One of this many neighbouring hash slots (a block) has a hash tag, and only this one can have marks. A primary
    /// with few hash slots may have no marks. Then the worker does not notice when this primary loses its data.
    static let hashSlotsPerBlock = 128
    /// The number of hash tags in a cluster: one for each block.
    static let hashTagCount = KeyHashSlot.hashSlotCount / hashSlotsPerBlock

    /// The hash tags, in the order of their hash slots.
    let tags: [(text: String, hashSlot: Int)]

    /// One hash tag for all marks, for a server without a cluster. Such a server has no hash slots, so hash slot 0
    /// means nothing.
    static let forSingleServer = MarkHashTags([("causeway/mark", 0)])

    /// The hash tags for a cluster, one for each block of neighbouring hash slots. The first access finds them by
    /// trying several hundred texts, because a text's hash slot is a checksum of the text and cannot be chosen.
    static let forCluster: MarkHashTags = {
        var hashTagsByBlockNumber: [Int: (text: String, hashSlot: Int)] = [:]
        var candidateNumber = 0
        while hashTagsByBlockNumber.count < hashTagCount {
            let text = "causeway/mark/\(candidateNumber)"
            let hashSlot = Array(text.utf8).withUnsafeBytes { KeyHashSlot.hashSlot(of: $0) }
            let blockNumber = hashSlot / hashSlotsPerBlock
            if hashTagsByBlockNumber[blockNumber] == nil { hashTagsByBlockNumber[blockNumber] = (text, hashSlot) }
            candidateNumber += 1
        }
        return MarkHashTags(hashTagsByBlockNumber.sorted { $0.key < $1.key }.map(\.value))
    }()

    private init(_ tags: [(text: String, hashSlot: Int)]) { self.tags = tags }
}
