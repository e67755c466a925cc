/// Gives each content state a number, which decides the colour of a phone's screen. Content states with the same name
/// have the same number. The names are numbered in the order in which they are first seen.
///
/// A content state's name is one of its values, for example the team that bats or the status of a ride. To find the
/// name, the table must scan the JSON. Many phones show the same content, so the table caches the number by the
/// content's hash.
struct StateNameTable: ~Copyable {
    /// The maximum number of names with a number of their own, because a number has one byte. All further names share
    /// the last number, so phones with these names have the same colour.
    static let namesMax = 255
    /// The maximum number of cached contents. A full cache is emptied and filled again.
    private static let cachedContentsMax = 8_192
    /// Keys of values that can be a content state's name. The first key in this list that has a string as its value
    /// decides. If no key has a string, the first string of the content state is the name.
    private static let nameKeys: [StaticString] = [
        "batting", "status", "phase", "deliveryState", "tripStatus", "state",
    ]

    private(set) var names: [String] = []
    private var nameNumbers: [String: UInt8] = [:]
    private var nameNumbersByContentHash: [UInt64: UInt8] = [:]
    private var tape = JSONTape()

    /// Returns the number that decides the colour of a screen with this content state, and a hash of the content state.
    mutating func nameNumberAndHash(of content: [UInt8]) -> (number: UInt8, hash: UInt64) {
        let hash = content.withUnsafeBytes { Self.hash($0) }
        if let number = nameNumbersByContentHash[hash] { return (number, hash) }
        if nameNumbersByContentHash.count >= Self.cachedContentsMax {
            nameNumbersByContentHash.removeAll(keepingCapacity: true)
        }
        let number = findOrAddNumber(of: content.withUnsafeBytes { findName(in: $0) })
        nameNumbersByContentHash[hash] = number
        return (number, hash)
    }

    private mutating func findOrAddNumber(of name: String) -> UInt8 {
        if let number = nameNumbers[name] { return number }
        guard names.count < Self.namesMax else { return UInt8(Self.namesMax - 1) }
        let number = UInt8(names.count)
        names.append(name)
        nameNumbers[name] = number
        return number
    }

    /// Returns the name of a content state (`nameKeys`); empty if there is none.
    private mutating func findName(in content: UnsafeRawBufferPointer) -> String {
        do throws(JSONTape.Fault) {
            try tape.read(content)
        } catch {
            return ""
        }
        guard tape[0].kind == .object else { return "" }
        for key in Self.nameKeys {
            if let value = tape.member(key, of: 0), tape[value].kind == .string { return tape.string(value) }
        }
        var firstText: String?
        tape.forEachMember(of: 0) { _, value in
            if firstText == nil, tape[value].kind == .string { firstText = tape.string(value) }
        }
        return firstText ?? ""
    }

    /// Hashes content with a variant of FNV-1a that takes eight bytes at a time. Two different contents may have equal
    /// hashes: the second one then has the colour of the first one.
    private static func hash(_ content: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        var offset = 0
        while offset + 8 <= content.count {
            hash = (hash ^ content.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) &* 0x100_0000_01B3
            hash ^= hash >> 29
            offset += 8
        }
        while offset < content.count {
            hash = (hash ^ UInt64(content[offset])) &* 0x100_0000_01B3
            offset += 1
        }
        return hash ^ (hash >> 32)
    }
}
