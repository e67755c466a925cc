import LiveActivity

/// A code that says why a record is invalid, in `invalid` results and dead letters.
package struct FaultReference: Sendable {
    package var name: String
    package var meaning: String

    init(_ code: FaultCode) {
        name = code.name.description
        meaning =
            switch code {
            case .emptyRecord: "The record has no value, or only white space. A tombstone is not a command."
            case .recordTooLarge: "The record has more than 65,536 bytes."
            case .notJSON:
                "The record is not JSON (RFC 8259). Examples: a comment, an extra comma, `NaN`, a number such as `01`."
            case .byteOrderMark: "The record begins with a byte order mark. Write UTF-8 without a byte order mark."
            case .truncated: "The record ends inside a value."
            case .trailingBytes: "There are bytes after the object. Write one object in each record."
            case .controlCharacter: "A string has a control character that is not escaped."
            case .invalidEscape: "A backslash does not begin an escape."
            case .loneSurrogate:
                """
                A string has half of a surrogate pair, such as `\\ud83d` alone. Probably it was cut in the middle of a \
                character.
                """
            case .invalidUTF8: "The record is not UTF-8."
            case .tooDeep: "Objects and arrays are nested more than \(Limits.nestingDepthMax) deep."
            case .tooLong:
                "A name or a string has too many bytes. In UTF-8, a character that is not ASCII has 2 to 4 bytes."
            case .tooMany:
                """
                More than \(Limits.audiencesPerRegistrationMax) audiences, or more than \
                \(Limits.unknownKeysPerObjectMax) unknown keys in one of Apple's dictionaries.
                """
            case .unknownKey:
                "The record has a key that is not in the tables above. Often the key belongs in `payload` or `aps`."
            case .duplicateKey: "A key occurs twice in one object."
            case .missingField: "A field is missing."
            case .wrongType: "The value has the wrong type. Write an integer without a fraction or an exponent."
            case .outOfRange: "A number is out of range. Often it has milliseconds instead of seconds, or the reverse."
            case .timestampInFuture:
                "`aps.timestamp` is more than \(Limits.timestampLeadSecondsMax) s ahead of the worker's clock."
            case .unknownValue: "The value is not one of the values in the table."
            case .emptyText: "A string must not be empty."
            case .invalidCharacter:
                "A name has a control character, or the name of a policy has a character that is not allowed."
            case .invalidHexadecimal: "A token does not consist of an even number of hexadecimal digits."
            case .notAllowed: "A field is not allowed together with another field. The header `detail` names them."
            case .missingPlaceholder: "The `activity` of a start to an audience does not contain `{device}`."
            case .bodyTooLarge:
                """
                The body has more than 4,096 bytes (5,120 to a channel that you manage). Send a smaller state, or name \
                the members to drop in the policy's `oversize`. The header `detail` has the size, and the dropped \
                members.
                """
            }
    }

    package static let all = FaultCode.allCases.map { FaultReference($0) }
}
