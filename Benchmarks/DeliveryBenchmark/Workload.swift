import Foundation

/// The commands of a batch: how many belong to the same activity, and how their states differ. Only the newest command
/// of an activity is sent.
enum Workload: String, CaseIterable {
    /// One command for each activity, so each command is sent.
    case spread
    /// Every second command is replaced by a newer state before it is sent.
    case paired
    /// A backlog: nine of ten commands are replaced.
    case backlog
    /// Each command is sent. All activities get the same state, and the app has shapes. The state is compared with the
    /// shapes only once.
    case shaped
    /// Each command is sent and has a new state.
    case changing
    /// Each command is sent and has a new state, and the app has shapes. Only one number differs from the previous
    /// state, so only the changed part is compared with the shapes.
    case changingShaped = "changing-shaped"

    /// Each command is sent. 98 states take turns. The keys of each have another order than in the six states
    /// before it.
    case alternating
    /// Each command is sent. 98 states take turns, and the app has shapes. Each state is compared with the shapes only
    /// the first time, because the core remembers that the state fits.
    case alternatingShaped = "alternating-shaped"
    /// Each command is sent and has a new state. Its keys have another order than in the six states before it.
    case unlike
    /// Each command is sent and has a new state, and the app has shapes. The keys have another order than in the six
    /// states before it. The core remembers the templates of only four states, so it compares each whole state with the
    /// shapes.
    case unlikeShaped = "unlike-shaped"
    /// Each command is sent. The states are those after each of 120 balls of a cricket match, in order.
    case innings
    /// Each command is sent. The states are those after each of 120 balls of a cricket match, in order, and the app has
    /// shapes.
    case inningsShaped = "innings-shaped"

    var hasShapes: Bool { rawValue.hasSuffix("shaped") }
    var hasChangingStates: Bool {
        switch self {
        case .changing, .changingShaped, .unlike, .unlikeShaped: true
        case .spread, .paired, .backlog, .shaped, .alternating, .alternatingShaped, .innings, .inningsShaped: false
        }
    }
    /// The content states that the commands have in turn.
    var states: [String] {
        switch self {
        case .innings, .inningsShaped: CommandFeed.inningsStates
        // Each state has other values than the one before it, and its keys have another order.
        case .alternating, .alternatingShaped, .unlike, .unlikeShaped: (0..<98).map(CommandFeed.makeState)
        case .spread, .paired, .backlog, .shaped, .changing, .changingShaped: [CommandFeed.makeState(0)]
        }
    }

    var commandsPerActivity: Int {
        switch self {
        case .spread, .shaped, .changing, .changingShaped, .alternating, .alternatingShaped, .unlike, .unlikeShaped,
            .innings, .inningsShaped:
            1
        case .paired: 2
        case .backlog: 10
        }
    }
}

/// Update commands of many activities, as a producer of scores would write them: about 400 bytes each, or 600 with the
/// states of a cricket match. The commands are prepared in memory, and a new timestamp turns a prepared command into a
/// new one.
struct CommandFeed: ~Copyable {
    static let firstTimestamp: Int64 = 1_790_000_000
    static let app = Array("com.example.scores".utf8)

    let activityCount: Int
    /// The offset at which each activity's record begins, and the end of the last record.
    private let recordOffsets: [Int]
    private let timestampOffset: Int
    /// For each state: the offset of a number in the records with this state. Each command gets another number there.
    /// If this array is empty, the commands have the prepared states unchanged.
    private let changingNumberOffsets: [Int]
    private var lastChangingNumber = Self.firstChangingNumber
    private static let firstChangingNumber: Int64 = 810_748_800
    private let records: UnsafeMutableRawBufferPointer

    /// - Parameters:
    ///   - states: the content states that the activities have in turn.
    ///   - hasChangingStates: whether each command has a new state.
    init(activityCount: Int, states: [String], hasChangingStates: Bool) {
        precondition((1...999_999).contains(activityCount), "an activity's number has six digits")
        self.activityCount = activityCount
        let samples = states.map { Self.makeRecord(of: 0, state: $0) }
        timestampOffset = Self.offset(of: Self.firstTimestamp, in: samples[0])
        changingNumberOffsets =
            hasChangingStates ? samples.map { Self.offset(of: Self.firstChangingNumber, in: $0) } : []
        var recordOffsets = [0]
        for activity in 0..<activityCount {
            recordOffsets.append(recordOffsets[activity] + samples[activity % states.count].count)
        }
        self.recordOffsets = recordOffsets
        records = .allocate(byteCount: recordOffsets[activityCount], alignment: 16)
        for activity in 0..<activityCount {
            UnsafeMutableRawBufferPointer(rebasing: records[recordOffsets[activity]..<recordOffsets[activity + 1]])
                .copyBytes(from: Self.makeRecord(of: activity, state: states[activity % states.count]))
        }
    }

