import CLinux
import Glibc

/// One thread's event loop: epoll (level-triggered), timers, and work at the end of a turn.
///
/// A turn waits for readiness, reads the clock, dispatches the events, fires the timers that are due, and then runs the
/// turn-end handlers, in which streams send what the turn has collected. Nothing is allocated per event.
///
/// A loop belongs to one thread at a time: every call, and every object on the loop, belongs to that thread. Other
/// threads reach it through a `Wakeup`.
public final class EventLoop {
    /// Descriptors at or above this number are refused (EMFILE).
    public static let descriptorsMax = 1 << 20
    /// Look-ups that run at once, each on a thread that a slow name server can hold for half a minute; see `resolve`.
    public static let lookUpsMax = 64
    /// Passes over newly registered turn-end handlers in one turn; see `atTurnEnd`.
    public static let turnEndPassesMax = 4
    /// More turn-end handlers than this in one turn means that a caller does not deduplicate.
    static let turnEndHandlersMax = 1 << 20
    /// Events taken from the kernel in one turn; more are taken the next turn.
    static let eventsPerTurnMax = 256
    /// Room for four TLS records: a stream reads up to this much before it calls its handler.
    static let readBufferBytes = 64 * 1024

    private struct Registration {
        var handler: (any DescriptorHandler)?
        /// Distinguishes the uses of a descriptor number over time, so that an event which was fetched for an earlier
        /// use is not given to a later one.
        var generation: UInt32
    }

    private static let ignoreBrokenPipe: Void = {
        // OpenSSL writes with write(2), which cannot be told to leave the signal out.
        _ = signal(SIGPIPE, SIG_IGN)
    }()

    private let epoll: Int32
    private let events: UnsafeMutablePointer<epoll_event>
    /// Shared by all streams of the loop, and valid only during one callback: reads never nest.
    let readBuffer: UnsafeMutableRawBufferPointer
    private var registrations: ContiguousArray<Registration> = []
    private var timers = TimerHeap()
    private var turnEndHandlers: ContiguousArray<any TurnEndHandler> = []
    private var turnEndHandlersRunning: ContiguousArray<any TurnEndHandler> = []
    private var resolver: Resolver?
    /// How names become addresses, of which no program but a test has another idea than the system.
    var lookUp: Resolver.LookUp = systemLookUp
    private var isStopping = false

    /// CLOCK_MONOTONIC, ms, read now: the clock of all loops, for other threads.
    public static var monotonicMilliseconds: Int64 { readNanoseconds(CLOCK_MONOTONIC) / 1_000_000 }

    /// CLOCK_MONOTONIC, ms, as read in this turn.
    public private(set) var nowMilliseconds: Int64 = 0
    /// The same reading in µs, for durations that are shorter than a millisecond.
    public private(set) var nowMicroseconds: Int64 = 0
    /// CLOCK_REALTIME, UNIX ms, as read in this turn.
    public private(set) var wallMilliseconds: Int64 = 0

    /// Ignores SIGPIPE for the whole process: a connection that the peer has closed is reported as an error of the
    /// stream.
    public init() throws(SystemError) {
        _ = EventLoop.ignoreBrokenPipe
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epoll >= 0 else { throw SystemError(code: errno, operation: "epoll_create1") }
        events = .allocate(capacity: EventLoop.eventsPerTurnMax)
        readBuffer = .allocate(byteCount: EventLoop.readBufferBytes, alignment: 64)
        refreshClock()
    }

    deinit {
        Glibc.close(epoll)
        events.deallocate()
        readBuffer.deallocate()
    }

    // MARK: - Running

    /// The least time from one turn of `run` to the next, 0 for none. An idle loop answers at once all the same; a busy one takes what
    /// has come meanwhile in one turn, which spares it most of its system calls and makes its writes larger.
    public var turnSpacingMicroseconds: Int64 = 0
    private var turnBeganNanoseconds: Int64 = 0

    /// Wall time that `run` has worked: from waking up to the turn's end. Counted for a loop with a turn spacing only, which reads the
    /// clock between its turns anyway.
    public private(set) var busyMicroseconds: Int64 = 0

    /// Turns until `stop`. A `stop` that came before makes it return at once.
    public func run() {
        while !isStopping {
            if turnSpacingMicroseconds > 0 { keepSpacing() }
            turn(waitMilliseconds: -1)
        }
        isStopping = false
    }

