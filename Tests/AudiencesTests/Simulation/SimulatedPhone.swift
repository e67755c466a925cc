import LiveActivity

/// A member of the audience: the state that its phone shows, and the alerts that have rung.
struct SimulatedPhone {
    let identifier: String
    let location: MemberLocation
    var environment: APNsEnvironment
    var allowsFrequentUpdates: Bool
    /// Whether the member is a device, which gets starts only.
    var isDevice = false
    var token: String
    /// When the phone registered the token, in UNIX milliseconds.
    var registeredAtMilliseconds: Int64
    /// Whether the phone has been a member since before the first command, with the same token.
    var wasMemberThroughout = true
    var hasLeft = false
    /// When the core reported the member's leave as done, in virtual milliseconds.
    var leaveAcknowledgedAtMilliseconds = Int64.max
    /// Whether the member got a state when it joined. This state may be newer than the state of a round that
    /// reaches the member later.
    var hasGotStateOnJoin = false
    var isTokenDead = false
    /// Whether the phone may get a state or an alert twice, because a response to one of its pushes was lost or had the
    /// status 429.
    var mayHaveRepeats = false

    var shownTimestamp: Int64 = 0
    var shownContent = -1
    /// How many pushes brought a state that is older than the shown one and also has an older timestamp.
    var olderStateCount = 0
    /// States that the phone ignored, because they came with an older timestamp than the shown state.
    var ignoredContents: Set<Int> = []
    var pushCount = 0
    /// How many times each command's alert rang, by command.
    var alertCounts: [Int: Int] = [:]
    /// For a device: how many records the core produced to start its activity, by the number of the audience's start.
    var startCounts: [Int: Int] = [:]
    /// For each command: the numbers of the workers that sent it to this phone.
    var senders: [Int: Set<Int>] = [:]

    mutating func receive(timestamp: Int64, content: Int, alert: Int?) {
        pushCount += 1
        if let alert { alertCounts[alert, default: 0] += 1 }
        if timestamp < shownTimestamp {
            if content < shownContent { olderStateCount += 1 }
            ignoredContents.insert(content)
            return
        }
        shownTimestamp = timestamp
        shownContent = content
    }
}

/// Ids of members for the first segments. An id's hash decides its segment, so the ids are found by trying numbers.
enum SimulatedNames {
    static let namesPerSegment = 80
    static let segmentCount = 4

    static let names: [[String]] = {
        var names: [[String]] = Array(repeating: [], count: segmentCount)
        var number = 0
        while names.contains(where: { $0.count < namesPerSegment }) {
            let name = "member-\(number)"
            number += 1
            let segment = Int(location(of: name).segment)
            if segment < segmentCount, names[segment].count < namesPerSegment { names[segment].append(name) }
        }
        return names
    }()

    /// Long ids, with which the members of a segment fill several pages.
    static let longNames: [[String]] = {
        var names: [[String]] = Array(repeating: [], count: segmentCount)
        let padding = String(repeating: "x", count: 190)
        var number = 0
        while names.contains(where: { $0.count < namesPerSegment }) {
            let name = "\(padding)-\(number)"
            number += 1
            let segment = Int(location(of: name).segment)
            if segment < segmentCount, names[segment].count < namesPerSegment { names[segment].append(name) }
        }
        return names
    }()

    static func location(of name: String) -> MemberLocation {
        var name = name
        return name.withUTF8 { MemberLocation(of: UnsafeRawBufferPointer($0)) }
    }
}
