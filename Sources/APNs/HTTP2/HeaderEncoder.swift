import Glibc
import Numbers

/// HPACK's encoder for the requests of one connection (RFC 7541), as Apple asks for it: `:path` and `authorization` as literals
/// without indexing, `apns-id` and `apns-expiration` indexed on their first use only, everything else with incremental indexing
/// ("Sending notification requests to APNs").
///
/// So the table settles with the first requests. From then on the block of a request is two constant pieces, copied, and three
/// values between and behind them:
///
///     :method :scheme :authority | :path | authorization apns-push-type apns-topic apns-priority | apns-expiration | apns-id
///
/// A broadcast has no topic, and a channel in its place. Broadcasts are few: they use what pushes have put into the table, and add nothing.
struct HeaderEncoder: ~Copyable {
    enum Name: Int, CaseIterable {
        case authority, authorization, pushType, topic, priority5, priority10, expiration, identifier

        /// As a literal, without its representation byte; `authority` and `authorization` are in the static table.
        var text: StaticString {
            switch self {
            case .authority: ":authority"
            case .authorization: "authorization"
            case .pushType: "apns-push-type"
            case .topic: "apns-topic"
            case .priority5, .priority10: "apns-priority"
            case .expiration: "apns-expiration"
            case .identifier: "apns-id"
            }
        }

        /// In the static table, or 0.
        var staticIndex: Int {
            switch self {
            case .authority: 1
            case .authorization: 23
            default: 0
            }
        }
    }

    /// The longest `authorization`. Ours has about 220 bytes.
    static let authorizationBytesMax = 2_048
    /// Whatever the peer allows, no more of its table than this is used: it is the size before SETTINGS.
    static let tableBytesMax = 4_096

    let texts: [[UInt8]]
    var authorization: [UInt8] = []
    private let pathPrefix: [UInt8]
    let broadcastPath: [UInt8]

    /// For each name how many had been put into the table before it; -1 if it is not in the table.
    var ordinals = [Int](repeating: -1, count: Name.allCases.count)
    private var inserted = 0
    /// Whether the peer's table has room for all that is to stand in it. If not, nothing is put there.
    private var usesTable = true
    private var tableBytesAllowed = HeaderEncoder.tableBytesMax
    /// What SETTINGS have brought since the last request: the smallest and the last size (RFC 7541, section 4.2).
    private var resized: (least: Int, last: Int)?

    /// The constant pieces before the path, and before the expiration and the identifier: by priority.
    private var front: [UInt8] = []
    private var middle5: [UInt8] = []
    private var middle10: [UInt8] = []
    private var identifierName: [UInt8] = []
    /// Whether the pieces are good for requests of these priorities.
    private var isSettled5 = false
    private var isSettled10 = false

    init(profile: PushProfile, authority: String) {
        var texts = [[UInt8]](repeating: [], count: Name.allCases.count)
        texts[Name.authority.rawValue] = Array(authority.utf8)
        texts[Name.pushType.rawValue] = Array(profile.pushType.utf8)
        texts[Name.topic.rawValue] = Array(profile.topic.utf8)
        texts[Name.priority5.rawValue] = Array("5".utf8)
        texts[Name.priority10.rawValue] = Array("10".utf8)
        self.texts = texts
        pathPrefix = Array(profile.pathPrefix.utf8)
        broadcastPath = Array(profile.broadcastPath.utf8)
    }

    /// The longest block of a request.
    private(set) var blockBytesMax = 0

    /// The next requests carry this value.
    mutating func setAuthorization(_ value: UnsafeRawBufferPointer) {
        precondition(value.count <= Self.authorizationBytesMax)
        authorization = Array(value)
        // Names and representations of ten fields, the numbers, and the texts without Huffman code.
        blockBytesMax =
            256 + texts.reduce(0) { $0 + $1.count } + authorization.count
            + max(pathPrefix.count + PushRequest.deviceTokenBytesMax, broadcastPath.count + PushRequest.channelBytesMax)
        isSettled5 = false
        isSettled10 = false
    }

    /// SETTINGS_HEADER_TABLE_SIZE came.
    mutating func setPeerTableBytes(_ bytes: UInt32) {
        let size = Int(min(bytes, UInt32(Self.tableBytesMax)))
        guard size != tableBytesAllowed || resized != nil else { return }
        resized = (least: min(size, resized?.least ?? tableBytesAllowed), last: size)
        isSettled5 = false
        isSettled10 = false
    }

    /// Writes the block of one request.
    ///
    /// - Parameter output: room for `blockBytesMax`.
    /// - Returns: the bytes written.
    mutating func write(
        to output: UnsafeMutableRawPointer,
        deviceToken: UnsafeRawBufferPointer,
        priority: UInt8,
        expiration: Int64,
        identifier: (UInt64, UInt64)
    ) -> Int {
        precondition(deviceToken.count <= PushRequest.deviceTokenBytesMax)
        guard priority == 10 ? isSettled10 : isSettled5 else {
            return writeFirst(to: output, deviceToken, priority: priority, expiration, identifier)
        }
        var end = Self.append(front, to: output)
        end = appendPath(deviceToken, to: end)
        end = Self.append(priority == 10 ? middle10 : middle5, to: end)
        end = Self.appendNumber(expiration, to: end)
        end = Self.append(identifierName, to: end)
        end = Self.appendIdentifier(identifier, to: end)
        return end - output
    }

