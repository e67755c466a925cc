/// The effect on a phone of a push that APNs accepted.
public enum PushEffect: UInt8, Sendable, CaseIterable {
    /// The Lock Screen shows the push's content.
    case shown
    /// The push ended the activity. If the activity stays on the Lock Screen, it shows the push's content, unless the
    /// push has none, or the content shown before has a higher timestamp.
    case ended
    /// A new activity is on the Lock Screen.
    case started
    /// The phone ignored the push, because its timestamp was below that of the shown content.
    case ignoredOld
    /// The phone ignored the push, because its timestamp was more than 8 h ahead of the phone's clock.
    case ignoredFuture
    /// The phone ignored the push, because the activity had ended or was off the Lock Screen.
    case ignoredAfterEnd
    /// The push was an update without a content state, or a start without a content state or attributes. Or the app's
    /// declared types do not match the push's content state or attributes.
    case undecodable
    /// The push's body was not JSON, or lacked any of these: `aps`, a known event, a timestamp.
    case malformed
    /// The push was a start without a complete alert (`PushPayload.isCompleteAlert`).
    case incompleteAlert
    /// The push had the wrong address: a start came to an update token or a channel, or an update or an end came to a
    /// push-to-start token.
    case wrongToken
    /// The push was a start whose `attributes-type` is missing, or is not the type of its push-to-start token.
    case wrongAttributesType
    /// The phone dropped the push because a budget was used up: the activity's budget for pushes with priority 10, or
    /// the phone's budget for starts. Or the push was a start, and the simulator had no room for another activity.
    case overBudget
    /// APNs accepted the push, but no phone got it, because its token was replaced
    /// (``TokenTable/State/acceptedWithoutEffect``).
    case acceptedForDeadToken
    /// The push was a start whose `input-push-channel` is not the id of an open channel of the app.
    case unknownChannel
    /// The phone was offline when APNs accepted the push. A broadcast that its channel keeps may reach the phone later.
    /// Then it counts again, with its effect at that time.
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

    public var total: Int { counts.reduce(0, +) }
}

/// What a simulated phone shows of an activity.
enum SimulatedActivityState: Equatable {
    /// The activity is on the Lock Screen and takes updates. Next:
    /// - `ended` after an `end` push, or at an age of 8 h;
    /// - `gone` after an `end` push whose dismissal date has passed;
    /// - `gone` when the user dismisses the activity or removes its app.
    case active
    /// The activity is on the Lock Screen but takes no updates. Next: `gone` at the dismissal date, or earlier if the
    /// user dismisses the activity or removes its app.
    case ended(atMilliseconds: Int64, dismissalAtMilliseconds: Int64)
    /// The activity is off the Lock Screen. No state follows.
    case gone(atMilliseconds: Int64)
}

/// Counts the pushes to one activity, or the broadcasts on one channel, by priority. Also finds the shortest time
/// between two successive pushes or broadcasts.
///
/// Only pushes that APNs accepted count. The pushes to an activity are its start by push, the pushes to its tokens, and
/// the broadcasts that reached it. A broadcast with priority 1 counts as one with priority 5.
struct PushStatistics {
    private(set) var priority5PushCount = 0
    private(set) var priority10PushCount = 0
    /// The shortest time between two successive pushes; nil before the second push.
    private(set) var shortestGapMilliseconds: Int64?
    private var lastPushAtMilliseconds: Int64?
    /// The priority of the last push; 0 before the first push.
    private(set) var lastPushPriority: UInt8 = 0

    mutating func addPush(priority: UInt8, atMilliseconds: Int64) {
        lastPushPriority = priority
        if priority == 10 { priority10PushCount += 1 } else { priority5PushCount += 1 }
        if let lastPushAtMilliseconds {
            let gapMilliseconds = atMilliseconds - lastPushAtMilliseconds
            shortestGapMilliseconds = min(shortestGapMilliseconds ?? gapMilliseconds, gapMilliseconds)
        }
        lastPushAtMilliseconds = atMilliseconds
    }
}

