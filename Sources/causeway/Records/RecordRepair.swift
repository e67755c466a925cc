import LiveActivity

/// Repairs the faults of a record in a copy, one after the other, so that ``RecordCheck`` can find the next fault.
/// ``TimestampUpdater`` uses a repair to remove a second `sequence`, and only this repaired copy is sent.
struct RecordRepair {
    private(set) var bytes: [UInt8]
    /// The fields to which a repair has given a value, because they had none or a faulty one.
    private(set) var repairedFields: Set<Field> = []
    /// The offset and the length of each inserted text, oldest insertion first. The offset is a place in the record
    /// with all earlier insertions and without the later ones.
    private var insertions: [(offset: Int, count: Int)] = []
    private var lastFault: (code: FaultCode, field: Field, offset: Int)?

    init(_ record: [UInt8]) { bytes = record }

    /// Converts an offset in the repaired record to the offset in the original record. An offset in an inserted text
    /// becomes the place of the insertion.
    func originalOffset(_ offset: Int) -> Int {
        insertions.reversed()
            .reduce(offset) { result, insertion in
                result >= insertion.offset + insertion.count ? result - insertion.count : min(result, insertion.offset)
            }
    }

    /// Repairs the record so that decoding does not find this fault again.
    ///
    /// - Returns: false if the fault cannot be repaired, for example because the record is not JSON, or if this fault
    ///   was already repaired and was found again.
    mutating func repair(_ fault: Fault) -> Bool {
        let field = fault.path.field
        let faultPosition = (fault.code, field, fault.offset)
        if let lastFault, lastFault == faultPosition { return false }
        lastFault = faultPosition
        switch fault.code {
        case .unknownKey, .duplicateKey:
            return remove(memberAt: fault.offset)
        case .notAllowed where field == .channel && byte(at: fault.offset) == UInt8(ascii: "{"):
            // The record has `channel` but no audience. The producer perhaps forgot the audience. So do not remove
            // `channel`: decoding would then report a missing activity.
            return false
        case .notAllowed:
            // An audience is not allowed beside a device or an activity, so remove the device or the activity.
            let keys = field == .audience ? ["device", "activity", field.key] : [field.key]
            let members = keys.compactMap { memberOffset(named: $0, inObjectAt: fault.offset) }
            return remove(memberAt: members.first ?? fault.offset)
        case .missingField:
            guard let sampleValue = Self.sampleValues[field], byte(at: fault.offset) == UInt8(ascii: "{") else {
                return false
            }
            repairedFields.insert(field)
            let isOnlyMember = nextNonblankOffset(from: fault.offset + 1).map { bytes[$0] } == UInt8(ascii: "}")
            insert("\"\(field.key)\":\(sampleValue)" + (isOnlyMember ? "" : ","), at: fault.offset + 1)
            return true
        case .wrongType, .outOfRange, .unknownValue, .emptyText, .invalidCharacter, .invalidHexadecimal, .tooLong:
            guard let sampleValue = Self.sampleValues[field], let end = endOffset(ofValueAt: fault.offset) else {
                return false
            }
            repairedFields.insert(field)
            replace(fault.offset..<end, with: sampleValue)
            return true
        default:
            return false
        }
    }

    /// Whether a repair has replaced or added the record's event. The event that the producer meant is then unknown, so
    /// faults that depend on it are not reported.
    var isEventUnknown: Bool { !repairedFields.isDisjoint(with: [.event, .aps]) }

    /// Whether the fault might depend on the record's event: a field that this event forbids, or needs, might be right
    /// with another event.
    static func dependsOnEvent(_ fault: Fault) -> Bool {
        switch fault.code {
        case .missingField, .notAllowed: break
        default: return false
        }
        let field = fault.path.field
        guard field != .event else { return false }
        return [.device, .activity, .environment].contains(field) || field.path.description.hasPrefix("aps.")
    }

    /// A valid value for each field that a repair can write. It replaces a missing or faulty value.
    static let sampleValues: [Field: String] = [
        .event: #""update""#, .aps: #"{"event":"update","timestamp":1000000000,"content-state":{}}"#,
        .app: #""a""#, .activity: #""a""#, .audience: #""a""#, .device: #""d""#, .id: #""i""#, .sequence: "1",
        .priority: "5", .policy: #""p""#, .expiration: "1000000000", .token: #""00000000""#,
        .environment: #""sandbox""#, .payload: "{}", .timestamp: "1000000000", .contentState: "{}",
        .apsAttributesType: #""A""#, .attributes: "{}",
        .alert: #"{"title":"t","body":"b"}"#, .staleDate: "1", .dismissalDate: "1", .relevanceScore: "1",
        .inputPushToken: "1", .inputPushChannel: #""AAAA""#, .alertTitle: #""t""#, .alertBody: #""b""#,
        .alertSound: #""s""#, .titleKey: #""k""#, .titleArguments: "[]", .bodyKey: #""k""#, .bodyArguments: "[]",
        .registeredAt: "1000000000000", .attributesType: #""A""#, .frequentUpdates: "true", .shows: "1000000000",
        .showsTimestamp: "1000000000", .showsSequence: "1", .audiences: "[]", .channels: "true", .channel: #""AAAA""#,
    ]

    private func byte(at offset: Int) -> UInt8? { bytes.indices.contains(offset) ? bytes[offset] : nil }

    private mutating func insert(_ text: String, at offset: Int) {
        bytes.insert(contentsOf: text.utf8, at: offset)
        insertions.append((offset, text.utf8.count))
    }