    // MARK: - Values that differ

    private func appendPath(
        _ deviceToken: UnsafeRawBufferPointer,
        to start: UnsafeMutableRawPointer
    ) -> UnsafeMutableRawPointer {
        var end = Self.appendInteger(pathPrefix.count + deviceToken.count, flags: 0, prefixBits: 7, to: start)
        end = Self.append(pathPrefix, to: end)
        UnsafeMutableRawBufferPointer(start: end, count: deviceToken.count).copyMemory(from: deviceToken)
        return end + deviceToken.count
    }

    private static func appendNumber(_ number: Int64, to start: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        let count = Decimal.write(UInt64(number), to: start + 1)
        start.storeBytes(of: UInt8(truncatingIfNeeded: count), as: UInt8.self)
        return start + 1 + count
    }

    private static func appendIdentifier(
        _ identifier: (UInt64, UInt64),
        to start: UnsafeMutableRawPointer
    ) -> UnsafeMutableRawPointer {
        start.storeBytes(of: UInt8(Hexadecimal.identifierBytes), as: UInt8.self)
        Hexadecimal.writeIdentifier(identifier, to: (start + 1).assumingMemoryBound(to: UInt8.self))
        return start + 1 + Hexadecimal.identifierBytes
    }

    @inline(__always)
    private static func append(_ bytes: [UInt8], to start: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        bytes.withUnsafeBytes { bytes in
            UnsafeMutableRawBufferPointer(start: start, count: bytes.count).copyMemory(from: bytes)
            return start + bytes.count
        }
    }

    /// RFC 7541, section 5.1.
    private static func appendInteger(
        _ value: Int,
        flags: UInt8,
        prefixBits: UInt8,
        to start: UnsafeMutableRawPointer
    ) -> UnsafeMutableRawPointer {
        let prefixMax = 1 << Int(prefixBits) - 1
        guard value >= prefixMax else {
            start.storeBytes(of: flags | UInt8(truncatingIfNeeded: value), as: UInt8.self)
            return start + 1
        }
        start.storeBytes(of: flags | UInt8(prefixMax), as: UInt8.self)
        var end = start + 1
        var rest = value - prefixMax
        while rest >= 128 {
            end.storeBytes(of: UInt8(truncatingIfNeeded: rest) | 0x80, as: UInt8.self)
            end += 1
            rest >>= 7
        }
        end.storeBytes(of: UInt8(rest), as: UInt8.self)
        return end + 1
    }

    // MARK: - Before the table has settled

    static let neverIndexed: UInt8 = 0x10
    private static let incremental: UInt8 = 0x40
    static let indexed: UInt8 = 0x80
    private static let sizeUpdate: UInt8 = 0x20
    static let staticPath = 4
    static let staticPost = 3
    static let staticHTTPS = 7

    private mutating func writeFirst(
        to output: UnsafeMutableRawPointer,
        _ deviceToken: UnsafeRawBufferPointer,
        priority: UInt8,
        _ expiration: Int64,
        _ identifier: (UInt64, UInt64)
    ) -> Int {
        let priorityName = priority == 10 ? Name.priority10 : Name.priority5
        var block = sizeUpdates()
        block += frontPiece()
        append(path: deviceToken, to: &block)
        block += middlePiece(priorityName)
        withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { text in
            guard let start = text.baseAddress else { return }
            block += UnsafeRawBufferPointer(start: start, count: Self.appendNumber(expiration, to: start) - start)
        }
        noteInserted(.expiration)
        block += namePiece(.identifier)
        withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { text in
            guard let start = text.baseAddress else { return }
            block += UnsafeRawBufferPointer(start: start, count: Self.appendIdentifier(identifier, to: start) - start)
        }
        noteInserted(.identifier)
        settle()
        precondition(block.count <= blockBytesMax)
        UnsafeMutableRawBufferPointer(start: output, count: block.count).copyBytes(from: block)
        return block.count
    }

    /// Makes the constant pieces again, where they would not change the table.
    private mutating func settle() {
        isSettled5 = !usesTable || ordinals[Name.priority5.rawValue] >= 0
        isSettled10 = !usesTable || ordinals[Name.priority10.rawValue] >= 0
        front = frontPiece()
        // `:path` comes next, as a literal that is never indexed.
        Self.addInteger(Self.staticPath, flags: Self.neverIndexed, prefixBits: 4, to: &front)
        middle5 = isSettled5 ? middlePiece(.priority5) : []
        middle10 = isSettled10 ? middlePiece(.priority10) : []
        identifierName = namePiece(.identifier)
    }

