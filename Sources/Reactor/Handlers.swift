/// The events that a descriptor is watched for, or the events that happened.
public struct Interest: OptionSet, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// A read will not block: there are bytes, a connection to accept, or the end of the stream.
    public static let readable = Interest(rawValue: 1)
    /// A write will not block, or a connection attempt has ended.
    public static let writable = Interest(rawValue: 2)
    /// An error or a hang-up in both directions (EPOLLERR, EPOLLHUP). Reported even if not requested, in
    /// every turn until the descriptor is removed.
    public static let hangup = Interest(rawValue: 4)
}

/// Receives a descriptor's events. The loop keeps the handler alive from `add` to `remove`.
public protocol DescriptorHandler: AnyObject {
    /// Readiness is level-triggered: unread input is reported again in the next turn. A call may be spurious
    /// if the interest was changed earlier in the same turn.
    func descriptorReady(_ events: Interest)
}

/// Receives the firing of a timer. The loop keeps the handler alive until the timer has fired or was
/// cancelled.
public protocol TimerHandler: AnyObject {
    /// - Parameter tag: the tag given to `schedule`, so that one object can have many timers.
    func timerFired(tag: UInt64)
}

/// Receives the end of a turn, after the turn's events and timers: the place to send the turn's output.
public protocol TurnEndHandler: AnyObject {
    func turnEnded()
}