    deinit { records.deallocate() }

    /// Returns the command of an activity with a new timestamp. The bytes are valid until the next call for the same
    /// activity.
    mutating func command(of activity: Int, timestamp: Int64) -> UnsafeRawBufferPointer {
        let record = UnsafeMutableRawBufferPointer(
            rebasing: records[recordOffsets[activity]..<recordOffsets[activity + 1]]
        )
        Self.write(timestamp, digits: 10, to: record, at: timestampOffset)
        if !changingNumberOffsets.isEmpty {
            lastChangingNumber += 1
            Self.write(
                lastChangingNumber,
                digits: 9,
                to: record,
                at: changingNumberOffsets[activity % changingNumberOffsets.count]
            )
        }
        return UnsafeRawBufferPointer(record)
    }

    private static func write(
        _ number: Int64,
        digits: Int,
        to record: UnsafeMutableRawBufferPointer,
        at offset: Int
    ) {
        var remainingNumber = number
        for position in stride(from: offset + digits - 1, through: offset, by: -1) {
            record[position] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: remainingNumber % 10)
            remainingNumber /= 10
        }
    }

    private static func offset(of number: Int64, in record: [UInt8]) -> Int {
        let digits = Array("\(number)".utf8)
        guard let offset = record.indices.first(where: { record[$0...].starts(with: digits) }) else {
            preconditionFailure("the record lacks the number")
        }
        return offset
    }

    /// The file of the app's shapes.
    static let shapes = Array(
        #"""
        {"app":"com.example.scores","attributesTypes":[
          {"name":"MatchAttributes","attributes":{"match":"string"},"contentState":{
            "home":"int","away":"int","period":"string","minute":"int","startedAt":"date",
            "last":{"optional":{"object":{"kind":{"enum":["goal","card"]},"minute":"int"}}},"scorers":{"array":"string"}}},
          {"name":"InningsAttributes","attributes":{},"contentState":{
            "phase":{"enum":["upcoming","live","inningsBreak","finished"]},"innings":"int","batting":"string","bowling":"string",
            "runs":"int","wickets":"int","overs":"string","runRate":"double",
            "striker":{"optional":{"object":{"name":"string","runs":"int","balls":"int"}}},
            "nonStriker":{"optional":{"object":{"name":"string","runs":"int","balls":"int"}}},
            "bowler":{"optional":{"object":{"name":"string","wickets":"int","runs":"int"}}},
            "thisOver":"string","lastBall":"string","firstInnings":"string?","target":"int?","runsNeeded":"int?",
            "ballsLeft":"int?","requiredRate":"double?","result":"string?"}}]}
        """#
        .utf8
    )

    private static func makeRecord(of activity: Int, state: String) -> [UInt8] {
        let number = String(repeating: "0", count: 6 - "\(activity)".count) + "\(activity)"
        let text = """
            {"app":"com.example.scores","activity":"match-2026-061:device-\(number)","id":"feed-7/000\(number)",\
            "sequence":42,"aps":{"timestamp":\(firstTimestamp),"event":"update","content-state":\(state),\
            "stale-date":1790000600,"relevance-score":80},"payload":{"match":"m-61"}}
            """
        return Array(text.utf8)
    }

    /// Returns a state with its fields in one of seven orders. All these states have the same size.
    static func makeState(_ number: Int) -> String {
        let members = [
            "\"home\":\((number / 10 + 2) % 10)", "\"away\":\((number + 1) % 10)", #""period":"second half""#,
            #""minute":67"#,
            "\"startedAt\":\(firstChangingNumber)", #""last":{"kind":"goal","minute":66}"#,
            #""scorers":["Olmo","Kane","Saka"]"#,
        ]
        let firstMember = number % members.count
        return "{\((members[firstMember...] + members[..<firstMember]).joined(separator: ","))}"
    }

    /// The states after balls 61 to 180 of match 1136597 in `Config/examples/season`, with parts of both innings: about
    /// 350 bytes each. `causeway-lab demo` plays this season.
    static let inningsStates: [String] = {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("innings.jsonl")
        guard let text = try? String(contentsOf: file, encoding: .utf8) else {
            preconditionFailure("the benchmark has its states")
        }
        return text.split(separator: "\n").map(String.init)
    }()
}
