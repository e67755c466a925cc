/// Why a record is not a command or a registration, and where.
public struct Fault: Error, Equatable, Sendable, BitwiseCopyable {
    public var code: FaultCode
    public var field: FieldPath
    /// Of the byte in the record at which it was noticed: the start of the value that is wrong, of the key that should
    /// not be there, or of the object that lacks one.
    public var offset: Int
    /// For what is over a limit, what was found, in the limit's unit; otherwise 0.
    public var amount: UInt32

    init(_ code: FaultCode, _ field: Field, at offset: Int, amount: Int = 0) {
        self.init(code, FieldPath(field: field, name: .absent), at: offset, amount: amount)
    }

    init(_ code: FaultCode, _ path: FieldPath, at offset: Int, amount: Int = 0) {
        self.code = code
        self.field = path
        self.offset = offset
        self.amount = UInt32(clamping: amount)
    }

    @usableFromInline
    static func timestampInFuture(_ command: Command, now: Int64) -> Fault {
        let seconds = command.version.timestamp - now
        return Fault(.timestampInFuture, .timestamp, at: Int(command.timestampDigits.offset), amount: Int(seconds))
    }
}

/// What is wrong. The names are stable: they stand in dead letters and in metrics.
public enum FaultCode: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    /// The record has no bytes, or nothing but white space.
    case emptyRecord
    /// More than ``Limits/recordBytes``.
    case recordTooLarge
    /// Not JSON by RFC 8259: the byte at the offset cannot stand there.
    case notJSON
    /// It begins with a byte order mark, which JSON between systems must not have (RFC 8259 §8.1).
    case byteOrderMark
    /// The record ends inside a value.
    case truncated
    /// Something follows the record's object.
    case trailingBytes
    /// A string holds a control character as it is; it must be escaped (RFC 8259 §7).
    case controlCharacter
    /// A backslash is followed by something that is no escape (RFC 8259 §7).
    case invalidEscape
    /// Half of a surrogate pair, which is no character.
    case loneSurrogate
    /// Not well-formed UTF-8 (Unicode, table 3-7).
    case invalidUTF8
    /// More than ``Limits/nestingDepth``.
    case tooDeep
    /// A string over ``Limits/stringBytes``, or a name over its own limit.
    case tooLong
    /// More than ``Limits/passedKeys`` keys that are not known, or ``Limits/audiences`` audiences.
    case tooMany
    /// A key that the record does not define.
    case unknownKey
    case duplicateKey
    /// What the record must hold and does not.
    case missingField
    /// A value of another JSON type than the field's.
    case wrongType
    /// A number outside the field's range.
    case outOfRange
    /// A timestamp more than ``Limits/timestampLeadSeconds`` ahead of the clock.
    case timestampInFuture
    /// A string that is not one of those the field allows.
    case unknownValue
    /// A string that must not be empty.
    case emptyText
    /// A control character in a name, or a character that a policy's name cannot have.
    case invalidCharacter
    /// A token that is not an even number of hexadecimal digits.
    case invalidHexadecimal
    /// The field cannot stand in this kind of record, or beside another one that is present.
    case notAllowed
    /// The activity of a start to an audience, without ``DeviceTemplate/placeholder``.
    case missingPlaceholder
    /// The request body would exceed ``Limits/bodyBytes``.
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

/// Where in a record a fault lies: a field that is defined, or a key inside one that is not.
public struct FieldPath: Equatable, Sendable, BitwiseCopyable {
    public var field: Field
    /// Of a key inside ``field`` that is not defined there, its bytes in the record; otherwise absent.
    public var name: ByteRange
}
