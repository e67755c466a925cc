/// How many commands of one batch belong to the same activity. Only the newest of them is sent.
enum Workload: String, CaseIterable {
    /// Each command is sent.
    case spread
    /// Every second command is replaced by a newer state before it is sent.
    case paired
    /// A backlog: nine of ten commands are replaced.
    case backlog

    var commandsPerActivity: Int {
        switch self {
        case .spread: 1
        case .paired: 2
        case .backlog: 10
        }
    }
}

/// Update commands of many activities, as a producer of scores would write them: about 400 bytes each. They are prepared in memory. A new
/// timestamp makes a new command.
struct Feed: ~Copyable {
    static let firstTimestamp: Int64 = 1_790_000_000
    static let app = Array("com.example.scores".utf8)

    let activities: Int
    private let recordBytes: Int
    private let timestampOffset: Int
    private let records: UnsafeMutableRawBufferPointer

    init(activities: Int) {
        precondition((1...999_999).contains(activities), "an activity's number has six digits")
        self.activities = activities
        let first = Self.record(of: 0)
        recordBytes = first.count
        let digits = Array("\(Self.firstTimestamp)".utf8)
        let place = first.indices.first { first[$0...].starts(with: digits) }
        guard let place else { preconditionFailure("the record has a timestamp") }
        timestampOffset = place
        records = .allocate(byteCount: recordBytes * activities, alignment: 16)
        for activity in 0..<activities {
            let record = Self.record(of: activity)
            precondition(record.count == recordBytes, "all records have one size")
            UnsafeMutableRawBufferPointer(rebasing: records[activity * recordBytes..<(activity + 1) * recordBytes])
                .copyBytes(from: record)
        }
    }

    deinit { records.deallocate() }

    /// The command of an activity with a new timestamp. The bytes are valid until the next call for the same activity.
    func command(of activity: Int, timestamp: Int64) -> UnsafeRawBufferPointer {
        let record = UnsafeMutableRawBufferPointer(
            rebasing: records[activity * recordBytes..<(activity + 1) * recordBytes]
        )
        var rest = timestamp
        for place in stride(from: timestampOffset + 9, through: timestampOffset, by: -1) {
            record[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        return UnsafeRawBufferPointer(record)
    }

    private static func record(of activity: Int) -> [UInt8] {
        let number = String(repeating: "0", count: 6 - "\(activity)".count) + "\(activity)"
        let text = """
            {"app":"com.example.scores","activity":"match-2026-061:device-\(number)","id":"feed-7/000\(number)",\
            "sequence":42,"aps":{"timestamp":\(firstTimestamp),"event":"update","content-state":{"home":2,"away":1,\
            "period":"second half","minute":67,"startedAt":810748800,"last":{"kind":"goal","minute":66},\
            "scorers":["Olmo","Kane","Saka"]},"stale-date":1790000600,"relevance-score":80},"payload":{"match":"m-61"}}
            """
        return Array(text.utf8)
    }
}
