import LiveActivity

/// A rule for commands or registrations that a JSON Schema cannot express. The schema accepts a record that breaks such
/// a rule, but the worker refuses it. The schema never refuses a record that the worker accepts.
package enum RuleBeyondSchema: CaseIterable, Sendable {
    case strictJSON
    case duplicateKeys
    case lengthsInBytes
    case integerForms
    case noEscapes
    case sizeLimits
    case timestampAheadOfClock

    package var text: String {
        switch self {
        case .strictJSON:
            """
            Some parsers accept what RFC 8259 forbids: half of a surrogate pair, `NaN`, a byte order mark, other \
            encodings.
            """
        case .duplicateKeys: "A key must not occur twice. Parsers usually keep one of the two and report no error."
        case .lengthsInBytes:
            """
            Lengths are numbers of bytes in UTF-8. `maxLength` counts characters, so a name that is not ASCII may be \
            too long.
            """
        case .integerForms: "`1.0`, `1e3` and `-0` are integers for a schema. The worker accepts only digits."
        case .noEscapes: "`token` and `policy` must be written without escapes such as `\\u0061`, and so must `app`."
        case .sizeLimits:
            """
            A record has at most \(Limits.recordBytesMax) bytes, a string \(Limits.stringBytesMax), a body \
            \(Limits.bodyBytesMax) or \(Limits.broadcastBodyBytesMax). Objects and arrays are nested \(Limits.nestingDepthMax) deep at most. `aps`, `alert` and a localized text pass on at \
            most \(Limits.unknownKeysPerObjectMax) unknown keys each.
            """
        case .timestampAheadOfClock:
            "`aps.timestamp` must not be more than \(Limits.timestampLeadSecondsMax) s ahead of the worker's clock."
        }
    }
}
