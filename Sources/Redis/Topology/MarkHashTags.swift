/// The hash tags of marks (``PrimaryMarks``). The name of each mark's key contains one of these tags, and the tag
/// decides the key's hash slot. The hash slots of these tags are spread evenly over a cluster, so each primary with
/// many hash slots stores marks. If a primary loses its data, its marks are missing (R24).
///
/// The tags never change. Keys with these tags move with their hash slots: a primary that gets a hash slot also gets
/// its keys.
struct MarkHashTags {
    /// Of this many neighbouring hash slots, one belongs to a hash tag. Only there can a mark's key be. A primary with
    /// few hash slots may have none with a tag. Then the worker does not notice that this primary has lost its data.
    static let hashSlotsPerHashTag = 128
    static let hashTagCount = KeyHashSlot.hashSlotCount / hashSlotsPerHashTag

    /// The hash tags in the order of their hash slots. Redis puts each key with a hash tag into the hash tag's
    /// hash slot.
    let all: [(text: String, hashSlot: Int)]

    /// One hash tag for all marks, for a server without a cluster. Such a server has no hash slots, so hash slot 0
    /// means nothing.
    static let forSingleServer = MarkHashTags([("causeway/mark", 0)])

    /// The hash tags for a cluster. A checksum of a hash tag decides its hash slot. So the first access tries several
    /// hundred texts, until it has a hash tag for each block of hash slots.
    static let forCluster: MarkHashTags = {
        var hashTagsByBlockNumber: [Int: (text: String, hashSlot: Int)] = [:]
        var number = 0
        while hashTagsByBlockNumber.count < hashTagCount {
            let text = "causeway/mark/\(number)"
            let hashSlot = Array(text.utf8).withUnsafeBytes { KeyHashSlot.hashSlot(of: $0) }
            let blockNumber = hashSlot / hashSlotsPerHashTag
            if hashTagsByBlockNumber[blockNumber] == nil { hashTagsByBlockNumber[blockNumber] = (text, hashSlot) }
            number += 1
        }
        return MarkHashTags(hashTagsByBlockNumber.sorted { $0.key < $1.key }.map(\.value))
    }()

    private init(_ all: [(text: String, hashSlot: Int)]) { self.all = all }
}
