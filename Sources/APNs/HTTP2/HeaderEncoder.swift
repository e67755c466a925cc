import Glibc
import Numbers

/// HPACK's encoder for one connection's requests (RFC 7541). It uses the peer's table as Apple asks for it ("Sending
/// notification requests to APNs"):
/// - `:method` and `:scheme` are always indices into HPACK's static table.
/// - `:path` and `authorization` are literals that never enter the table.
/// - `apns-id` and `apns-expiration` enter the table on their first use. Later only their names come from the table.
/// - All other fields enter the table on their first use. Later each is only an index.
///
/// After the first requests, the table usually no longer changes. The encoder then copies three constant pieces, and
/// writes a value after each of them:
/// 1. `:method`, `:scheme`, `:authority` and the name `:path`;
/// 2. `authorization`, `apns-push-type`, `apns-topic`, `apns-priority` and the name `apns-expiration`;
/// 3. the name `apns-id`.
struct HeaderEncoder: ~Copyable {
    enum Field: Int, CaseIterable {
        case authority, authorization, pushType, topic, priority5, priority10, expiration, identifier

        /// The name of the field. A literal contains the name only if `staticIndex` is 0.
        var name: StaticString {
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

        /// The name's index in the static table; 0 if the static table does not have the name.
        var staticIndex: Int {
            switch self {
            case .authority: 1
            case .authorization: 23
            default: 0
            }
        }
    }

    /// The longest `authorization` value. Our provider tokens give about 190 bytes. ``SharedToken`` refuses a longer
    /// token from Redis, so that `setAuthorization` cannot trap (R6).
    static let authorizationBytesMax = 2_048
    /// The encoder uses at most this many bytes of the peer's table, even if the peer allows a larger table. This is
    /// HPACK's default size.
    static let tableBytesMax = 4_096

    let fieldValues: [[UInt8]]
    var authorization: [UInt8] = []
    private let devicePathPrefix: [UInt8]
    let broadcastPath: [UInt8]

    /// For each field in the peer's table: how many entries the encoder had added before it, which gives its index. -1
    /// if the field is not in the table.
    var insertionNumbers = [Int](repeating: -1, count: Field.allCases.count)
    private var insertedEntryCount = 0
    /// Whether the peer's table has room for all entries that the encoder may add. If not, the encoder adds no entry,
    /// and writes literals instead.
    private var addsTableEntries = true
    private var currentTableBytesMax = HeaderEncoder.tableBytesMax
    /// The table sizes that the next request must announce to the peer (RFC 7541, section 4.2): the smallest since the
    /// last request, and the newest. Nil if the size has not changed since then. For example, (0, 2,048) after the
    /// sizes 4,096, 0 and 2,048.
    private var unannouncedTableBytes: (least: Int, last: Int)?

    /// The first constant piece of a push's header block. It ends with the name `:path`.
    private var fieldsBeforePath: [UInt8] = []
    /// The second constant piece of a push's header block, for each priority. It begins after the path's value, and
    /// ends with the name `apns-expiration`.
    private var priority5FieldsAfterPath: [UInt8] = []
    private var priority10FieldsAfterPath: [UInt8] = []
    /// The third constant piece of a push's header block: the name `apns-id`.
    private var encodedAPNsIdName: [UInt8] = []
    /// Whether the constant pieces above are valid for a push with priority 5 (below: 10). False after a change of the
    /// provider token or of the table's size. The encoder then encodes the next push field by field, and builds the
    /// pieces again.
    private var canReusePriority5Fields = false
    private var canReusePriority10Fields = false

    init(appHeaders: AppPushHeaders, authority: String) {
        var fieldValues = [[UInt8]](repeating: [], count: Field.allCases.count)
        fieldValues[Field.authority.rawValue] = Array(authority.utf8)
        fieldValues[Field.pushType.rawValue] = Array(appHeaders.pushType.utf8)
        fieldValues[Field.topic.rawValue] = Array(appHeaders.topic.utf8)
        fieldValues[Field.priority5.rawValue] = Array("5".utf8)
        fieldValues[Field.priority10.rawValue] = Array("10".utf8)
        self.fieldValues = fieldValues
        devicePathPrefix = Array(appHeaders.devicePathPrefix.utf8)
        broadcastPath = Array(appHeaders.broadcastPath.utf8)
    }

    /// The maximum size of a request's header block. The connection reserves this many bytes before the block is
    /// written.
    private(set) var blockBytesMax = 0

