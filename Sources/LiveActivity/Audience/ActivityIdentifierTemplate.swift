/// The template for the ids of the activities that a start to an audience begins, one on each device. Each device's id
/// replaces the placeholder: on the device `phone-21`, the template `final-{device}` gives the id `final-phone-21`.
public enum ActivityIdentifierTemplate {
    public static let placeholder: StaticString = "{device}"

    /// Whether a string contains the placeholder.
    ///
    /// - Parameter text: a string of a record, in which escapes count as the characters that they represent.
    static func hasPlaceholder(_ text: UnsafeRawBufferPointer) -> Bool {
        var matchedCount = 0
        for byte in UnescapedBytes(text) {
            // If a byte does not fit, the placeholder can still begin at this byte. It cannot begin at an earlier one,
            // because only its first byte is `{`.
            if byte != placeholder.utf8Start[matchedCount] { matchedCount = 0 }
            if byte == placeholder.utf8Start[matchedCount] { matchedCount &+= 1 }
            if matchedCount == placeholder.utf8CodeUnitCount { return true }
        }
        return false
    }

    /// Writes the id of the activity that begins on a device.
    ///
    /// - Parameters:
    ///   - template: plain bytes, not escaped.
    ///   - target: has room for at least ``Limits/identifierBytesMax``.
    /// - Returns: the number of bytes written; nil if the id would be too long.
    public static func expand(
        _ template: UnsafeRawBufferPointer,
        device: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> Int? {
        precondition(target.count >= Limits.identifierBytesMax, "there is no room for an id")
        let length = placeholder.utf8CodeUnitCount
        var (writtenByteCount, position) = (0, 0)
        while position < template.count {
            let candidate = UnsafeRawBufferPointer(rebasing: template[position...].prefix(length))
            let isPlaceholder = equals(candidate, placeholder)
            let piece = isPlaceholder ? device : UnsafeRawBufferPointer(rebasing: template[position...position])
            guard writtenByteCount + piece.count <= Limits.identifierBytesMax else { return nil }
            UnsafeMutableRawBufferPointer(rebasing: target[writtenByteCount...]).copyMemory(from: piece)
            writtenByteCount += piece.count
            position += isPlaceholder ? length : 1
        }
        return writtenByteCount
    }
}
