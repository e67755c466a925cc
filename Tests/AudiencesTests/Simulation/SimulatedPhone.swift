import LiveActivity

/// A member: the state that its phone shows, and the alerts that it has heard.
struct SimulatedPhone {
    let identifier: String
    let place: MemberPlace
    var environment: DeviceEnvironment
    var frequentUpdates: Bool
    /// A device that is a member for starts, instead of an activity.
    var isDevice = false
    var token: String
    /// When its token was registered.
    var registeredAt: Int64
    /// Whether it has been a member since before the first command.
    var isThroughout = true
    var hasLeft = false
    /// When its leave was acknowledged.
    var leftAcknowledgedMilliseconds = Int64.max
    /// It was shown a state when it joined, and this state may have overtaken a round's state.
    var wasServed = false
    var isDead = false
    /// The phone may have heard a push without an answer, or its token was limited: its alerts are not counted.
    var isUncertain = false

    var shownTimestamp: Int64 = 0
    var shownContent = -1
    /// How often an older state came, with an older timestamp.
    var timesBack = 0
    /// The states that came with an older timestamp than the shown state's.
    var ignored: Set<Int> = []
    var pushes = 0
    /// By command: how often its alert was heard.
    var heard: [Int: Int] = [:]
    /// For a device, by command: how often its start was handed on.
    var starts: [Int: Int] = [:]
    /// By command: the workers that have sent it.
    var sentBy: [Int: Set<Int>] = [:]

    mutating func receive(timestamp: Int64, content: Int, alert: Int?) {
        pushes += 1
        if let alert { heard[alert, default: 0] += 1 }
        if timestamp < shownTimestamp {
            if content < shownContent { timesBack += 1 }
            ignored.insert(content)
            return
        }
        shownTimestamp = timestamp
        shownContent = content
    }
}

/// Ids of members for each segment, found by trying numbers.
enum SimulatedNames {
    static let perSegment = 80
    static let segments = 4

    static let names: [[String]] = {
        var names: [[String]] = Array(repeating: [], count: segments)
        var number = 0
        while names.contains(where: { $0.count < perSegment }) {
            let name = "member-\(number)"
            number += 1
            let segment = Int(place(of: name).segment)
            if segment < segments, names[segment].count < perSegment { names[segment].append(name) }
        }
        return names
    }()

    /// The same with long ids, so that a segment has several pages.
    static let longNames: [[String]] = {
        var names: [[String]] = Array(repeating: [], count: segments)
        let padding = String(repeating: "x", count: 190)
        var number = 0
        while names.contains(where: { $0.count < perSegment }) {
            let name = "\(padding)-\(number)"
            number += 1
            let segment = Int(place(of: name).segment)
            if segment < segments, names[segment].count < perSegment { names[segment].append(name) }
        }
        return names
    }()

    static func place(of name: String) -> MemberPlace {
        var name = name
        return name.withUTF8 { MemberPlace(of: UnsafeRawBufferPointer($0)) }
    }
}
