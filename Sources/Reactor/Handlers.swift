/// Events of a descriptor: the events that the loop watches, or the events that happened.
public struct DescriptorEvents: OptionSet, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// A read will not block: there are bytes, a connection to accept, or the end of the stream.
    public static let readable = DescriptorEvents(rawValue: 1)
    /// A write will not block, or a connection attempt has ended.
    public static let writable = DescriptorEvents(rawValue: 2)
    /// The descriptor has an error, or both directions have ended (EPOLLERR, EPOLLHUP). The loop always watches for
    /// this event, and reports it in every iteration until the condition ends or the descriptor is removed.
    public static let hangup = DescriptorEvents(rawValue: 4)
}

/// Receives a descriptor's events. The loop keeps the handler alive from `add` to `remove`.
public protocol DescriptorHandler: AnyObject {
    /// The descriptor is ready. If input stays unread, the loop reports it again in the next iteration. `events` may
    /// contain an event that is no longer watched, if another handler has called `update` in the same iteration.
    func descriptorReady(_ events: DescriptorEvents)
}

/// Gets a call when a timer fires. The loop keeps the handler alive until the timer has fired or was cancelled.
public protocol TimerHandler: AnyObject {
    /// - Parameter tag: the tag that `schedule` got. It distinguishes the timers of one handler.
    func timerFired(tag: UInt64)
}

/// Gets a call at the end of an iteration, after the iteration's events and timers. A stream, for example, then sends
/// the output of the whole iteration.
public protocol IterationEndHandler: AnyObject {
    func iterationEnded()
}
