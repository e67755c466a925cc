import Numbers

extension Fault {
    /// Returns a message about the fault, for logs and dead letters: the field, what its value must be, and the
    /// position.
    ///
    /// The message contains no value of the record, and no key that could be a token, because tokens must not be
    /// logged.
    ///
    /// - Parameter record: the record that was decoded.
    public func message(in record: UnsafeRawBufferPointer) -> String {
        let pathText = path.description(in: record)
        return "\(pathText.isEmpty ? "" : pathText + ": ")\(explanation) (at byte \(offset))"
    }

    /// Returns the message about a body that is still too large after fields were dropped.
    ///
    /// - Parameter names: the dropped fields, separated by commas; empty if the record has no field that the policy
    ///   drops.
    public func message(in record: UnsafeRawBufferPointer, afterDropping names: [UInt8]) -> String {
        guard !names.isEmpty else { return message(in: record) + "; it has no field that the policy drops" }
        let list = String(decoding: names, as: UTF8.self).split(separator: ",").joined(separator: ", ")
        return message(in: record) + "; this is without \(list), which the policy drops"
    }

    private var explanation: String {
        let requirement = path.field.requirement
        switch code {
        case .emptyRecord: return "the record is empty"
        case .recordTooLarge: return "the record has \(valueAboveLimit) bytes, \(Limits.recordBytesMax) are allowed"
        case .notJSON: return "not valid JSON"
        case .byteOrderMark: return "the record begins with a byte order mark, which JSON must not have"
        case .truncated: return "the record ends too early"
        case .trailingBytes: return "there are bytes after the record's object"
        case .controlCharacter: return "a string contains a control character that is not escaped"
        case .invalidEscape: return "a string contains a backslash that does not begin an escape"
        case .loneSurrogate: return "a string contains half of a surrogate pair"
        case .invalidUTF8: return "a string is not valid UTF-8"
        case .tooDeep: return "more than \(Limits.nestingDepthMax) nested objects and arrays"
        case .tooLong: return tooLongExplanation
        case .tooMany: return tooManyExplanation
        case .unknownKey: return "unknown key"
        case .duplicateKey: return "the key occurs twice"
        case .missingField: return "missing, must be \(requirement)"
        case .wrongType, .outOfRange, .unknownValue, .invalidHexadecimal: return "must be \(requirement)"
        case .timestampInFuture:
            return "is \(valueAboveLimit) seconds in the future, \(Limits.timestampLeadSecondsMax) are allowed"
        case .emptyText: return "must not be empty"
        case .invalidCharacter where path.field == .policy: return "must be \(requirement)"
        case .invalidCharacter: return "must not contain a control character"
        case .notAllowed: return notAllowedExplanation
        case .missingPlaceholder: return "must contain \"{device}\", which is replaced by each device's id"
        case .bodyTooLarge:
            let limit = path.field == .channel ? Limits.broadcastBodyBytesMax : Limits.bodyBytesMax
            return "the request body has \(valueAboveLimit) bytes, \(limit) are allowed"
        }
    }

    private var tooLongExplanation: String {
        valueAboveLimit > Limits.stringBytesMax
            ? "a string has \(valueAboveLimit) bytes, \(Limits.stringBytesMax) are allowed"
            : "must be \(path.field.requirement), and has \(valueAboveLimit) bytes"
    }

    private var tooManyExplanation: String {
        path.field == .audiences
            ? "\(valueAboveLimit) audiences, \(Limits.audiencesPerRegistrationMax) are allowed"
            : "more than \(Limits.unknownKeysPerObjectMax) unknown keys"
    }

    private var notAllowedExplanation: String {
        switch path.field {
        case .payload: "must not contain the key \"aps\""
        case .audience: "is not allowed together with device; with activity it is allowed only in a start"
        case .token, .environment: "is not allowed together with audience"
        case .channel:
            """
            true or false needs audience; an id is not allowed together with activity, audience, device or token, and \
            not in a start
            """
        case .device: "only a start has a device; an update or end uses the token of its activity"
        case .dismissalDate: "is allowed only in an end"
        case .inputPushToken: "is allowed only in a start"
        case .inputPushChannel: "is allowed only in a start, and not together with aps.input-push-token"
        case .attributesType, .channels: "is not allowed together with activity"
        default: "is not allowed together with device"
        }
    }
}

extension FieldPath {
    /// The maximum length of an unknown key that is shown, in bytes, so that a message stays short.
    private static let shownKeyBytesMax = 64
    /// A text with this many hexadecimal digits in a row, or more, is not shown, because it might contain a token. The
    /// shortest tokens that have been seen have 64 digits.
    static let suspectedTokenDigitsMin = 16

    /// Returns the path in words, such as `aps.alert.title`. An unknown key is shown if it is short and cannot be a
    /// token.
    public func description(in record: UnsafeRawBufferPointer) -> String {
        let pathText = field.path.description
        guard !unknownKey.isAbsent else { return pathText }
        let bytes = unknownKey.bytes(in: record)
        let key = FieldPath.mayBeShown(bytes) ? String(decoding: bytes, as: UTF8.self) : "(key of \(bytes.count) bytes)"
        return pathText.isEmpty ? key : "\(pathText).\(key)"
    }

    /// Whether a key may be shown in logs: short printable ASCII that cannot be a token.
    private static func mayBeShown(_ key: UnsafeRawBufferPointer) -> Bool {
        guard key.count <= shownKeyBytesMax else { return false }
        var consecutiveDigitCount = 0
        for byte in key {
            guard byte > 0x20, byte < 0x7F else { return false }
            consecutiveDigitCount = Hexadecimal.digitValue(byte) == nil ? 0 : consecutiveDigitCount + 1
            guard consecutiveDigitCount < suspectedTokenDigitsMin else { return false }
        }
        return true
    }
}
