/// A record for the registrations topic. An app on a simulated phone posts the record to its server when the app gets a
/// token.
public struct RegistrationRecord: Sendable, Equatable {
    /// The record's key: the id of the activity, or the id of the device, a slash and the attributes type.
    public var key: String
    /// The record's value, as JSON.
    public var value: [UInt8]

    public init(key: String, value: [UInt8]) {
        self.key = key
        self.value = value
    }
}

/// Registrations in the order in which apps posted them. A reader keeps a cursor: the number of records that it has
/// seen.
struct RegistrationLog {
    /// The maximum number of records. A full log drops the older half of the records at once, because each drop moves
    /// all other records in memory.
    static let recordsMax = 2_000_000

    private var records: [RegistrationRecord] = []
    private var droppedCount = 0

    /// The number of records that were ever posted.
    var postedCount: Int { droppedCount + records.count }

    mutating func append(_ record: RegistrationRecord) {
        if records.count == Self.recordsMax {
            records.removeFirst(Self.recordsMax / 2)
            droppedCount += Self.recordsMax / 2
        }
        records.append(record)
    }

    /// Returns at most `limit` records from a cursor on. Returns nil if some of them were dropped, or if the
    /// cursor is higher than the number of records that were ever posted.
    func records(since cursor: Int, limit: Int) -> ArraySlice<RegistrationRecord>? {
        guard cursor >= droppedCount, cursor <= postedCount, limit >= 0 else { return nil }
        return records[(cursor - droppedCount)...].prefix(limit)
    }
}