    /// Sets the `authorization` value of the next requests.
    mutating func setAuthorization(_ value: UnsafeRawBufferPointer) {
        precondition(value.count <= Self.authorizationBytesMax)
        authorization = Array(value)
        // 256 bytes are enough for the encoded names of ten fields, for the expiration and for the push's id. The other
        // values are counted without compression.
        blockBytesMax =
            256 + fieldValues.reduce(0) { $0 + $1.count } + authorization.count
            + max(
                devicePathPrefix.count + PushRequest.deviceTokenBytesMax,
                broadcastPath.count + PushRequest.channelIdentifierBytesMax
            )
        canReusePriority5Fields = false
        canReusePriority10Fields = false
    }

    /// Applies the peer's SETTINGS_HEADER_TABLE_SIZE.
    mutating func setPeerTableBytes(_ byteCount: UInt32) {
        let tableBytes = Int(min(byteCount, UInt32(Self.tableBytesMax)))
        guard tableBytes != currentTableBytesMax || unannouncedTableBytes != nil else { return }
        let leastBytes = min(tableBytes, unannouncedTableBytes?.least ?? currentTableBytesMax)
        unannouncedTableBytes = (least: leastBytes, last: tableBytes)
        canReusePriority5Fields = false
        canReusePriority10Fields = false
    }

    /// Writes the header block of one push to a device.
    ///
    /// - Parameter output: has room for `blockBytesMax` bytes.
    /// - Returns: the number of bytes written.
    mutating func writePush(
        to output: UnsafeMutableRawPointer,
        deviceToken: UnsafeRawBufferPointer,
        priority: UInt8,
        expirationSeconds: Int64,
        identifier: (UInt64, UInt64)
    ) -> Int {
        precondition(deviceToken.count <= PushRequest.deviceTokenBytesMax)
        guard priority == 10 ? canReusePriority10Fields : canReusePriority5Fields else {
            return writeFieldByField(to: output, deviceToken, priority: priority, expirationSeconds, identifier)
        }
        var end = Self.write(fieldsBeforePath, to: output)
        end = writePath(deviceToken, to: end)
        end = Self.write(priority == 10 ? priority10FieldsAfterPath : priority5FieldsAfterPath, to: end)
        end = Self.writeDecimal(expirationSeconds, to: end)
        end = Self.write(encodedAPNsIdName, to: end)
        end = Self.writeIdentifier(identifier, to: end)
        return end - output
    }

    // MARK: - Values that differ between requests

    private func writePath(
        _ deviceToken: UnsafeRawBufferPointer,
        to start: UnsafeMutableRawPointer
    ) -> UnsafeMutableRawPointer {
        var end = Self.writeInteger(devicePathPrefix.count + deviceToken.count, flags: 0, prefixBits: 7, to: start)
        end = Self.write(devicePathPrefix, to: end)
        UnsafeMutableRawBufferPointer(start: end, count: deviceToken.count).copyMemory(from: deviceToken)
        return end + deviceToken.count
    }

    /// Writes a number as a string of HPACK: a byte with the string's length, then the digits.
    private static func writeDecimal(_ number: Int64, to start: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        let count = Decimal.write(UInt64(number), to: start + 1)
        start.storeBytes(of: UInt8(truncatingIfNeeded: count), as: UInt8.self)
        return start + 1 + count
    }

    private static func writeIdentifier(
        _ identifier: (UInt64, UInt64),
        to start: UnsafeMutableRawPointer
    ) -> UnsafeMutableRawPointer {
        start.storeBytes(of: UInt8(Hexadecimal.uuidTextByteCount), as: UInt8.self)
        Hexadecimal.writeUUID(identifier, to: (start + 1).assumingMemoryBound(to: UInt8.self))
        return start + 1 + Hexadecimal.uuidTextByteCount
    }

    @inline(__always)
    private static func write(_ bytes: [UInt8], to start: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        bytes.withUnsafeBytes { bytes in
            UnsafeMutableRawBufferPointer(start: start, count: bytes.count).copyMemory(from: bytes)
            return start + bytes.count
        }
    }