    private mutating func replace(_ range: Range<Int>, with text: String) {
        let missingByteCount = text.utf8.count - range.count
        if missingByteCount > 0 { insert(String(repeating: " ", count: missingByteCount), at: range.upperBound) }
        overwriteWithSpaces(range)
        bytes.replaceSubrange(range.lowerBound..<range.lowerBound + text.utf8.count, with: text.utf8)
    }

    private mutating func overwriteWithSpaces(_ range: Range<Int>) {
        for index in range where bytes[index] != UInt8(ascii: "\n") { bytes[index] = UInt8(ascii: " ") }
    }

    /// Returns the offset of a member's key in the object that begins at `offset`; nil if the object has no such
    /// member. Also nil if no object begins there, because a fault `notAllowed` can have the offset of the forbidden
    /// member itself.
    private func memberOffset(named key: String, inObjectAt offset: Int) -> Int? {
        guard byte(at: offset) == UInt8(ascii: "{") else { return nil }
        let quotedKey = Array("\"\(key)\"".utf8)
        var member = nextNonblankOffset(from: offset + 1)
        while let keyOffset = member, let keyEnd = endOffset(ofValueAt: keyOffset),
            let colon = nextNonblankOffset(from: keyEnd), bytes[colon] == UInt8(ascii: ":"),
            let value = nextNonblankOffset(from: colon + 1), let end = endOffset(ofValueAt: value)
        {
            if bytes[keyOffset..<keyEnd].elementsEqual(quotedKey) { return keyOffset }
            guard let comma = nextNonblankOffset(from: end), bytes[comma] == UInt8(ascii: ",") else { return nil }
            member = nextNonblankOffset(from: comma + 1)
        }
        return nil
    }

    /// Overwrites a member with spaces and, if the object has other members, one comma beside it.
    ///
    /// - Parameter keyOrValueOffset: the offset of the member's key, or of its value.
    /// - Returns: false if no member begins there.
    private mutating func remove(memberAt keyOrValueOffset: Int) -> Bool {
        let offset = keyOffset(ofValueAt: keyOrValueOffset) ?? keyOrValueOffset
        guard byte(at: offset) == UInt8(ascii: "\""), let keyEnd = endOffset(ofValueAt: offset),
            let colon = nextNonblankOffset(from: keyEnd), bytes[colon] == UInt8(ascii: ":"),
            let value = nextNonblankOffset(from: colon + 1),
            let end = endOffset(ofValueAt: value), let followingOffset = nextNonblankOffset(from: end)
        else { return false }
        if bytes[followingOffset] == UInt8(ascii: ",") {
            overwriteWithSpaces(offset..<followingOffset + 1)
            return true
        }
        // The member is the last one, so remove the comma before it too.
        overwriteWithSpaces(offset..<end)
        if let precedingOffset = bytes[..<offset].lastIndex(where: { !Self.isWhitespace($0) }),
            bytes[precedingOffset] == UInt8(ascii: ",")
        {
            bytes[precedingOffset] = UInt8(ascii: " ")
        }
        return true
    }

    /// Returns the offset at which the key of a value begins; nil if there is no key. The key begins at the last
    /// quotation mark before the key's closing one, because the keys that decoders know contain no escapes.
    private func keyOffset(ofValueAt offset: Int) -> Int? {
        func lastNonblank(before end: Int) -> Int? {
            bytes[..<min(end, bytes.count)].lastIndex { !Self.isWhitespace($0) }
        }
        guard let colon = lastNonblank(before: offset), bytes[colon] == UInt8(ascii: ":"),
            let quote = lastNonblank(before: colon), bytes[quote] == UInt8(ascii: "\"")
        else { return nil }
        return bytes[..<quote].lastIndex(of: UInt8(ascii: "\""))
    }

    /// Returns the offset of the first byte at or after `offset` that is not white space.
    private func nextNonblankOffset(from offset: Int) -> Int? {
        bytes[min(offset, bytes.count)...].firstIndex { !Self.isWhitespace($0) }
    }

    private static func isWhitespace(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0A, 0x0D].contains(byte) }

    /// Returns the offset of the first byte after the JSON value that begins at `offset`; nil if no end is found.
    ///
    /// A string ends after its closing quotation mark. An object or array ends after the bracket that closes it. A
    /// number, `true`, `false` or `null` ends before white space, a comma, a colon or a closing bracket.
    private func endOffset(ofValueAt offset: Int) -> Int? {
        var (index, depth, isInString) = (offset, 0, false)
        while let byte = byte(at: index) {
            if isInString {
                if byte == UInt8(ascii: "\\") { index += 1 }
                if byte == UInt8(ascii: "\"") { isInString = false }
            } else {
                switch byte {
                case UInt8(ascii: "\""): isInString = true
                case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
                case UInt8(ascii: "}"), UInt8(ascii: "]"):
                    if depth == 0 { return index }
                    depth -= 1
                case UInt8(ascii: ","), UInt8(ascii: ":"):
                    if depth == 0 { return index }
                case _ where Self.isWhitespace(byte) && depth == 0: return index
                default: break
                }
                if !isInString, depth == 0, [UInt8(ascii: "}"), UInt8(ascii: "]")].contains(byte) { return index + 1 }
            }
            index += 1
            if !isInString, depth == 0, byte == UInt8(ascii: "\"") { return index }
        }
        return nil
    }
}

extension Field {
    /// The key of the field in its object.
    fileprivate var key: String { path.description.split(separator: ".").last.map(String.init) ?? "" }
}