    private func keepSpacing() {
        let next = turnBeganNanoseconds + turnSpacingMicroseconds * 1_000
        let now = readNanoseconds(CLOCK_MONOTONIC)
        // Before the first turn there is nothing to count.
        if turnBeganNanoseconds > 0 { busyMicroseconds += (now - turnBeganNanoseconds) / 1_000 }
        guard now < next else { return }
        var deadline = timespec(tv_sec: Int(next / 1_000_000_000), tv_nsec: Int(next % 1_000_000_000))
        while clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nil) == EINTR {}
    }

    /// Makes `run` return after this turn. To be called on the loop's own thread.
    public func stop() {
        isStopping = true
    }

    /// One turn.
    ///
    /// - Parameter waitMilliseconds: the longest wait for an event, -1 for no limit. The wait is shorter if a timer is
    ///   due sooner, and there is none while turn-end handlers are left over from the last turn.
    public func turn(waitMilliseconds: Int32) {
        let wait = effectiveWait(waitMilliseconds)
        let count = epoll_wait(epoll, events, Int32(EventLoop.eventsPerTurnMax), wait)
        // EINTR is the only failure that an open epoll descriptor and a valid buffer leave; it is a turn without
        // events.
        precondition(count >= 0 || errno == EINTR, "epoll_wait failed")
        turnBeganNanoseconds = readNanoseconds(CLOCK_MONOTONIC)
        nowMicroseconds = turnBeganNanoseconds / 1_000
        nowMilliseconds = turnBeganNanoseconds / 1_000_000
        wallMilliseconds = readNanoseconds(CLOCK_REALTIME) / 1_000_000
        for index in 0..<max(0, Int(count)) {
            dispatch(events[index])
        }
        fireTimers()
        endTurn()
    }

    private func effectiveWait(_ waitMilliseconds: Int32) -> Int32 {
        guard waitMilliseconds != 0, turnEndHandlers.isEmpty else { return 0 }
        guard let deadline = timers.earliestDeadlineMilliseconds else { return waitMilliseconds }
        // The handlers of the last turn took time: sleeping by its clock would make every timer late by as much.
        refreshClock()
        guard deadline > nowMilliseconds else { return 0 }
        let untilTimer = Int32(clamping: deadline - nowMilliseconds)
        return waitMilliseconds < 0 ? untilTimer : min(untilTimer, waitMilliseconds)
    }

    private func dispatch(_ event: epoll_event) {
        let descriptor = Int(UInt32(truncatingIfNeeded: event.data.u64))
        let generation = UInt32(truncatingIfNeeded: event.data.u64 >> 32)
        precondition(descriptor < registrations.count, "an event for a descriptor that was never added")
        guard registrations[descriptor].generation == generation,
            let handler = registrations[descriptor].handler
        else { return }
        handler.descriptorReady(Interest(epoll: event.events))
    }

    private func fireTimers() {
        // A timer that is scheduled by a timer of this turn waits for the next turn, even when it is due at once.
        let now = nowMilliseconds
        let sequence = timers.nextSequence
        while let due = timers.popDue(at: now, scheduledBefore: sequence) {
            due.handler.timerFired(tag: due.tag)
        }
    }

    private func endTurn() {
        for _ in 0..<EventLoop.turnEndPassesMax {
            guard !turnEndHandlers.isEmpty else { return }
            swap(&turnEndHandlers, &turnEndHandlersRunning)
            for index in 0..<turnEndHandlersRunning.count {
                turnEndHandlersRunning[index].turnEnded()
            }
            turnEndHandlersRunning.removeAll(keepingCapacity: true)
        }
    }

    /// Releases every handler, so that what is still registered can be released when the loop will not turn again.
    func discardHandlers() {
        // Handlers come back to the loop when they go, so they go when no part of the loop is being changed.
        let discarded = (registrations, timers, turnEndHandlers, resolver)
        registrations = []
        timers = TimerHeap()
        turnEndHandlers = []
        resolver = nil
        withExtendedLifetime(discarded) {}
    }

    // MARK: - Clock

    /// Reads both clocks again, for a handler that has worked so long that the turn's reading is too old.
    public func refreshClock() {
        nowMicroseconds = readNanoseconds(CLOCK_MONOTONIC) / 1_000
        nowMilliseconds = nowMicroseconds / 1_000
        wallMilliseconds = readNanoseconds(CLOCK_REALTIME) / 1_000_000
    }

    // MARK: - Descriptors

    /// Watches a descriptor, which must stay open until `remove`. The handler is kept alive until then.
    public func add(descriptor: Int32, interest: Interest, handler: any DescriptorHandler) throws(SystemError) {
        guard descriptor >= 0 else { throw SystemError(code: EBADF, operation: "epoll_ctl add") }
        let index = Int(descriptor)
        guard index < EventLoop.descriptorsMax else { throw SystemError(code: EMFILE, operation: "epoll_ctl add") }
        while registrations.count <= index {
            registrations.append(Registration(handler: nil, generation: 0))
        }
        let generation = registrations[index].generation &+ 1
        var event = epoll_event(descriptor: descriptor, generation: generation, interest: interest)
        guard epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0 else {
            throw SystemError(code: errno, operation: "epoll_ctl add")
        }
        let replaced = registrations[index].handler
        registrations[index] = Registration(handler: handler, generation: generation)
        withExtendedLifetime(replaced) {}
    }

    /// Changes what an added descriptor is watched for.
    public func update(descriptor: Int32, interest: Interest) throws(SystemError) {
        guard let generation = generation(of: descriptor) else {
            throw SystemError(code: ENOENT, operation: "epoll_ctl update")
        }
        var event = epoll_event(descriptor: descriptor, generation: generation, interest: interest)
        guard epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, &event) == 0 else {
            throw SystemError(code: errno, operation: "epoll_ctl update")
        }
    }

    /// Stops watching a descriptor, before it is closed. Events for it that were fetched in this turn are dropped, also
    /// when its number is used and added again. Does nothing for a descriptor that was not added.
    public func remove(descriptor: Int32) {
        guard generation(of: descriptor) != nil else { return }
        var event = epoll_event()
        _ = epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, &event)
        // The handler's `deinit` may come back to this table, so it must not run while the table is being changed.
        let removed = registrations[Int(descriptor)].handler
        registrations[Int(descriptor)].handler = nil
        registrations[Int(descriptor)].generation &+= 1
        withExtendedLifetime(removed) {}
    }

    private func generation(of descriptor: Int32) -> UInt32? {
        guard descriptor >= 0, Int(descriptor) < registrations.count, registrations[Int(descriptor)].handler != nil
        else {
            return nil
        }
        return registrations[Int(descriptor)].generation
    }

    // MARK: - Timers

    /// Fires once, `afterMilliseconds` from this turn's clock, and never early by the loop's clock.
    ///
    /// Timers fire in the order of their deadlines, equal deadlines in the order of their scheduling. A timer set by
    /// another timer fires in a later turn at the earliest.
    ///
    /// - Parameter afterMilliseconds: 0 or less: as soon as possible, but never inside this call.
    public func schedule(afterMilliseconds: Int64, handler: any TimerHandler, tag: UInt64) -> TimerIdentifier {
        let (deadline, overflow) = nowMilliseconds.addingReportingOverflow(max(0, afterMilliseconds))
        return timers.insert(deadlineMilliseconds: overflow ? .max : deadline, handler: handler, tag: tag)
    }

    /// Idempotent; does nothing for a timer that has fired.
    public func cancel(_ timer: TimerIdentifier) {
        let cancelled = timers.remove(timer)
        withExtendedLifetime(cancelled) {}
    }

    /// Timers that wait.
    public var timerCount: Int { timers.count }

    // MARK: - Turn end

    /// Calls the handler once, at the end of this turn. Deduplication is the caller's duty.
    ///
    /// What is registered by a turn-end handler runs in the same turn, in a further pass; after `turnEndPassesMax`
    /// passes the rest runs at the end of the next turn, which then does not wait for events.
    public func atTurnEnd(_ handler: any TurnEndHandler) {
        precondition(turnEndHandlers.count < EventLoop.turnEndHandlersMax, "turn-end handlers are not deduplicated")
        turnEndHandlers.append(handler)
    }

    // MARK: - Names

    /// Looks a host up afresh, off this thread, and calls back on the loop, never inside this call.
    ///
    /// Numeric hosts need no look-up. At most `lookUpsMax` look-ups run at once; one more fails at once with
    /// a retriable error.
    ///
    /// - Parameter completion: at least one address, in the order of RFC 6724, or the error. Not called if the loop is
    ///   released first.
    public func resolve(
        host: String,
        port: UInt16,
        completion: @escaping (Result<[SocketAddress], ResolveError>) -> Void
    ) {
        if let resolver {
            resolver.resolve(host: host, port: port, completion: completion)
            return
        }
        do throws(SystemError) {
            let resolver = try Resolver(loop: self, lookUp: lookUp)
            self.resolver = resolver
            resolver.resolve(host: host, port: port, completion: completion)
        } catch {
            atTurnEnd(FailedResolution(error: ResolveError(systemError: error), completion: completion))
        }
    }
}

private func readNanoseconds(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

extension epoll_event {
    fileprivate init(descriptor: Int32, generation: UInt32, interest: Interest) {
        var flags: UInt32 = 0
        if interest.contains(.readable) { flags |= EPOLLIN.rawValue }
        if interest.contains(.writable) { flags |= EPOLLOUT.rawValue }
        let identity = UInt64(generation) << 32 | UInt64(UInt32(bitPattern: descriptor))
        self.init(events: flags, data: epoll_data_t(u64: identity))
    }
}

extension Interest {
    fileprivate init(epoll flags: UInt32) {
        var interest: Interest = []
        if flags & EPOLLIN.rawValue != 0 { interest.insert(.readable) }
        if flags & EPOLLOUT.rawValue != 0 { interest.insert(.writable) }
        if flags & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { interest.insert(.hangup) }
        self = interest
    }
}