    private mutating func frontPiece() -> [UInt8] {
        var piece: [UInt8] = []
        Self.addInteger(Self.staticPost, flags: Self.indexed, prefixBits: 7, to: &piece)
        Self.addInteger(Self.staticHTTPS, flags: Self.indexed, prefixBits: 7, to: &piece)
        append(.authority, to: &piece)
        return piece
    }

    private mutating func middlePiece(_ priority: Name) -> [UInt8] {
        var piece: [UInt8] = []
        Self.addInteger(Name.authorization.staticIndex, flags: Self.neverIndexed, prefixBits: 4, to: &piece)
        Self.append(text: authorization, to: &piece)
        append(.pushType, to: &piece)
        append(.topic, to: &piece)
        append(priority, to: &piece)
        return piece + namePiece(.expiration)
    }

    private func append(path deviceToken: UnsafeRawBufferPointer, to block: inout [UInt8]) {
        Self.addInteger(Self.staticPath, flags: Self.neverIndexed, prefixBits: 4, to: &block)
        Self.addInteger(pathPrefix.count + deviceToken.count, flags: 0, prefixBits: 7, to: &block)
        block += pathPrefix
        block += deviceToken
    }

    /// A field whose value stays the same: by its index, or as a literal that goes into the table if there is room.
    private mutating func append(_ name: Name, to block: inout [UInt8]) {
        if ordinals[name.rawValue] >= 0 {
            Self.addInteger(tableIndex(name), flags: Self.indexed, prefixBits: 7, to: &block)
        } else {
            block += namePiece(name)
            Self.append(text: texts[name.rawValue], to: &block)
            noteInserted(name)
        }
    }

    /// The representation and name of a literal: for one that goes into the table, or one that does not.
    private func namePiece(_ name: Name) -> [UInt8] {
        var piece: [UInt8] = []
        let isInTable = ordinals[name.rawValue] >= 0
        let index = isInTable ? tableIndex(name) : name.staticIndex
        if usesTable, !isInTable {
            Self.addInteger(index, flags: Self.incremental, prefixBits: 6, to: &piece)
        } else {
            Self.addInteger(index, flags: Self.neverIndexed, prefixBits: 4, to: &piece)
        }
        if index == 0 {
            let text = UnsafeRawBufferPointer(start: name.text.utf8Start, count: name.text.utf8CodeUnitCount)
            Self.append(text: Array(text), to: &piece)
        }
        return piece
    }

    func tableIndex(_ name: Name) -> Int {
        StaticHeaders.count + inserted - ordinals[name.rawValue]
    }

    private mutating func noteInserted(_ name: Name) {
        guard usesTable, ordinals[name.rawValue] < 0 else { return }
        ordinals[name.rawValue] = inserted
        inserted += 1
    }

    /// What tells the peer of a table of another size, before the first field (RFC 7541, section 4.2). Afterwards its table is empty
    /// or as it was.
    mutating func sizeUpdates() -> [UInt8] {
        guard let (least, last) = resized else { return [] }
        resized = nil
        var updates: [UInt8] = []
        // What would drop some entries drops all, so that the two sides agree without counting.
        let floor = least < tableBytesNeeded ? 0 : least
        if floor != last { Self.addInteger(floor, flags: Self.sizeUpdate, prefixBits: 5, to: &updates) }
        Self.addInteger(last, flags: Self.sizeUpdate, prefixBits: 5, to: &updates)
        tableBytesAllowed = last
        if floor == 0 {
            ordinals = ordinals.map { _ in -1 }
            inserted = 0
        }
        usesTable = last >= tableBytesNeeded
        return updates
    }

    /// What the table holds when everything stands in it that is to (RFC 7541, section 4.1).
    private var tableBytesNeeded: Int {
        Name.allCases.reduce(0) { sum, name in
            guard name != .authorization else { return sum }
            let valueBytes =
                switch name {
                case .expiration: Decimal.digitsMax
                case .identifier: Hexadecimal.identifierBytes
                default: texts[name.rawValue].count
                }
            return sum + name.text.utf8CodeUnitCount + valueBytes + HeaderField.overheadBytes
        }
    }

    static func addInteger(_ value: Int, flags: UInt8, prefixBits: UInt8, to block: inout [UInt8]) {
        withUnsafeTemporaryAllocation(byteCount: 16, alignment: 1) { text in
            guard let start = text.baseAddress else { return }
            let end = appendInteger(value, flags: flags, prefixBits: prefixBits, to: start)
            block += UnsafeRawBufferPointer(start: start, count: end - start)
        }
    }

    /// A string, in Huffman code where that is shorter (RFC 7541, section 5.2).
    static func append(text: [UInt8], to block: inout [UInt8]) {
        let encoded = text.withUnsafeBytes { Huffman.code.encode($0) }
        let isShorter = encoded.count < text.count
        let bytes = isShorter ? encoded : text
        addInteger(bytes.count, flags: isShorter ? 0x80 : 0, prefixBits: 7, to: &block)
        block += bytes
    }
}
