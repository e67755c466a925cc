/// What a descriptor is watched for, and what it was found to be.
public struct Interest: OptionSet, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// A read will not block: bytes, a connection to accept, or the end of the stream.
    public static let readable = Interest(rawValue: 1)
    /// A write will not block, or a connection attempt is over.
    public static let writable = Interest(rawValue: 2)
    /// An error or a hang-up on both directions. Reported whether asked for or not (EPOLLERR, EPOLLHUP), and reported
    /// again every turn until the descriptor is removed.
    public static let hangup = Interest(rawValue: 4)
}

/// Told of the readiness of a descriptor. The loop keeps it alive from `add` to `remove`.
public protocol DescriptorHandler: AnyObject {
    /// Readiness is level-triggered: what is not consumed now is reported again next turn. A call may be spurious when
    /// the interest was changed earlier in the same turn.
    func descriptorReady(_ events: Interest)
}

/// Told when a timer is due. The loop keeps it alive until the timer has fired or was cancelled.
public protocol TimerHandler: AnyObject {
    /// - Parameter tag: what was given to `schedule`, so that one object can serve many timers.
    func timerFired(tag: UInt64)
}

/// Told when a turn's events and timers are done: the place to send what the turn has collected.
public protocol TurnEndHandler: AnyObject {
    func turnEnded()
}
