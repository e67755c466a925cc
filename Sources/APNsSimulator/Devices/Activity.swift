/// The effect on a phone of a push that APNs accepted.
public enum PushEffect: UInt8, Sendable, CaseIterable {
    /// The Lock Screen shows its content.
    case shown
    /// The activity ended. If the push had content that was not old, that content stays on the Lock Screen.
    case ended
    /// A new activity is on the Lock Screen.
    case started
    /// Ignored: its timestamp was below that of the shown content.
    case ignoredOld
    /// Ignored: its timestamp was more than 8 h ahead.
    case ignoredFuture
    /// Ignored: the activity had ended.
    case ignoredAfterEnd
    /// Its content state or attributes could not be decoded to the app's types.
    case undecodable
    /// Its body is no Live Activity push.
    case malformed
    /// A start without a complete alert.
    case incompleteAlert
    /// A start on an update token, or another event on a push-to-start token.
    case wrongToken
    /// A start for another attributes type than the token's.
    case wrongAttributesType
    /// Dropped: over the phone's budget.
    case overBudget
    /// Accepted for a token that leads to no phone.
    case acceptedForDeadToken
    /// A start on a channel that is not registered.
    case unknownChannel
    /// The phone was offline, and APNs does not keep the push for it.
    case missed
}

/// The number of pushes with each effect.
public struct EffectCounts: Sendable, Equatable {
    private var counts: [Int]

    init() {
        counts = Array(repeating: 0, count: PushEffect.allCases.count)
    }

    public internal(set) subscript(effect: PushEffect) -> Int {
        get { counts[Int(effect.rawValue)] }
        set { counts[Int(effect.rawValue)] = newValue }
    }

    /// All pushes that APNs accepted.
    public var total: Int { counts.reduce(0, +) }
}

/// The states of an activity.
enum ActivityState: Equatable {
    /// On the Lock Screen, and takes updates. To `ended` by a push with the event `end`, by the system after 8 h, or by the app. To
    /// `gone` by the user, or with the app.
    case active
    /// Frozen: it takes no updates. To `gone` at the dismissal date.
    case ended(atMilliseconds: Int64, dismissalMilliseconds: Int64)
    /// Off the Lock Screen. The final state.
    case gone(atMilliseconds: Int64)
}

/// Counts the pushes that APNs accepted for an activity, including the one that started it.
struct PushPace {
    private(set) var priority5 = 0
    private(set) var priority10 = 0
    /// The least time between two successive pushes; nil before the second one.
    private(set) var leastDistanceMilliseconds: Int64?
    private var lastMilliseconds: Int64?
    /// 0 before the first push.
    private(set) var lastPriority: UInt8 = 0

    mutating func note(priority: UInt8, atMilliseconds: Int64) {
        lastPriority = priority
        if priority == 10 { priority10 += 1 } else { priority5 += 1 }
        if let lastMilliseconds {
            let distance = atMilliseconds - lastMilliseconds
            leastDistanceMilliseconds = min(leastDistanceMilliseconds ?? distance, distance)
        }
        lastMilliseconds = atMilliseconds
    }
}

/// A sound or a banner that a push caused.
public struct Alert: Sendable {
    /// UNIX milliseconds.
    public var atMilliseconds: Int64
    /// The priority of the push: 5 or 10.
    public var priority: UInt8
    /// The timestamp of the push, in seconds.
    public var timestamp: Int64
    /// The `alert` object as JSON: title, body, sound.
    public var json: [UInt8]
}

/// One Live Activity on one phone.
struct Activity {
    /// How many alerts of one activity are kept. Later alerts are only counted.
    static let alertsMax = 1_000

    let phone: Int
    let type: Int
    let identifier: String
    let attributes: [UInt8]
    let isStartedByPush: Bool
    let audiences: [String]
    let startedAtMilliseconds: Int64

