import LiveActivity

/// The format of an activity's key: `{app=activity}`. If the activity's id is a UUID, as ActivityKit's ids are, the key
/// has the UUID in sixteen bytes: `{app#…}` for a UUID in lower case, `{app$…}` in upper case. A UUID in mixed case is
/// stored as text.
///
/// Short keys save time. Redis reads a key's bytes about ten times for one admission, and stores an argument of up to
/// 44 bytes in a single piece of memory. A binary key cannot be typed; `causeway inspect` finds it.
public enum ActivityKey {
    static let lowercaseUUIDMarker = UInt8(ascii: "#")
    static let uppercaseUUIDMarker = UInt8(ascii: "$")

    /// Returns the key of an activity; empty if the app or the id is empty, or if the key would be too long.
    public static func key(app: [UInt8], activity: [UInt8]) -> [UInt8] {
        var key = [UInt8](repeating: 0, count: SubjectKey.bytesMax)
        let count = app.withUnsafeBytes { app in
            activity.withUnsafeBytes { activity in
                key.withUnsafeMutableBytes {
                    SubjectKey.write(StoreSubject(app: app, kind: .activity, identifier: activity), to: $0)
                }
            }
        }
        return Array(key.prefix(count ?? 0))
    }

    /// Returns a glob pattern for the keys of all activities of an app. The app needs no escapes, because a bundle id
    /// has none of the special characters of a pattern.
    public static func pattern(app: String) -> String { "{\(app)[=#$]*}" }

    /// Returns the activity's id from its key. The key must match ``pattern(app:)``.
    public static func activity(ofKey key: [UInt8], app: [UInt8]) -> [UInt8] {
        let rest = key.dropFirst(app.count + 1)
        let identifier = Array(rest.dropFirst().dropLast())
        let letterCase: PackedUUID.LetterCase
        switch rest.first {
        case lowercaseUUIDMarker where identifier.count == PackedUUID.byteCount: letterCase = .lowercase
        case uppercaseUUIDMarker where identifier.count == PackedUUID.byteCount: letterCase = .uppercase
        default: return identifier
        }
        return [UInt8](unsafeUninitializedCapacity: PackedUUID.textByteCount) { text, count in
            // `text` is not empty, so it has an address.
            guard let base = UnsafeMutableRawPointer(text.baseAddress) else { return }
            identifier.withUnsafeBytes { PackedUUID.unpack($0, letterCase, to: base) }
            count = PackedUUID.textByteCount
        }
    }
}

/// The key of an activity or a device: `{app=activity}` (see ``ActivityKey``) or `{app/device}`. A bundle id has none
/// of the characters after the app (`=`, `#`, `$`, `/`), so a device's key is never an activity's. The part in braces
/// is the hash tag in a Redis cluster.
enum SubjectKey {
    /// The length of the longest key, in bytes. Keys from records are shorter, because each name in a record has at
    /// most 256 bytes (`identifierBytesMax`).
    static let bytesMax = 1_024

    /// Writes the key and returns its length; nil if a part is empty or the key is too long.
    ///
    /// - Parameter destination: must have room for ``bytesMax``.
    static func write(
        _ subject: StoreSubject<UnsafeRawBufferPointer>,
        to destination: UnsafeMutableRawBufferPointer
    ) -> Int? {
        let (app, identifier) = (subject.app, subject.identifier)
        guard let base = destination.baseAddress, app.count > 0, identifier.count > 0,
            app.count + identifier.count + 3 <= min(bytesMax, destination.count)
        else { return nil }
        base.storeBytes(of: UInt8(ascii: "{"), as: UInt8.self)
        UnsafeMutableRawBufferPointer(start: base + 1, count: app.count).copyMemory(from: app)
        let markerAddress = base + 1 + app.count
        var identifierByteCount = identifier.count
        if subject.kind == .activity, let letterCase = PackedUUID.pack(identifier, to: markerAddress + 1) {
            let kindMarker =
                letterCase == .lowercase ? ActivityKey.lowercaseUUIDMarker : ActivityKey.uppercaseUUIDMarker
            markerAddress.storeBytes(of: kindMarker, as: UInt8.self)
            identifierByteCount = PackedUUID.byteCount
        } else {
            let kindMarker = subject.kind == .activity ? UInt8(ascii: "=") : UInt8(ascii: "/")
            markerAddress.storeBytes(of: kindMarker, as: UInt8.self)
            UnsafeMutableRawBufferPointer(start: markerAddress + 1, count: identifierByteCount)
                .copyMemory(from: identifier)
        }
        (markerAddress + 1 + identifierByteCount).storeBytes(of: UInt8(ascii: "}"), as: UInt8.self)
        return app.count + identifierByteCount + 3
    }
}
