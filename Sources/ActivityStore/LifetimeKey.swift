import LiveActivity

/// The keys of the timetables of lifetimes, and of the Redis hashes that belong to each timetable.
///
/// A timetable's key is `{causeway:lifetimes:<number>}`. FNV-1a, applied to an activity's key, gives the number, so
/// the activities are spread over the servers of a cluster. The key of a Redis hash begins with its timetable's key. So
/// both have the same hash tag (the part in braces) and are in one hash slot, as the keys of a script call must be.
public enum LifetimeKey {
    /// The number of timetables. More timetables would spread the activities over more servers, but each poll of a
    /// worker's `LifetimeKeeper` reads every timetable. All workers must use the same number, because it decides in
    /// which timetable an activity is.
    public static let timetableCount = 32

    /// Returns the key of the timetable with this number, 0..<``timetableCount``.
    public static func timetableKey(_ number: Int) -> [UInt8] { Array("{causeway:lifetimes:\(number)}".utf8) }

    /// Returns the key of the Redis hash with the lives of a timetable's activities. A field's name is the activity's
    /// key, its value a ``TimetableEntry/storedText``.
    public static func livesKey(_ number: Int) -> [UInt8] { timetableKey(number) + [livesSuffix] }

    static let livesSuffix = UInt8(ascii: "+")
    static let startsForRestartSuffix = UInt8(ascii: "*")
    static let updatesForRestartSuffix = UInt8(ascii: "=")

    /// Returns the keys of two Redis hashes, which have the commands that a worker needs to start activities again:
    /// each activity's newest start, and its newest update. The new start shows the state of this update.
    ///
    /// Each value in these hashes begins with the command's version in thirty digits. Do not change this form: after an
    /// upgrade, the script `lifetime` compares these digits with those that an earlier release stored.
    public static func restartKeys(_ number: Int) -> (starts: [UInt8], updates: [UInt8]) {
        (timetableKey(number) + [startsForRestartSuffix], timetableKey(number) + [updatesForRestartSuffix])
    }

    /// Splits a value from one of the two hashes of ``restartKeys(_:)`` into the command's version and record. Returns
    /// nil if the value does not have this form.
    public static func splitCommandKeptForRestart(_ value: [UInt8]) -> (version: Version, record: [UInt8])? {
        value.withUnsafeBytes { value in
            guard value.count > StoredVersion.textByteCount,
                let version = StoredVersion.readText(
                    UnsafeRawBufferPointer(rebasing: value[..<StoredVersion.textByteCount])
                )
            else { return nil }
            return (version, Array(value[StoredVersion.textByteCount...]))
        }
    }

    /// Returns the number of the timetable that an activity is in.
    public static func timetableNumber(ofActivityKey key: UnsafeRawBufferPointer) -> Int {
        // FNV-1a, because all processes must choose the same timetable. Swift's `Hasher` has another seed in each
        // process.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in key { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return Int((hash ^ hash >> 32) % UInt64(timetableCount))
    }

    /// The keys of all timetables by their numbers. They are made once, so that a lane's call allocates no key.
    static let timetableKeys = (0..<timetableCount).map(timetableKey)

    /// Returns the app and the activity that an activity's key names; nil if the bytes are not an activity's key.
    public static func subject(ofActivityKey key: [UInt8]) -> (app: [UInt8], activity: [UInt8])? {
        let markers = [UInt8(ascii: "="), ActivityKey.lowercaseUUIDMarker, ActivityKey.uppercaseUUIDMarker]
        // `=`, `#` or `$` is between the app and the activity's id. The first one counts, because an app's bundle id
        // has none of them, but an activity's id may have some.
        guard key.first == UInt8(ascii: "{"), key.last == UInt8(ascii: "}"),
            let markerIndex = key.firstIndex(where: markers.contains), markerIndex > 1, markerIndex < key.count - 2
        else { return nil }
        let app = Array(key[1..<markerIndex])
        return (app, ActivityKey.activity(ofKey: key, app: app))
    }
}
