import LiveActivity

/// The push of a command to an activity, and APNs' response.
struct RecordPush: BitwiseCopyable {
    /// What the admission decided about the push's priority and the budget; nil until the admission.
    var priorityDecision: PriorityDecision?
    /// How often a push of the command was attempted, at most 255. Attempts from before a deferral count too.
    var attemptCount: UInt8 = 0
    /// The HTTP status of APNs' last response; nil: no attempt has ended yet, or the last one had no response.
    var httpStatus: UInt16?
    /// The number of the connection of this lane's last attempt, which the next attempt avoids; 0: there was none. (No
    /// connection has the number 0, and an optional would make each record's slot larger.)
    var avoidedConnectionNumber: UInt32 = 0
    /// The `aps.timestamp` that Redis chose; no meaning before Redis has allowed the push.
    var sentTimestamp: Int64 = 0
    /// The `apns-expiration`, UNIX seconds: the command's own, or one from its stale date or its policy. No meaning
    /// before this lane sends the push.
    var sentExpirationSeconds: Int64 = 0
    /// The UUID in the push's header `apns-id`; no meaning before Redis has allowed the push.
    var apnsId: (UInt64, UInt64) = (0, 0)
    /// How Redis must retire the token; `none` until APNs refuses the token.
    var tokenRetirementRule = TokenRetirementRule.none
}

/// What the admission decided about a push: its priority, and what is left of the budget after the push.
struct PriorityDecision: BitwiseCopyable {
    /// How many more pushes of priority 10 the budget allows after this push; nil: the budget was not used.
    var budgetLeft: Int32?
    /// The priority with which the push is sent: 5 or 10.
    var priority: UInt8
    /// Whether the command asked for priority 10 and the activity's budget allowed only 5.
    var isDemoted = false
}

/// How Redis must retire the token of the activity or device, after APNs has called the token dead or unknown.
enum TokenRetirementRule: BitwiseCopyable {
    case none
    /// APNs calls the token dead from this time on, UNIX milliseconds. Redis removes the token if it was registered
    /// before.
    case unlessRegisteredSince(wallMilliseconds: Int64)
    /// Redis removes the token, no matter when it was registered, because APNs named no time. The invalidation says
    /// that the token is dead since this time, UNIX milliseconds: when the lane handled APNs' response.
    case unconditional(handledAtWallMilliseconds: Int64)

    @inline(__always) var isNone: Bool { if case .none = self { true } else { false } }

    /// The time from which the token counts as dead, UNIX milliseconds. Traps in the case `none`.
    var invalidAtWallMilliseconds: Int64 {
        switch self {
        case .none: preconditionFailure("the token is not refused")
        case .unlessRegisteredSince(let milliseconds), .unconditional(let milliseconds): milliseconds
        }
    }
}
