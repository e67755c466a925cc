/// The key of a device's registration: the device's id, a slash and the attributes type, as `phone-7/RideAttributes`.
/// Compaction keeps the newest record of each key, so each attributes type of a device has a key of its own.
///
/// A tombstone has only its key. `phone-7/RideAttributes` may also be the whole id of an activity or of a device, so a
/// tombstone with this key unregisters all three.
///
/// Known issue (K22): the keys of one device may be in different partitions, so an older registration of one type may
/// come after a newer one of another type.
package enum DeviceRegistrationKey {
    private static let separator = UInt8(ascii: "/")

    package static func key(device: String, attributesType: String) -> String { "\(device)/\(attributesType)" }

    /// Returns the parts of a key; nil if it cannot be the key of a device's registration. The last slash is between
    /// the parts: a device's id may have slashes, but the name of a Swift type has none.
    package static func split(
        _ key: UnsafeRawBufferPointer
    ) -> (device: UnsafeRawBufferPointer, attributesType: UnsafeRawBufferPointer)? {
        guard let index = key.lastIndex(of: separator) else { return nil }
        let device = UnsafeRawBufferPointer(rebasing: key[..<index])
        let attributesType = UnsafeRawBufferPointer(rebasing: key[(index + 1)...])
        let lengths = 1...Limits.identifierBytesMax
        guard lengths.contains(device.count), lengths.contains(attributesType.count) else { return nil }
        return (device, attributesType)
    }
}
