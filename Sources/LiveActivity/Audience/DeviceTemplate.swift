/// The activity's id in a start to an audience of devices: each of its placeholders stands for the id of the device.
public enum DeviceTemplate {
    public static let placeholder: StaticString = "{device}"

    /// - Parameter text: a string of a record, whose escapes count as what they stand for.
    static func isTemplate(_ text: UnsafeRawBufferPointer) -> Bool {
        var matched = 0
        for byte in UnescapedBytes(text) {
            // Only the first byte is a brace, so a match that fails begins again at this byte or behind it.
            if byte != placeholder.utf8Start[matched] { matched = 0 }
            if byte == placeholder.utf8Start[matched] { matched &+= 1 }
            if matched == placeholder.utf8CodeUnitCount { return true }
        }
        return false
    }

    /// Writes the id of the activity that is begun on a device.
    ///
    /// - Parameters:
    ///   - template: plain bytes, not escaped.
    ///   - room: for at least ``Limits/identifierBytes``.
    /// - Returns: how many bytes; nil if they are more than an id may have.
    public static func expand(
        _ template: UnsafeRawBufferPointer,
        device: UnsafeRawBufferPointer,
        into room: UnsafeMutableRawBufferPointer
    ) -> Int? {
        precondition(room.count >= Limits.identifierBytes, "room for an id")
        let length = placeholder.utf8CodeUnitCount
        var (count, position) = (0, 0)
        while position < template.count {
            let rest = UnsafeRawBufferPointer(rebasing: template[position...].prefix(length))
            let isPlaceholder = equals(rest, placeholder)
            let piece = isPlaceholder ? device : UnsafeRawBufferPointer(rebasing: template[position...position])
            guard count + piece.count <= Limits.identifierBytes else { return nil }
            UnsafeMutableRawBufferPointer(rebasing: room[count...]).copyMemory(from: piece)
            count += piece.count
            position += isPlaceholder ? length : 1
        }
        return count
    }
}
