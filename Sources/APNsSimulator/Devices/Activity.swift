/// What a phone made of a push that APNs accepted.
public enum PushEffect: UInt8, Sendable, CaseIterable {
    /// The Lock Screen shows its content.
    case shown
    /// The activity is over; its content, if it came with any that is not old, is what stays.
    case ended
    /// A new activity is on the Lock Screen.
    case started
    /// Its timestamp was below that of what is shown.
    case ignoredOld
    /// Its timestamp was more than 8 h ahead.
    case ignoredFuture
    /// The activity had ended.
    case ignoredAfterEnd
    /// Content state or attributes did not decode to the app's types.
    case undecodable
    /// The body is no push for a Live Activity.
    case malformed
    /// A start without a complete alert.
    case incompleteAlert
    /// A start on an update token, or anything else on a push-to-start token.
    case wrongToken
    /// A start for another attributes type than the token's.
    case wrongAttributesType
    /// Over the phone's budget.
    case overBudget
    /// Accepted on a token that leads nowhere.
    case intoTheVoid
    /// A start on a channel that is not registered.
    case unknownChannel
    /// The phone was off line, and APNs does not keep the push for it.
    case missed
}

/// How many pushes had which effect.
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

/// Where an activity is in its life.
enum ActivityState: Equatable {
    /// On the Lock Screen, and updates are taken. To `ended` by a push with the event *end*, by the system after 8 h, or by
    /// the app; to `gone` by the person, or with the app.
    case active
    /// Frozen: nothing is applied any more. To `gone` when the dismissal date comes.
    case ended(atMilliseconds: Int64, dismissalMilliseconds: Int64)
    /// Off the Lock Screen. No way back.
    case gone(atMilliseconds: Int64)
}

/// How often APNs accepted pushes for an activity, the one that started it included.
struct PushPace {
    private(set) var priority5 = 0
    private(set) var priority10 = 0
    /// Between any two that followed each other; nil before the second.
    private(set) var leastDistanceMilliseconds: Int64?
    private var lastMilliseconds: Int64?

    mutating func note(priority: UInt8, atMilliseconds: Int64) {
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
    /// Of the push: 5 or 10.
    public var priority: UInt8
    /// The push's timestamp, seconds.
    public var timestamp: Int64
    /// The `alert` object, JSON: title, body, sound.
    public var json: [UInt8]
}

/// One Live Activity on one phone.
struct Activity {
    /// Alerts kept of one activity; the count goes on.
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
    /// The channel that it began on.
    var channel: Int?
    /// The number of the channel's broadcast that it got last.
    var lastBroadcast = 0
    /// Broadcasts that have reached its phone.
    var broadcastsReceived = 0
    var effects = EffectCounts()
    var alerts: [Alert] = []
    var alertCount = 0
    /// Dates in content that lie more than 20 years ahead: UNIX seconds where seconds since 2001 belong.
    var suspiciousDates = 0
    /// Accepted with the timestamp of what was shown, so that the last to arrive won.
    var equalTimestamps = 0
    /// What is shown became older than it was. No phone does that: other than 0 is a defect of the simulator.
    var regressions = 0
    /// The last push that was dropped for what stood in it, in words.
    var lastProblem: String?
    var budget: BudgetBucket
    var pace = PushPace()

    /// The content state on the Lock Screen, JSON.
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

    /// Puts content on the Lock Screen; its memory is used again.
    mutating func show(_ contentState: UnsafeRawBufferPointer, timestamp: Int64, nowMilliseconds: Int64) {
        if timestamp < shownTimestamp { regressions += 1 }
        if timestamp == shownTimestamp { equalTimestamps += 1 }
        shown.removeAll(keepingCapacity: true)
        shown.append(contentsOf: contentState)
        shownTimestamp = timestamp
        shownAtMilliseconds = nowMilliseconds
    }

    /// Raises the timestamp of what is shown without new content, as a push without content does.
    mutating func touch(timestamp: Int64) {
        shownTimestamp = max(shownTimestamp, timestamp)
    }

    /// Ends it at a time, to leave the Lock Screen at the dismissal date, at once if that has passed, and after 4 h or at the
    /// age of 12 h in any case.
    mutating func end(atMilliseconds: Int64, dismissalMilliseconds: Int64?) {
        guard isActive else { return }
        let latest = min(
            atMilliseconds + DeviceRules.lingerMilliseconds,
            startedAtMilliseconds + DeviceRules.totalMilliseconds
        )
        let dismissal = min(dismissalMilliseconds ?? latest, latest)
        state =
            dismissal <= atMilliseconds
            ? .gone(atMilliseconds: atMilliseconds)
            : .ended(atMilliseconds: atMilliseconds, dismissalMilliseconds: dismissal)
    }

    /// Takes it off the Lock Screen.
    mutating func remove(atMilliseconds: Int64) {
        if case .gone = state { return }
        state = .gone(atMilliseconds: atMilliseconds)
    }

    /// What time alone does. True if the activity was active and is no more.
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

    /// When it ended, if it has: the token is no good from then on.
    var endedAtMilliseconds: Int64? {
        switch state {
        case .active: nil
        case .ended(let at, _), .gone(let at): at
        }
    }
}
