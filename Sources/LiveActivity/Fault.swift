/// The reason why a record is not a valid command or registration, and the place of the fault. (R6)
public struct Fault: Error, Equatable, Sendable, BitwiseCopyable {
    public var code: FaultCode
    public var path: FieldPath
    /// The position in the record, in bytes. It is usually the position of the wrong value, of the byte or key that is
    /// not allowed, or of the object that breaks a rule.
    public var offset: Int
    /// The number that is above its limit. Its meaning depends on the code:
    /// - `recordTooLarge`, `tooLong`, `bodyTooLarge`: the size in bytes.
    /// - `tooMany`: the number of audiences, or the number of unknown keys at which reading stopped.
    /// - `timestampInFuture`: the seconds ahead of the clock.
    /// - all others: 0.
    public var valueAboveLimit: UInt32

    init(_ code: FaultCode, _ field: Field, at offset: Int, valueAboveLimit: Int = 0) {
        self.init(code, FieldPath(field: field, unknownKey: .absent), at: offset, valueAboveLimit: valueAboveLimit)
    }

    init(_ code: FaultCode, _ path: FieldPath, at offset: Int, valueAboveLimit: Int = 0) {
        self.code = code
        self.path = path
        self.offset = offset
        self.valueAboveLimit = UInt32(clamping: valueAboveLimit)
    }

    @usableFromInline
    static func timestampInFuture(_ command: Command, nowSeconds: Int64) -> Fault {
        let seconds = command.version.timestamp - nowSeconds
        return Fault(
            .timestampInFuture,
            .timestamp,
            at: Int(command.timestampDigits.offset),
            valueAboveLimit: Int(seconds)
        )
    }
}

/// The kind of a fault. The names never change, because dead letters and metrics use them.
public enum FaultCode: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    /// The record has no bytes, or only white space.
    case emptyRecord
    /// The record has more than ``Limits/recordBytesMax`` bytes.
    case recordTooLarge
    /// Not JSON by RFC 8259: the byte at the offset is not allowed there.
    case notJSON
    /// The record begins with a byte order mark, which JSON between systems must not have (RFC 8259 §8.1).
    case byteOrderMark
    /// The record ends inside a value.
    case truncated
    /// There are bytes other than white space after the record's object.
    case trailingBytes
    /// A string contains an unescaped control character (RFC 8259 §7).
    case controlCharacter
    /// A backslash does not begin a valid escape (RFC 8259 §7).
    case invalidEscape
    /// A `\u` escape is one half of a surrogate pair, without the other half.
    case loneSurrogate
    /// A string contains bytes that are not well-formed UTF-8 (Unicode, table 3-7).
    case invalidUTF8
    /// Objects and arrays are nested deeper than ``Limits/nestingDepthMax``.
    case tooDeep
    /// A string exceeds ``Limits/stringBytesMax``, or the limit of its field, such as ``Limits/identifierBytesMax``.
    case tooLong
    /// An object has more than ``Limits/unknownKeysPerObjectMax`` unknown keys, or a registration names more than
    /// ``Limits/audiencesPerRegistrationMax`` audiences.
    case tooMany
    /// The record's format does not define this key, or only Causeway may write it.
    case unknownKey
    case duplicateKey
    /// The record lacks a required field.
    case missingField
    /// The value does not have the JSON type that its field requires.
    case wrongType
    /// A number is outside its field's range.
    case outOfRange
    /// A timestamp is more than ``Limits/timestampLeadSecondsMax`` ahead of the clock.
    case timestampInFuture
    /// A string is not one of the values that its field allows, or a channel's id is not in the form of such an id.
    case unknownValue
    /// A string is empty, and its field must not be empty.
    case emptyText
    /// A name contains a control character, or a policy's name contains anything but ASCII letters, digits, `-` and
    /// `_`.
    case invalidCharacter
    /// A token is not an even number of hexadecimal digits, or has too few or too many of them.
    case invalidHexadecimal
    /// The field is not allowed in this kind of record, or not together with another field.
    case notAllowed
    /// The activity of a start to an audience lacks ``ActivityIdentifierTemplate/placeholder``.
    case missingPlaceholder
    /// The request body would exceed ``Limits/bodyBytesMax``, or ``Limits/broadcastBodyBytesMax`` for a channel.
    case bodyTooLarge

    public var name: StaticString {
        switch self {
        case .emptyRecord: "emptyRecord"
        case .recordTooLarge: "recordTooLarge"
        case .notJSON: "notJSON"
        case .byteOrderMark: "byteOrderMark"
        case .truncated: "truncated"
        case .trailingBytes: "trailingBytes"
        case .controlCharacter: "controlCharacter"
        case .invalidEscape: "invalidEscape"
        case .loneSurrogate: "loneSurrogate"
        case .invalidUTF8: "invalidUTF8"
        case .tooDeep: "tooDeep"
        case .tooLong: "tooLong"
        case .tooMany: "tooMany"
        case .unknownKey: "unknownKey"
        case .duplicateKey: "duplicateKey"
        case .missingField: "missingField"
        case .wrongType: "wrongType"
        case .outOfRange: "outOfRange"
        case .timestampInFuture: "timestampInFuture"
        case .unknownValue: "unknownValue"
        case .emptyText: "emptyText"
        case .invalidCharacter: "invalidCharacter"
        case .invalidHexadecimal: "invalidHexadecimal"
        case .notAllowed: "notAllowed"
        case .missingPlaceholder: "missingPlaceholder"
        case .bodyTooLarge: "bodyTooLarge"
        }
    }
}

/// The place of a fault: a field, or an unknown key inside a field.
public struct FieldPath: Equatable, Sendable, BitwiseCopyable {
    public var field: Field
    /// The unknown key inside ``field``; absent if the field itself has the fault.
    public var unknownKey: ByteRange
}
