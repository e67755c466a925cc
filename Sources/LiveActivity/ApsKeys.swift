/// The keys that were found in Apple's dictionary (`aps`). They are checked after all keys are read: `aps.event`
/// decides which keys are required, and `event` may be the last key.
struct ApsKeys {
    /// Whether the title, or the body, of an alert is absent, empty or present.
    enum TextPresence {
        case absent
        case empty
        case present
    }

    var seenFieldBits: UInt64 = 0
    var titlePresence = TextPresence.absent
    var bodyPresence = TextPresence.absent
    var alertPosition = 0

    @inline(__always)
    func has(_ field: Field) -> Bool { seenFieldBits & field.bit != 0 }
}

extension Command {
    /// Reads Apple's dictionary into this command and `keys`, and returns the position after the dictionary. Unknown
    /// keys are no fault: they stay in the body.
    mutating func decodeAps(
        _ text: JSONText,
        _ start: Int,
        _ keys: inout ApsKeys,
        _ templates: inout RecentStateTemplates
    ) throws(Fault) -> Int {
        var members = try JSONMembers(text, at: start, of: .aps, unknownKeys: .passedOn)
        while let field = try members.next(in: text, Field.apsField) {
            let position = members.position
            switch field {
            case .alert:
                keys.alertPosition = position
                members.position = try keys.decodeAlert(text, position)
                alert = ByteRange(from: position, to: members.position)
            case .staleDate:
                (staleDateSeconds, members.position) = try text.readSeconds(position, field)
            case .contentState:
                if let end = templates.skipMatchingState(at: position, in: text) {
                    members.position = end
                } else {
                    members.position = try text.skipObject(position, depth: 2, field)
                }
                contentState = ByteRange(from: position, to: members.position)
            case .attributes:
                members.position = try text.skipObject(position, depth: 2, field)
                attributes = ByteRange(from: position, to: members.position)
            case .aps:
                members.position = try text.skipValue(position, depth: 2, field)
            default:
                members.position = try decodeScalar(field, text, position)
            }
            keys.seenFieldBits |= field.bit
        }
        aps = ByteRange(from: start, to: members.position)
        return members.position
    }

    @inline(__always)
    private mutating func decodeScalar(_ field: Field, _ text: JSONText, _ position: Int) throws(Fault) -> Int {
        switch field {
        case .event:
            let string = try text.readString(position, field)
            event = try Command.readEvent(text, string, position)
            return string.nextPosition
        case .timestamp:
            let (value, next) = try text.readInteger(
                position,
                from: Limits.timestampMin,
                to: Limits.timestampMax,
                field
            )
            version.timestamp = value
            timestampDigits = ByteRange(from: position, to: next)
            return next
        case .dismissalDate:
            let (value, next) = try text.readSeconds(position, field)
            dismissalDateSeconds = value
            return next
        case .relevanceScore:
            return try text.skipRequiredNumber(position, field)
        case .apsAttributesType:
            let name = try text.readName(position, atMost: Limits.identifierBytesMax, field)
            attributesType = name.textRange
            return name.nextPosition
        case .inputPushToken:
            return try text.readInteger(position, from: 1, to: 1, field).next
        case .inputPushChannel:
            return try text.readName(position, atMost: Limits.stringBytesMax, field).nextPosition
        default:
            preconditionFailure("Field.apsField gave a field that is not read here")
        }
    }

    @inline(__always)
    private static func readEvent(_ text: JSONText, _ string: JSONStringRange, _ position: Int) throws(Fault) -> Event {
        if text.isEqual(string, to: "update") { return .update }
        if text.isEqual(string, to: "end") { return .end }
        if text.isEqual(string, to: "start") { return .start }
        throw Fault(.unknownValue, .event, at: position)
    }