/// A sound or a banner that a push caused.
public struct Alert: Sendable {
    /// When the alert rang, UNIX milliseconds.
    public var rangAtMilliseconds: Int64
    /// The priority of the push: 5 or 10; of a broadcast also 1.
    public var priority: UInt8
    /// The timestamp of the push, UNIX seconds.
    public var timestamp: Int64
    /// The `alert` object as JSON: title, body, sound.
    public var json: [UInt8]
}

/// One Live Activity on one phone.
struct Activity {
    /// The maximum number of alerts that one activity keeps (R4). Later alerts are only counted.
    static let keptAlertsMax = 1_000

    let installationIndex: Int
    let typeIndex: Int
    let identifier: String
    let attributes: [UInt8]
    let isStartedByPush: Bool
    let audiences: [String]
    let startedAtMilliseconds: Int64

    var state = SimulatedActivityState.active
    /// The index of the activity's newest update token in `DeviceModel.tokens`. The token may be invalid by now. Nil:
    /// the activity began on a channel, or the table of tokens was full.
    var tokenIndex: Int?
    /// The index in `DeviceModel.channels` of the channel on which the activity began; nil: it began without a channel.
    var channelIndex: Int?
    /// The number of the last broadcast that the activity got; at first, of the channel's last one when the activity
    /// began. Only broadcasts with a higher number reach the activity.
    var lastBroadcastNumber = 0
    /// How many broadcasts on its channel have reached the activity.
    var receivedBroadcastCount = 0
    var effects = EffectCounts()
    var alerts: [Alert] = []
    var alertCount = 0
    /// How many alerts had the same JSON text as an earlier alert of the activity (one of its `alerts`).
    var repeatedAlertCount = 0
    /// How many dates in the pushed content and attributes were more than 20 years in the future. Such a date is
    /// probably UNIX seconds instead of seconds since 2001.
    var suspiciousDateCount = 0
    /// How many pushes with content had the same timestamp as the shown content. The content of each such push replaced
    /// the shown content.
    var equalTimestampPushCount = 0
    /// How often older content replaced newer content. A real phone never shows older content, so a number above 0
    /// shows a defect of the simulator.
    var timestampRegressionCount = 0
    /// What was wrong with the last push whose effect was `malformed`, `undecodable` or `wrongToken`; nil: no push had
    /// such an effect.
    var lastProblem: String?
    var budget: BudgetBucket
    var pushStatistics = PushStatistics()

    /// The content state on the Lock Screen, as JSON.
    private(set) var shownContentState: [UInt8] = []
    /// The timestamp of the shown content, UNIX seconds. An end without content raises it to the end's timestamp. The
    /// phone ignores updates with a lower timestamp.
    private(set) var shownTimestamp: Int64
    /// Whether the app knows the version of the shown content, so that a registration can name it. False only if the
    /// app started the activity without a timestamp, and no push has brought content since.
    private(set) var isShownVersionKnown: Bool
    private(set) var shownAtMilliseconds: Int64
    /// When the shown content becomes stale, UNIX seconds; nil: never.
    var staleDateSeconds: Int64?
    var relevanceScore: Double?

    init(
        installationIndex: Int,
        typeIndex: Int,
        identifier: String,
        attributes: [UInt8],
        contentState: UnsafeRawBufferPointer,
        timestamp: Int64?,
        isStartedByPush: Bool,
        audiences: [String],
        budget: BudgetBucket,
        nowMilliseconds: Int64
    ) {
        self.installationIndex = installationIndex
        self.typeIndex = typeIndex
        self.identifier = identifier
        self.attributes = attributes
        self.isStartedByPush = isStartedByPush
        self.audiences = audiences
        self.budget = budget
        startedAtMilliseconds = nowMilliseconds
        shownTimestamp = timestamp ?? nowMilliseconds / 1_000
        isShownVersionKnown = timestamp != nil
        shownAtMilliseconds = nowMilliseconds
        shownContentState.append(contentsOf: contentState)
    }

