import LiveActivity

/// A code that says why a record is invalid, in `invalid` results and dead letters.
package struct FaultReference: Sendable {
    package var name: String
    package var meaning: String

    init(_ code: FaultCode) {
        name = code.name.description
        meaning =
            switch code {
            case .emptyRecord: "The record has no value, or only white space. A tombstone is no command."
            case .recordTooLarge: "The record has more than 65,536 bytes."
            case .notJSON: "It is not JSON (RFC 8259): a comment, a comma too many, `NaN`, a number like `01`."
            case .byteOrderMark: "It begins with a byte order mark. Write UTF-8 without one."
            case .truncated: "It ends inside a value."
            case .trailingBytes: "There are bytes after the object. One record is one object."
            case .controlCharacter: "A string has a control character that is not escaped."
            case .invalidEscape: "A backslash does not begin an escape."
            case .loneSurrogate: "`\\ud83d` without its second half. A string was cut in the middle of a character."
            case .invalidUTF8: "It is not UTF-8."
            case .tooDeep: "Objects and arrays are nested more than \(Limits.nestingDepthMax) deep."
            case .tooLong: "A name or a string has too many bytes. A character that is not ASCII has two to four."
            case .tooMany:
                "More than \(Limits.audiencesPerRegistrationMax) audiences, or more than \(Limits.unknownKeysPerObjectMax) unknown keys in one of Apple's dictionaries."
            case .unknownKey:
                "The record has a key that is not in the tables above. Often a key of `payload` or of `aps`."
            case .duplicateKey: "A key occurs twice in one object."
            case .missingField: "A field is missing."
            case .wrongType: "The value has another type. An integer must be written without fraction and exponent."
            case .outOfRange: "A number is out of its range. Often milliseconds instead of seconds, or the reverse."
            case .timestampInFuture:
                "`aps.timestamp` is more than \(Limits.timestampLeadSecondsMax) s ahead of the worker's clock."
            case .unknownValue: "The value is not one of those that the table lists."
            case .emptyText: "A string must not be empty."
            case .invalidCharacter:
                "A name has a control character, or a policy's name a character that it must not have."
            case .invalidHexadecimal: "A token is not an even number of hexadecimal digits."
            case .notAllowed: "A field is not allowed beside another one. The detail says which."
            case .missingPlaceholder: "The `activity` of a start to an audience lacks `{device}`."
            case .bodyTooLarge:
                "The body would have more than 4,096 bytes (5,120 to a channel of your own). Send less state, or name what to drop "
                    + "in the policy's `oversize`. The detail has the size, and what was dropped."
            }
    }

    package static let all = FaultCode.allCases.map { FaultReference($0) }
}
