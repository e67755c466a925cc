import Numbers

extension Fault {
    /// The fault in words: the field, what it must be, and the place. For logs and dead letters.
    ///
    /// It never quotes a value, so no token can stand in it; nor a key that could be one.
    /// - Parameter record: the record that was decoded.
    public func message(in record: UnsafeRawBufferPointer) -> String {
        let path = field.description(in: record)
        return "\(path.isEmpty ? "" : path + ": ")\(explanation) (at byte \(offset))"
    }

    private var explanation: String {
        let requirement = field.field.requirement
        switch code {
        case .emptyRecord: return "the record is empty"
        case .recordTooLarge: return "the record has \(amount) bytes, \(Limits.recordBytes) are allowed"
        case .notJSON: return "not valid JSON"
        case .byteOrderMark: return "the record begins with a byte order mark, which JSON must not have"
        case .truncated: return "the record ends too early"
        case .trailingBytes: return "something follows the record's object"
        case .controlCharacter: return "a string holds a control character that is not escaped"
        case .invalidEscape: return "a string holds a backslash that begins no escape"
        case .loneSurrogate: return "a string holds half of a surrogate pair"
        case .invalidUTF8: return "a string is not valid UTF-8"
        case .tooDeep: return "more than \(Limits.nestingDepth) objects and arrays inside each other"
        case .tooLong: return tooLong
        case .tooMany: return tooMany
        case .unknownKey: return "unknown key"
        case .duplicateKey: return "the key is there twice"
        case .missingField: return "missing, must be \(requirement)"
        case .wrongType, .outOfRange, .unknownValue, .invalidHexadecimal: return "must be \(requirement)"
        case .timestampInFuture:
            return "is \(amount) seconds in the future, \(Limits.timestampLeadSeconds) are allowed"
        case .emptyText: return "must not be empty"
        case .invalidCharacter where field.field == .policy: return "must be \(requirement)"
        case .invalidCharacter: return "must not hold a control character"
        case .notAllowed: return notAllowed
        case .missingPlaceholder: return "must contain \"{device}\", in whose place each device's id is put"
        case .bodyTooLarge:
            let limit = field.field == .channel ? Limits.broadcastBodyBytes : Limits.bodyBytes
            return "the request body has \(amount) bytes, \(limit) are allowed"
        }
    }

    private var tooLong: String {
        amount > Limits.stringBytes
            ? "a string has \(amount) bytes, \(Limits.stringBytes) are allowed"
            : "must be \(field.field.requirement), and has \(amount) bytes"
    }

    private var tooMany: String {
        field.field == .audiences
            ? "\(amount) audiences, \(Limits.audiences) are allowed"
            : "more than \(Limits.passedKeys) unknown keys"
    }

    private var notAllowed: String {
        switch field.field {
        case .payload: "must not hold the key \"aps\""
        case .audience: "cannot stand beside device, nor beside activity but in a start"
        case .token, .environment: "cannot stand beside audience"
        case .channel:
            "true or false stands beside audience only; an id beside none of activity, audience, device and token, nor in a start"
        case .device: "only a start has a device; updates and ends reach an activity by its own token"
        case .dismissalDate: "only an end has one"
        case .inputPushToken: "only a start has one"
        case .inputPushChannel: "only a start has one, and not beside aps.input-push-token"
        case .attributesType, .channels: "cannot stand beside activity"
        default: "cannot stand beside device"
        }
    }
}

extension FieldPath {
    /// Bytes of an unknown key that are shown.
    private static let nameBytes = 64
    /// A run of hexadecimal digits this long might be part of a token.
    private static let hexadecimalRun = 16

    /// The path in words, such as `aps.alert.title`; an unknown key's own name is shown if it is short and harmless.
    public func description(in record: UnsafeRawBufferPointer) -> String {
        let path = field.path.description
        guard !name.isAbsent else { return path }
        let bytes = name.bytes(in: record)
        let key = FieldPath.isHarmless(bytes) ? String(decoding: bytes, as: UTF8.self) : "(key of \(bytes.count) bytes)"
        return path.isEmpty ? key : "\(path).\(key)"
    }

    /// Keys go into logs: printable ASCII only, and nothing that could be a token.
    private static func isHarmless(_ key: UnsafeRawBufferPointer) -> Bool {
        guard key.count <= nameBytes else { return false }
        var run = 0
        for byte in key {
            guard byte > 0x20, byte < 0x7F else { return false }
            run = Hexadecimal.value(byte) == nil ? 0 : run + 1
            guard run < hexadecimalRun else { return false }
        }
        return true
    }
}