    var state = ActivityState.active
    /// The update token in use; nil for an activity on a channel.
    var token: Int?
    /// The channel on which the activity began.
    var channel: Int?
    /// The number of the last broadcast of its channel that it got. An activity does not get broadcasts from before it subscribed.
    var lastBroadcast = 0
    /// Broadcasts that have reached its phone.
    var broadcastsReceived = 0
    var effects = EffectCounts()
    var alerts: [Alert] = []
    var alertCount = 0
    /// Alerts that this activity had already: the same title, body and sound.
    var repeatedAlerts = 0
    /// Dates in content that are more than 20 years ahead: probably UNIX seconds instead of seconds since 2001.
    var suspiciousDates = 0
    /// Pushes with the same timestamp as the shown content. The last one to arrive won.
    var equalTimestamps = 0
    /// How often the shown content became older. A phone never does that, so a number above 0 is a defect of the simulator.
    var regressions = 0
    /// Why the last push with faulty content was dropped, as text.
    var lastProblem: String?
    var budget: BudgetBucket
    var pace = PushPace()

    /// The content state on the Lock Screen, as JSON.
    private(set) var shown: [UInt8] = []
    /// UNIX seconds.
    private(set) var shownTimestamp: Int64
    private(set) var shownAtMilliseconds: Int64
    /// UNIX seconds.
    var staleDate: Int64?
    var relevanceScore: Double?

    init(
        phone: Int,
        type: Int,
        identifier: String,
        attributes: [UInt8],
        contentState: UnsafeRawBufferPointer,
        timestamp: Int64,
        isStartedByPush: Bool,
        audiences: [String],
        budget: BudgetBucket,
        nowMilliseconds: Int64
    ) {
        self.phone = phone
        self.type = type
        self.identifier = identifier
        self.attributes = attributes
        self.isStartedByPush = isStartedByPush
        self.audiences = audiences
        self.budget = budget
        startedAtMilliseconds = nowMilliseconds
        shownTimestamp = timestamp
        shownAtMilliseconds = nowMilliseconds
        shown.append(contentsOf: contentState)
    }

    var isActive: Bool { state == .active }

    /// Shows content on the Lock Screen. Reuses the memory of the previous content.
    mutating func show(_ contentState: UnsafeRawBufferPointer, timestamp: Int64, nowMilliseconds: Int64) {
        if timestamp < shownTimestamp { regressions += 1 }
        if timestamp == shownTimestamp { equalTimestamps += 1 }
        shown.removeAll(keepingCapacity: true)
        shown.append(contentsOf: contentState)
        shownTimestamp = timestamp
        shownAtMilliseconds = nowMilliseconds
    }

    /// Raises the timestamp of the shown content, for a push without content.
    mutating func touch(timestamp: Int64) {
        shownTimestamp = max(shownTimestamp, timestamp)
    }

    /// Ends the activity. It leaves the Lock Screen at the dismissal date, or at once if that has passed, but at the latest after 4 h or
    /// at an age of 12 h.
    mutating func end(atMilliseconds: Int64, dismissalMilliseconds: Int64?) {
        guard isActive else { return }
        let latest = min(
            atMilliseconds + DeviceRules.endedVisibleMilliseconds,
            startedAtMilliseconds + DeviceRules.totalMilliseconds
        )
        let dismissal = min(dismissalMilliseconds ?? latest, latest)
        state =
            dismissal <= atMilliseconds
            ? .gone(atMilliseconds: atMilliseconds)
            : .ended(atMilliseconds: atMilliseconds, dismissalMilliseconds: dismissal)
    }

    /// The last time that the same alert rang; nil if it has not.
    func ring(of alert: UnsafeRawBufferPointer) -> Alert? {
        alerts.last { earlier in earlier.json.withUnsafeBytes { isEqual($0, alert) } }
    }

    /// Takes the activity off the Lock Screen.
    mutating func remove(atMilliseconds: Int64) {
        if case .gone = state { return }
        state = .gone(atMilliseconds: atMilliseconds)
    }

    /// Applies the effect of time. Returns true if the activity was active and is not active any more.
    mutating func advance(to nowMilliseconds: Int64) -> Bool {
        var ended = false
        let limit = startedAtMilliseconds + DeviceRules.activeMilliseconds
        if isActive, nowMilliseconds >= limit {
            end(atMilliseconds: limit, dismissalMilliseconds: nil)
            ended = true
        }
        if case .ended(_, let dismissal) = state, nowMilliseconds >= dismissal {
            state = .gone(atMilliseconds: dismissal)
        }
        return ended
    }

    /// When the activity ended, if it has. Its token is invalid from then on.
    var endedAtMilliseconds: Int64? {
        switch state {
        case .active: nil
        case .ended(let at, _), .gone(let at): at
        }
    }
}