    /// Throws if Apple's dictionary lacks a required key, or has a key that its event does not allow.
    @inline(__always)
    func checkAps(_ keys: ApsKeys) throws(Fault) {
        let position = Int(aps.offset)
        guard keys.has(.event) else { throw Fault(.missingField, .event, at: position) }
        guard keys.has(.timestamp) else { throw Fault(.missingField, .timestamp, at: position) }
        guard keys.has(.contentState) || event == .end else { throw Fault(.missingField, .contentState, at: position) }
        guard event == .end || !keys.has(.dismissalDate) else { throw Fault(.notAllowed, .dismissalDate, at: position) }
        if event == .start {
            try checkStart(keys, position)
        } else {
            guard !keys.has(.inputPushToken) else { throw Fault(.notAllowed, .inputPushToken, at: position) }
            guard !keys.has(.inputPushChannel) else { throw Fault(.notAllowed, .inputPushChannel, at: position) }
        }
    }

    /// Throws if a start lacks its attributes or a complete alert, because a device silently drops such a start. Also
    /// throws if a start asks for both a token and a channel.
    private func checkStart(_ keys: ApsKeys, _ position: Int) throws(Fault) {
        guard keys.has(.apsAttributesType) else { throw Fault(.missingField, .apsAttributesType, at: position) }
        guard keys.has(.attributes) else { throw Fault(.missingField, .attributes, at: position) }
        guard keys.has(.alert) else { throw Fault(.missingField, .alert, at: position) }
        guard keys.titlePresence != .absent else { throw Fault(.missingField, .alertTitle, at: keys.alertPosition) }
        guard keys.titlePresence != .empty else { throw Fault(.emptyText, .alertTitle, at: keys.alertPosition) }
        guard keys.bodyPresence != .absent else { throw Fault(.missingField, .alertBody, at: keys.alertPosition) }
        guard keys.bodyPresence != .empty else { throw Fault(.emptyText, .alertBody, at: keys.alertPosition) }
        guard !keys.has(.inputPushToken) || !keys.has(.inputPushChannel) else {
            throw Fault(.notAllowed, .inputPushChannel, at: position)
        }
    }
}

extension ApsKeys {
    /// Reads the value of `alert`, notes whether its title and body are present, and returns the position after the
    /// value.
    fileprivate mutating func decodeAlert(_ text: JSONText, _ start: Int) throws(Fault) -> Int {
        var members = try JSONMembers(text, at: start, of: .alert, unknownKeys: .passedOn)
        while let field = try members.next(in: text, Field.alertField) {
            let position = members.position
            switch field {
            case .alertTitle:
                (titlePresence, members.position) = try Self.readLocalizableText(
                    text,
                    position,
                    field,
                    Field.alertTitleField
                )
            case .alertBody:
                (bodyPresence, members.position) = try Self.readLocalizableText(
                    text,
                    position,
                    field,
                    Field.alertBodyField
                )
            case .alertSound:
                members.position = try text.readString(position, field).nextPosition
            default:
                members.position = try text.skipValue(position, depth: 3, field)
            }
        }
        return members.position
    }

    /// Reads a title or body: a string, or `{"loc-key": string, "loc-args": [string]}` with optional `loc-args`. Throws
    /// if an object has no `loc-key`.
    @inline(__always)
    private static func readLocalizableText(
        _ text: JSONText,
        _ position: Int,
        _ field: Field,
        _ findField: (UnsafeRawBufferPointer) -> Field?
    ) throws(Fault) -> (TextPresence, next: Int) {
        guard position < text.count, text.byte(position) == UInt8(ascii: "{") else {
            let string = try text.readString(position, field)
            return (string.isEmpty ? .empty : .present, string.nextPosition)
        }
        var members = try JSONMembers(text, at: position, of: field, unknownKeys: .passedOn)
        var presence = TextPresence.absent
        while let innerField = try members.next(in: text, findField) {
            switch innerField {
            case .titleKey, .bodyKey:
                let key = try text.readString(members.position, innerField)
                presence = key.isEmpty ? .empty : .present
                members.position = key.nextPosition
            case .titleArguments, .bodyArguments:
                members.position =
                    try text.readArray(members.position, innerField) { position throws(Fault) in
                        try text.readString(position, innerField).nextPosition
                    }
                    .next
            default:
                members.position = try text.skipValue(members.position, depth: 4, innerField)
            }
        }
        guard presence != .absent else {
            throw Fault(.missingField, field == .alertTitle ? .titleKey : .bodyKey, at: position)
        }
        return (presence, members.position)
    }
}