    /// Writes an integer (RFC 7541, section 5.1).
    private static func writeInteger(
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

    // MARK: - Blocks while the table still changes

    static let neverIndexedPattern: UInt8 = 0x10
    private static let incrementalIndexingPattern: UInt8 = 0x40
    static let indexedFieldPattern: UInt8 = 0x80
    private static let sizeUpdatePattern: UInt8 = 0x20
    // Places in the static table (RFC 7541, appendix A): the name `:path`; `:method: POST`; `:scheme: https`.
    static let pathNameStaticIndex = 4
    static let postMethodStaticIndex = 3
    static let httpsSchemeStaticIndex = 7

    /// Writes a push's header block one field after the other, and then builds the constant pieces.
    private mutating func writeFieldByField(
        to output: UnsafeMutableRawPointer,
        _ deviceToken: UnsafeRawBufferPointer,
        priority: UInt8,
        _ expirationSeconds: Int64,
        _ identifier: (UInt64, UInt64)
    ) -> Int {
        let priorityField = priority == 10 ? Field.priority10 : Field.priority5
        var block = takeTableSizeUpdates()
        block += encodeFieldsBeforePath()
        appendPath(deviceToken, to: &block)
        block += encodeFieldsAfterPath(priorityField)
        withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { text in
            guard let start = text.baseAddress else { return }
            block += UnsafeRawBufferPointer(
                start: start,
                count: Self.writeDecimal(expirationSeconds, to: start) - start
            )
        }
        noteInsertion(.expiration)
        block += encodeLiteralStart(.identifier)
        withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { text in
            guard let start = text.baseAddress else { return }
            block += UnsafeRawBufferPointer(start: start, count: Self.writeIdentifier(identifier, to: start) - start)
        }
        noteInsertion(.identifier)
        rebuildReusableFields()
        precondition(block.count <= blockBytesMax)
        UnsafeMutableRawBufferPointer(start: output, count: block.count).copyBytes(from: block)
        return block.count
    }

    /// Builds the constant pieces of a push's header block again, but the second piece of a priority (5 or 10) only if
    /// its `apns-priority` field no longer has to enter the table. The next push with this priority puts it there.
    private mutating func rebuildReusableFields() {
        canReusePriority5Fields = !addsTableEntries || insertionNumbers[Field.priority5.rawValue] >= 0
        canReusePriority10Fields = !addsTableEntries || insertionNumbers[Field.priority10.rawValue] >= 0
        fieldsBeforePath = encodeFieldsBeforePath()
        // The path's value follows this piece, as a literal that is never indexed.
        Self.appendInteger(
            Self.pathNameStaticIndex,
            flags: Self.neverIndexedPattern,
            prefixBits: 4,
            to: &fieldsBeforePath
        )
        priority5FieldsAfterPath = canReusePriority5Fields ? encodeFieldsAfterPath(.priority5) : []
        priority10FieldsAfterPath = canReusePriority10Fields ? encodeFieldsAfterPath(.priority10) : []
        encodedAPNsIdName = encodeLiteralStart(.identifier)
    }

    private mutating func encodeFieldsBeforePath() -> [UInt8] {
        var piece: [UInt8] = []
        Self.appendInteger(Self.postMethodStaticIndex, flags: Self.indexedFieldPattern, prefixBits: 7, to: &piece)
        Self.appendInteger(Self.httpsSchemeStaticIndex, flags: Self.indexedFieldPattern, prefixBits: 7, to: &piece)
        append(.authority, to: &piece)
        return piece
    }

    private mutating func encodeFieldsAfterPath(_ priority: Field) -> [UInt8] {
        var piece: [UInt8] = []
        Self.appendInteger(Field.authorization.staticIndex, flags: Self.neverIndexedPattern, prefixBits: 4, to: &piece)
        Self.append(string: authorization, to: &piece)
        append(.pushType, to: &piece)
        append(.topic, to: &piece)
        append(priority, to: &piece)
        return piece + encodeLiteralStart(.expiration)
    }

    private func appendPath(_ deviceToken: UnsafeRawBufferPointer, to block: inout [UInt8]) {
        Self.appendInteger(Self.pathNameStaticIndex, flags: Self.neverIndexedPattern, prefixBits: 4, to: &block)
        Self.appendInteger(devicePathPrefix.count + deviceToken.count, flags: 0, prefixBits: 7, to: &block)
        block += devicePathPrefix
        block += deviceToken
    }

    /// Appends a field with a constant value: its index if the table has the field, otherwise a literal. The literal is
    /// put into the table if the encoder adds entries.
    private mutating func append(_ field: Field, to block: inout [UInt8]) {
        if insertionNumbers[field.rawValue] >= 0 {
            Self.appendInteger(tableIndex(field), flags: Self.indexedFieldPattern, prefixBits: 7, to: &block)
        } else {
            block += encodeLiteralStart(field)
            Self.append(string: fieldValues[field.rawValue], to: &block)
            noteInsertion(field)
        }
    }

    /// Returns the beginning of a literal, before its value. If the encoder adds entries and the table does not have
    /// the field, the first bits make the peer add the field.
    private func encodeLiteralStart(_ field: Field) -> [UInt8] {
        var piece: [UInt8] = []
        let isInTable = insertionNumbers[field.rawValue] >= 0
        let index = isInTable ? tableIndex(field) : field.staticIndex
        if addsTableEntries, !isInTable {
            Self.appendInteger(index, flags: Self.incrementalIndexingPattern, prefixBits: 6, to: &piece)
        } else {
            Self.appendInteger(index, flags: Self.neverIndexedPattern, prefixBits: 4, to: &piece)
        }
        if index == 0 {
            let text = UnsafeRawBufferPointer(start: field.name.utf8Start, count: field.name.utf8CodeUnitCount)
            Self.append(string: Array(text), to: &piece)
        }
        return piece
    }

    /// The index of a field that is in the table. The newest entry comes directly after the static table.
    func tableIndex(_ field: Field) -> Int {
        StaticHeaders.count + insertedEntryCount - insertionNumbers[field.rawValue]
    }

    private mutating func noteInsertion(_ field: Field) {
        guard addsTableEntries, insertionNumbers[field.rawValue] < 0 else { return }
        insertionNumbers[field.rawValue] = insertedEntryCount
        insertedEntryCount += 1
    }

    /// Returns the bytes that announce a new table size to the peer, before the first field (RFC 7541, section 4.2);
    /// none if the size has not changed. If the table was too small for all our entries, these bytes also empty it.
    mutating func takeTableSizeUpdates() -> [UInt8] {
        guard let (least, last) = unannouncedTableBytes else { return [] }
        unannouncedTableBytes = nil
        var updates: [UInt8] = []
        // With a size below `neededTableBytes`, the peer may have evicted some of our entries. So announce 0, which
        // evicts all of them: the encoder then knows which entries the peer has.
        let smallestTableBytes = least < neededTableBytes ? 0 : least
        if smallestTableBytes != last {
            Self.appendInteger(smallestTableBytes, flags: Self.sizeUpdatePattern, prefixBits: 5, to: &updates)
        }
        Self.appendInteger(last, flags: Self.sizeUpdatePattern, prefixBits: 5, to: &updates)
        currentTableBytesMax = last
        if smallestTableBytes == 0 {
            insertionNumbers = insertionNumbers.map { _ in -1 }
            insertedEntryCount = 0
        }
        addsTableEntries = last >= neededTableBytes
        return updates
    }

    /// The size of a dynamic table that has room for all entries that this encoder adds, each with its longest value
    /// (RFC 7541, section 4.1).
    private var neededTableBytes: Int {
        Field.allCases.reduce(0) { sum, field in
            guard field != .authorization else { return sum }
            let valueBytes =
                switch field {
                case .expiration: Decimal.digitsMax
                case .identifier: Hexadecimal.uuidTextByteCount
                default: fieldValues[field.rawValue].count
                }
            return sum + field.name.utf8CodeUnitCount + valueBytes + HeaderField.overheadBytes
        }
    }

    static func appendInteger(_ value: Int, flags: UInt8, prefixBits: UInt8, to block: inout [UInt8]) {
        withUnsafeTemporaryAllocation(byteCount: 16, alignment: 1) { text in
            guard let start = text.baseAddress else { return }
            let end = writeInteger(value, flags: flags, prefixBits: prefixBits, to: start)
            block += UnsafeRawBufferPointer(start: start, count: end - start)
        }
    }

    /// Appends a string, in Huffman code if that is shorter (RFC 7541, section 5.2).
    static func append(string: [UInt8], to block: inout [UInt8]) {
        let encoded = string.withUnsafeBytes { Huffman.code.encode($0) }
        let isShorter = encoded.count < string.count
        let bytes = isShorter ? encoded : string
        appendInteger(bytes.count, flags: isShorter ? 0x80 : 0, prefixBits: 7, to: &block)
        block += bytes
    }
}
