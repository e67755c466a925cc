import LiveActivity
import RecordReference

extension RuleBeyondSchema {
    /// Returns the known difference that explains why the schema accepts this record and the decoder refuses it; nil if
    /// there is none.
    package static func explaining(_ fault: Fault, _ text: [UInt8]) -> RuleBeyondSchema? {
        if fault.code == .loneSurrogate || FoundationDeviation.isTrailingComma(text, fault)
            || FoundationDeviation.isOtherEncoding(text)
        {
            return .strictJSON
        }
        if FoundationDeviation.isIntegerInOtherForm(text, fault) { return .integerForms }
        // If a key is repeated, the decoder refuses the record or reads the first value. Foundation keeps one of the
        // values, which may be valid.
        if fault.code == .duplicateKey || isRepeated(fault.path.field, text) { return .duplicateKeys }
        switch fault.code {
        case .tooLong where hasLongCharacters(text): return .lengthsInBytes
        case .tooLong where fault.valueAboveLimit > Limits.stringBytesMax: return .sizeLimits
        case .tooDeep, .bodyTooLarge, .recordTooLarge: return .sizeLimits
        case .tooMany where fault.path.field != .audiences: return .sizeLimits
        case .invalidHexadecimal where fault.path.field == .token && text.contains(UInt8(ascii: "\\")):
            return .noEscapes
        case .invalidCharacter where fault.path.field == .policy && text.contains(UInt8(ascii: "\\")): return .noEscapes
        case .tooLong where fault.path.field == .policy && text.contains(UInt8(ascii: "\\")): return .noEscapes
        default: return nil
        }
    }

    /// Whether the text has the name of a field's key more than once in quotes: as a key of any object, or as a string.
    private static func isRepeated(_ field: Field, _ text: [UInt8]) -> Bool {
        guard let key = field.path.description.split(separator: ".").last else { return false }
        return String(decoding: text, as: UTF8.self).ranges(of: "\"\(key)\"").count > 1
    }

    /// Whether the text has characters of several bytes, written as they are or as escapes.
    private static func hasLongCharacters(_ text: [UInt8]) -> Bool {
        text.contains { $0 >= 0x80 } || String(decoding: text, as: UTF8.self).contains("\\u")
    }
}
