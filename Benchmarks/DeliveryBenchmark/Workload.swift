/// How many commands of one batch belong to the same activity. Only the newest of them is sent.
enum Workload: String, CaseIterable {
    /// Each command is sent.
    case spread
    /// Every second command is replaced by a newer state before it is sent.
    case paired
    /// A backlog: nine of ten commands are replaced.
    case backlog
    /// As `spread`, and the app has shapes. One state goes to many activities.
    case shaped
    /// As `spread`, but each command has a new state.
    case changing
    /// As `changing`, and the app has shapes. Each state has the form of the last one, so only what changes is compared with them.
    case changingShaped = "changing-shaped"

    /// As `spread`, but 98 states come in turn, none in the form of one of the last states.
    case alternating
    /// As `alternating`, and the app has shapes. Each state was compared with them before.
    case alternatingShaped = "alternating-shaped"
    /// As `alternating`, but each command has a new state.
    case unlike
    /// As `unlike`, and the app has shapes, so that each state is compared with them as a whole.
    case unlikeShaped = "unlike-shaped"

    var isShaped: Bool { rawValue.hasSuffix("shaped") }
    var isChanging: Bool {
        switch self {
        case .changing, .changingShaped, .unlike, .unlikeShaped: true
        case .spread, .paired, .backlog, .shaped, .alternating, .alternatingShaped: false
        }
    }
    /// How many states follow one another, each with other values and another order of its keys.
    var states: Int {
        switch self {
        case .alternating, .alternatingShaped, .unlike, .unlikeShaped: 98
        case .spread, .paired, .backlog, .shaped, .changing, .changingShaped: 1
        }
    }

    var commandsPerActivity: Int {
        switch self {
        case .spread, .shaped, .changing, .changingShaped, .alternating, .alternatingShaped, .unlike, .unlikeShaped: 1
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
    /// Where a number of each state begins, which is new in each command; empty: all states stay the same.
    private let changingOffsets: [Int]
    private var states = Self.firstState
    private static let firstState: Int64 = 810_748_800
    private let records: UnsafeMutableRawBufferPointer

    /// - Parameters:
    ///   - states: the number of states that the activities have in turn.
    ///   - isChanging: whether each command has a new state.
    init(activities: Int, states: Int, isChanging: Bool) {
        precondition((1...999_999).contains(activities), "an activity's number has six digits")
        self.activities = activities
        let first = Self.record(of: 0, state: 0)
        recordBytes = first.count
        timestampOffset = Self.place(of: Self.firstTimestamp, in: first)
        changingOffsets =
            isChanging
            ? (0..<states).map { Self.place(of: Self.firstState, in: Self.record(of: 0, state: $0)) } : []
        records = .allocate(byteCount: recordBytes * activities, alignment: 16)
        for activity in 0..<activities {
            let record = Self.record(of: activity, state: activity % states)
            precondition(record.count == recordBytes, "all records have one size")
            UnsafeMutableRawBufferPointer(rebasing: records[activity * recordBytes..<(activity + 1) * recordBytes])
                .copyBytes(from: record)
        }
    }

    deinit { records.deallocate() }

    /// The command of an activity with a new timestamp. The bytes are valid until the next call for the same activity.
    mutating func command(of activity: Int, timestamp: Int64) -> UnsafeRawBufferPointer {
        let record = UnsafeMutableRawBufferPointer(
            rebasing: records[activity * recordBytes..<(activity + 1) * recordBytes]
        )
        Self.write(timestamp, digits: 10, to: record, at: timestampOffset)
        if !changingOffsets.isEmpty {
            states += 1
            Self.write(states, digits: 9, to: record, at: changingOffsets[activity % changingOffsets.count])
        }
        return UnsafeRawBufferPointer(record)
    }

    private static func write(
        _ number: Int64,
        digits: Int,
        to record: UnsafeMutableRawBufferPointer,
        at offset: Int
    ) {
        var rest = number
        for place in stride(from: offset + digits - 1, through: offset, by: -1) {
            record[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
    }

    private static func place(of number: Int64, in record: [UInt8]) -> Int {
        let digits = Array("\(number)".utf8)
        guard let place = record.indices.first(where: { record[$0...].starts(with: digits) }) else {
            preconditionFailure("the record has the number")
        }
        return place
    }

    /// What the app's phones can decode.
    static let shapes = Array(
        #"""
        {"app":"com.example.scores","attributesTypes":[{"name":"MatchAttributes","attributes":{"match":"string"},"contentState":{
          "home":"int","away":"int","period":"string","minute":"int","startedAt":"date",
          "last":{"optional":{"object":{"kind":{"enum":["goal","card"]},"minute":"int"}}},"scorers":{"array":"string"}}}]}
        """#
        .utf8
    )

    private static func record(of activity: Int, state: Int) -> [UInt8] {
        let number = String(repeating: "0", count: 6 - "\(activity)".count) + "\(activity)"
        let text = """
            {"app":"com.example.scores","activity":"match-2026-061:device-\(number)","id":"feed-7/000\(number)",\
            "sequence":42,"aps":{"timestamp":\(firstTimestamp),"event":"update","content-state":{\(members(of: state))},\
            "stale-date":1790000600,"relevance-score":80},"payload":{"match":"m-61"}}
            """
        return Array(text.utf8)
    }

    /// The members of a state: seven orders, one after the other. All states have one size.
    private static func members(of state: Int) -> String {
        let members = [
            "\"home\":\((state / 10 + 2) % 10)", "\"away\":\((state + 1) % 10)", #""period":"second half""#,
            #""minute":67"#,
            "\"startedAt\":\(firstState)", #""last":{"kind":"goal","minute":66}"#, #""scorers":["Olmo","Kane","Saka"]"#,
        ]
        let first = state % members.count
        return (members[first...] + members[..<first]).joined(separator: ",")
    }
}
