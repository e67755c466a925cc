/// What an app on a simulated phone posts to its server when it has a token: a record for the registrations topic.
public struct RegistrationRecord: Sendable, Equatable {
    /// The record's key: the activity's id, or the device's.
    public var key: String
    /// The record's value, JSON.
    public var value: [UInt8]

    public init(key: String, value: [UInt8]) {
        self.key = key
        self.value = value
    }
}

/// Registrations in the order in which they happened. A reader keeps a cursor: the number of records it has seen.
struct RegistrationLog {
    /// Older ones are forgotten, half of them at a time.
    static let recordsMax = 2_000_000

    private var records: [RegistrationRecord] = []
    private var forgotten = 0

    /// All that were ever posted.
    var count: Int { forgotten + records.count }

    mutating func append(_ record: RegistrationRecord) {
        if records.count == Self.recordsMax {
            records.removeFirst(Self.recordsMax / 2)
            forgotten += Self.recordsMax / 2
        }
        records.append(record)
    }

    /// Records from a cursor on; nil if some of them are forgotten, or the cursor was never given out.
    func page(since cursor: Int, limit: Int) -> ArraySlice<RegistrationRecord>? {
        guard cursor >= forgotten, cursor <= count, limit >= 0 else { return nil }
        return records[(cursor - forgotten)...].prefix(limit)
    }
}