    var isActive: Bool { state == .active }

    /// Shows content on the Lock Screen. Content with the timestamp of the content shown before counts in
    /// ``equalTimestampPushCount``, content with a lower one in ``timestampRegressionCount``.
    mutating func show(_ contentState: UnsafeRawBufferPointer, timestamp: Int64, nowMilliseconds: Int64) {
        if timestamp < shownTimestamp { timestampRegressionCount += 1 }
        if timestamp == shownTimestamp { equalTimestampPushCount += 1 }
        shownContentState.removeAll(keepingCapacity: true)
        shownContentState.append(contentsOf: contentState)
        shownTimestamp = timestamp
        isShownVersionKnown = true
        shownAtMilliseconds = nowMilliseconds
    }

    /// Raises ``shownTimestamp`` to the timestamp of an end without content. A lower timestamp changes nothing.
    mutating func raiseShownTimestamp(to timestamp: Int64) {
        shownTimestamp = max(shownTimestamp, timestamp)
    }

    /// Ends the activity; does nothing if the activity is not active. An ended activity stays on the Lock Screen until
    /// its dismissal date, but no longer than 4 h after its end and 12 h after its start. If this time is over already,
    /// the activity leaves at once.
    mutating func end(atMilliseconds: Int64, dismissalAtMilliseconds: Int64?) {
        guard isActive else { return }
        let latestRemovalAtMilliseconds = min(
            atMilliseconds + DeviceRules.endedVisibleMillisecondsMax,
            startedAtMilliseconds + DeviceRules.visibleMillisecondsMax
        )
        let removalAtMilliseconds = min(
            dismissalAtMilliseconds ?? latestRemovalAtMilliseconds,
            latestRemovalAtMilliseconds
        )
        state =
            removalAtMilliseconds <= atMilliseconds
            ? .gone(atMilliseconds: atMilliseconds)
            : .ended(atMilliseconds: atMilliseconds, dismissalAtMilliseconds: removalAtMilliseconds)
    }

    /// Returns the latest of the kept alerts that have this JSON text; nil if there is none.
    func latestAlert(equalTo alert: UnsafeRawBufferPointer) -> Alert? {
        alerts.last { earlier in earlier.json.withUnsafeBytes { isEqual($0, alert) } }
    }

    /// Takes the activity off the Lock Screen. Does nothing if the activity has left it already.
    mutating func remove(atMilliseconds: Int64) {
        if case .gone = state { return }
        state = .gone(atMilliseconds: atMilliseconds)
    }

    /// Ends the activity if its age has reached 8 h, and removes an ended activity whose time on the Lock Screen is
    /// over. Returns whether this call ended the activity.
    mutating func advance(to nowMilliseconds: Int64) -> Bool {
        var hasEnded = false
        let endDueMilliseconds = startedAtMilliseconds + DeviceRules.activeMillisecondsMax
        if isActive, nowMilliseconds >= endDueMilliseconds {
            end(atMilliseconds: endDueMilliseconds, dismissalAtMilliseconds: nil)
            hasEnded = true
        }
        if case .ended(_, let dismissalAtMilliseconds) = state, nowMilliseconds >= dismissalAtMilliseconds {
            state = .gone(atMilliseconds: dismissalAtMilliseconds)
        }
        return hasEnded
    }

    /// When the activity ended, or, if it has left the Lock Screen, when it left. UNIX milliseconds; nil if the
    /// activity is active.
    var endedOrRemovedAtMilliseconds: Int64? {
        switch state {
        case .active: nil
        case .ended(let atMilliseconds, _), .gone(let atMilliseconds): atMilliseconds
        }
    }
}
