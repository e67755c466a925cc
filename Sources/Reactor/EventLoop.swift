import CLinux
import Glibc

/// The event loop of one thread: epoll (level-triggered), timers, and work at the end of an iteration.
///
/// An iteration waits for events, reads the clock, dispatches the events, fires the timers that are due, and then runs
/// the iteration-end handlers. Streams send their output in these handlers. To dispatch an event to its handler, the
/// loop allocates no memory.
///
/// A loop, and every object on it, belongs to one thread at a time: all calls come from that thread. Other threads
/// reach the loop through a `Wakeup`.
public final class EventLoop {
    /// `add` refuses a descriptor with this number or a larger one (EMFILE). The limit bounds `registrations`, which
    /// has an element for each number up to the largest one.
    public static let descriptorsMax = 1 << 20
    /// The maximum number of look-ups of one loop that run at once, each on its own thread. The limit bounds the
    /// threads: a slow name server can block a thread for half a minute.
    public static let lookupsMax = 64
    /// The maximum number of passes over the iteration-end handlers in one iteration. A handler that is registered
    /// during a pass runs in the next pass. The limit ends the iteration even if handlers register again in every pass.
    public static let iterationEndPassesMax = 4
    /// The maximum number of iteration-end handlers that wait at one time. Only a defect reaches the limit: a caller
    /// that registers one handler many times.
    static let iterationEndHandlersMax = 1 << 20
    /// The maximum number of events that the loop takes from the kernel in one iteration. Further events wait for the
    /// next iteration.
    static let eventsPerIterationMax = 256
    /// The size of ``readBuffer``: room for four TLS records. A stream reads at most this many bytes before it calls
    /// its handler.
    static let readBufferBytes = 64 * 1024

    private struct Registration {
        var handler: (any DescriptorHandler)?
        /// Distinguishes a descriptor from earlier ones with the same number, because the system reuses the numbers of
        /// closed descriptors. Each `add` and each `remove` raises the generation. An event carries the generation of
        /// its `add`, so an old event does not reach a new handler.
        var generation: UInt32
    }

    private static let ignoreBrokenPipe: Void = {
        // A write to a closed connection would end the process by SIGPIPE. OpenSSL uses write(2), and only send(2) has
        // a flag against the signal (MSG_NOSIGNAL). So the process must ignore the signal.
        _ = signal(SIGPIPE, SIG_IGN)
    }()

    private let epollDescriptor: Int32
    private let eventBuffer: UnsafeMutablePointer<epoll_event>
    /// The buffer into which all streams of the loop read. So its content is valid only during the callback that gets
    /// it, and no stream reads inside a callback.
    let readBuffer: UnsafeMutableRawBufferPointer
    private var registrations: ContiguousArray<Registration> = []
    private var timers = TimerHeap()
    private var iterationEndHandlers: ContiguousArray<any IterationEndHandler> = []
    private var runningIterationEndHandlers: ContiguousArray<any IterationEndHandler> = []
    private var resolver: Resolver?
    /// Looks up host names. Only tests replace the function.
    var hostLookup: Resolver.HostLookup = lookUpWithSystem
    private var isStopping = false

    /// CLOCK_MONOTONIC in ms, read now. All loops use this clock, so other threads can compare times with a
    /// loop's times.
    public static var monotonicMilliseconds: Int64 { readNanoseconds(CLOCK_MONOTONIC) / 1_000_000 }

    /// CLOCK_MONOTONIC in ms, as read after the iteration's wait for events, or by a later `refreshClock`.
    public private(set) var nowMilliseconds: Int64 = 0
    /// CLOCK_MONOTONIC in µs, read together with `nowMilliseconds`. For durations shorter than a millisecond.
    public private(set) var nowMicroseconds: Int64 = 0
    /// The wall time by `wallClock`, in ms, read together with `nowMilliseconds`.
    public private(set) var wallMilliseconds: Int64 = 0
    /// The clock of `wallMilliseconds`. At first it is the system's clock; the loop's owner may set a clock that
    /// several loops share.
    public var wallClock = WallClock() {
        didSet { refreshClock() }
    }

    /// Creates a loop and ignores SIGPIPE for the whole process. A write to a connection that the peer has
    /// closed then fails with an error, and does not end the process.
    public init() throws(SystemError) {
        _ = EventLoop.ignoreBrokenPipe
        epollDescriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epollDescriptor >= 0 else { throw SystemError(code: errno, operation: "epoll_create1") }
        eventBuffer = .allocate(capacity: EventLoop.eventsPerIterationMax)
        readBuffer = .allocate(byteCount: EventLoop.readBufferBytes, alignment: 64)
        refreshClock()
    }

    deinit {
        Glibc.close(epollDescriptor)
        eventBuffer.deallocate()
        readBuffer.deallocate()
    }

    // MARK: - Running iterations

    /// The shortest time from one wake-up of `run` to the next; 0: no minimum. An idle loop still responds at once. A
    /// busy loop handles more events per iteration, so it needs fewer system calls: a worker in `make demo` then needs
    /// less than half of the CPU time (Measurements.md).
    public var iterationIntervalMicrosecondsMin: Int64 = 0
    private var iterationBeganAtNanoseconds: Int64 = 0

    /// How long `run` has worked: the sum of all ended iterations, each counted from its wake-up. Stays 0 if
    /// `iterationIntervalMicrosecondsMin` is 0, because `run` then does not read the clock at the end of an iteration.
    public private(set) var busyMicroseconds: Int64 = 0

    /// Runs iterations until `stop` is called. Returns at once if `stop` was called before.
    public func run() {
        while !isStopping {
            if iterationIntervalMicrosecondsMin > 0 { waitForIterationInterval() }
            runIteration(waitMilliseconds: -1)
        }
        isStopping = false
    }

    /// Adds the time of the last iteration to `busyMicroseconds`. Then sleeps until `iterationIntervalMicrosecondsMin`
    /// has passed since that iteration began.
    private func waitForIterationInterval() {
        let nextIterationAtNanoseconds = iterationBeganAtNanoseconds + iterationIntervalMicrosecondsMin * 1_000
        let nowNanoseconds = readNanoseconds(CLOCK_MONOTONIC)
        // `iterationBeganAtNanoseconds` is 0 before the first iteration. There is then no working time to add.
        if iterationBeganAtNanoseconds > 0 {
            busyMicroseconds += (nowNanoseconds - iterationBeganAtNanoseconds) / 1_000
        }
        guard nowNanoseconds < nextIterationAtNanoseconds else { return }
        var deadline = timespec(
            tv_sec: Int(nextIterationAtNanoseconds / 1_000_000_000),
            tv_nsec: Int(nextIterationAtNanoseconds % 1_000_000_000)
        )
        while clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nil) == EINTR {}
    }

    /// Makes `run` return after this iteration. Must be called on the loop's own thread.
    public func stop() {
        isStopping = true
    }

    /// Runs one iteration.
    ///
    /// - Parameter waitMilliseconds: the longest wait for an event, -1 for no limit. The wait ends earlier if a timer
    ///   is due or a signal interrupts it. There is no wait if iteration-end handlers are already registered.
    public func runIteration(waitMilliseconds: Int32) {
        var eventCount = fetchEvents(waitMilliseconds: effectiveWaitMilliseconds(waitMilliseconds))
        // If a signal has interrupted the wait, fetch the events before timers fire: after a long stop of the process
        // (SIGSTOP), the timer of a time limit may be due although the awaited input has arrived.
        if eventCount < 0 { eventCount = fetchEvents(waitMilliseconds: 0) }
        iterationBeganAtNanoseconds = readNanoseconds(CLOCK_MONOTONIC)
        nowMicroseconds = iterationBeganAtNanoseconds / 1_000
        nowMilliseconds = iterationBeganAtNanoseconds / 1_000_000
        wallMilliseconds = wallClock.wallMilliseconds
        for index in 0..<max(0, Int(eventCount)) {
            dispatch(eventBuffer[index])
        }
        fireTimers()
        runIterationEndHandlers()
    }

    /// Waits for events, and writes them to `eventBuffer`. Returns their number; -1: a signal has interrupted the wait.
    private func fetchEvents(waitMilliseconds: Int32) -> Int32 {
        let count = epoll_wait(
            epollDescriptor,
            eventBuffer,
            Int32(EventLoop.eventsPerIterationMax),
            waitMilliseconds
        )
        // The descriptor is open and the buffer is valid, so the only possible error is EINTR.
        precondition(count >= 0 || errno == EINTR, "epoll_wait failed")
        return count
    }

    /// Returns how long the iteration may wait: `waitMilliseconds`, or less if a timer is due earlier. 0 if
    /// iteration-end handlers are already registered.
    private func effectiveWaitMilliseconds(_ waitMilliseconds: Int32) -> Int32 {
        guard waitMilliseconds != 0, iterationEndHandlers.isEmpty else { return 0 }
        guard let deadlineMilliseconds = timers.earliestDeadlineMilliseconds else { return waitMilliseconds }
        // The loop's clock may still show the beginning of the last iteration. With this old time, the calculated wait
        // would be too long.
        refreshClock()
        guard deadlineMilliseconds > nowMilliseconds else { return 0 }
        let untilTimerMilliseconds = Int32(clamping: deadlineMilliseconds - nowMilliseconds)
        return waitMilliseconds < 0 ? untilTimerMilliseconds : min(untilTimerMilliseconds, waitMilliseconds)
    }

    /// Passes an event to its handler. Discards the event if its descriptor was removed in the meantime.
    private func dispatch(_ event: epoll_event) {
        let descriptor = Int(UInt32(truncatingIfNeeded: event.data.u64))
        let generation = UInt32(truncatingIfNeeded: event.data.u64 >> 32)
        precondition(descriptor < registrations.count, "an event for a descriptor that was never added")
        guard registrations[descriptor].generation == generation,
            let handler = registrations[descriptor].handler
        else { return }
        handler.descriptorReady(DescriptorEvents(epoll: event.events))
    }

    private func fireTimers() {
        // Fire no timer that is scheduled from now on, even if it is due at once. Otherwise a handler that always
        // schedules a timer would keep the iteration from ending.
        let currentMilliseconds = nowMilliseconds
        let firstNewSchedulingNumber = timers.nextSchedulingNumber
        while let timer = timers.popDue(at: currentMilliseconds, scheduledBefore: firstNewSchedulingNumber) {
            timer.handler.timerFired(tag: timer.tag)
        }
    }

    private func runIterationEndHandlers() {
        for _ in 0..<EventLoop.iterationEndPassesMax {
            guard !iterationEndHandlers.isEmpty else { return }
            swap(&iterationEndHandlers, &runningIterationEndHandlers)
            for index in 0..<runningIterationEndHandlers.count {
                runningIterationEndHandlers[index].iterationEnded()
            }
            runningIterationEndHandlers.removeAll(keepingCapacity: true)
        }
    }

    /// Releases every handler that is still registered. Called when the loop will run no more iterations.
    func releaseHandlers() {
        // A handler's `deinit` may call the loop. So first replace the loop's tables, then release the
        // handlers.
        let releasedTables = (registrations, timers, iterationEndHandlers, resolver)
        registrations = []
        timers = TimerHeap()
        iterationEndHandlers = []
        resolver = nil
        withExtendedLifetime(releasedTables) {}
    }

    // MARK: - The loop's clock

    /// Reads the monotonic and the wall clock again. Call this in a handler that has worked for long, because the
    /// loop's times are those of the iteration's start. Also call it in code that runs between two iterations.
    public func refreshClock() {
        nowMicroseconds = readNanoseconds(CLOCK_MONOTONIC) / 1_000
        nowMilliseconds = nowMicroseconds / 1_000
        wallMilliseconds = wallClock.wallMilliseconds
    }

    // MARK: - Watching descriptors

    /// Watches a descriptor, which must stay open until `remove`. The loop keeps the handler alive until
    /// `remove`, or until its `LoopThread` ends.
    public func add(descriptor: Int32, interest: DescriptorEvents, handler: any DescriptorHandler) throws(SystemError) {
        guard descriptor >= 0 else { throw SystemError(code: EBADF, operation: "epoll_ctl add") }
        let index = Int(descriptor)
        guard index < EventLoop.descriptorsMax else { throw SystemError(code: EMFILE, operation: "epoll_ctl add") }
        while registrations.count <= index {
            registrations.append(Registration(handler: nil, generation: 0))
        }
        let generation = registrations[index].generation &+ 1
        var event = epoll_event(descriptor: descriptor, generation: generation, interest: interest)
        guard epoll_ctl(epollDescriptor, EPOLL_CTL_ADD, descriptor, &event) == 0 else {
            throw SystemError(code: errno, operation: "epoll_ctl add")
        }
        let replacedHandler = registrations[index].handler
        registrations[index] = Registration(handler: handler, generation: generation)
        withExtendedLifetime(replacedHandler) {}
    }

    /// Changes which events of a descriptor the loop watches.
    ///
    /// - Throws: ENOENT if the loop does not watch the descriptor, or the error of the system call.
    public func update(descriptor: Int32, interest: DescriptorEvents) throws(SystemError) {
        guard let generation = generation(of: descriptor) else {
            throw SystemError(code: ENOENT, operation: "epoll_ctl update")
        }
        var event = epoll_event(descriptor: descriptor, generation: generation, interest: interest)
        guard epoll_ctl(epollDescriptor, EPOLL_CTL_MOD, descriptor, &event) == 0 else {
            throw SystemError(code: errno, operation: "epoll_ctl update")
        }
    }

    /// Stops watching a descriptor. Call this before the descriptor is closed. Events that were already fetched for it
    /// are discarded, even if the number is reused in the same iteration. Does nothing for a descriptor that the loop
    /// does not watch.
    public func remove(descriptor: Int32) {
        guard generation(of: descriptor) != nil else { return }
        var event = epoll_event()
        _ = epoll_ctl(epollDescriptor, EPOLL_CTL_DEL, descriptor, &event)
        // The handler's `deinit` may call the loop, so the handler is released only after the table was
        // changed.
        let removedHandler = registrations[Int(descriptor)].handler
        registrations[Int(descriptor)].handler = nil
        registrations[Int(descriptor)].generation &+= 1
        withExtendedLifetime(removedHandler) {}
    }

    private func generation(of descriptor: Int32) -> UInt32? {
        guard descriptor >= 0, Int(descriptor) < registrations.count, registrations[Int(descriptor)].handler != nil
        else {
            return nil
        }
        return registrations[Int(descriptor)].generation
    }

    // MARK: - Setting timers

    /// Schedules a timer that fires once, in the first iteration in which `nowMilliseconds` has grown by at least
    /// `afterMilliseconds`.
    ///
    /// Timers fire in the order of their deadlines. Timers with equal deadlines fire in the order of
    /// scheduling. A timer that another timer's handler schedules fires in a later iteration at the earliest.
    ///
    /// - Parameter afterMilliseconds: 0 or less: as soon as possible, but never inside this call.
    public func schedule(afterMilliseconds: Int64, handler: any TimerHandler, tag: UInt64) -> TimerIdentifier {
        let (deadlineMilliseconds, overflow) = nowMilliseconds.addingReportingOverflow(max(0, afterMilliseconds))
        return timers.insert(deadlineMilliseconds: overflow ? .max : deadlineMilliseconds, handler: handler, tag: tag)
    }

    /// Cancels a timer and releases its handler. Does nothing for a timer that has fired or was cancelled.
    public func cancel(_ timer: TimerIdentifier) {
        let cancelledTimer = timers.remove(timer)
        withExtendedLifetime(cancelledTimer) {}
    }

    /// The number of timers that have neither fired nor been cancelled.
    public var timerCount: Int { timers.count }

    // MARK: - Calls at the iteration's end

    /// Calls the handler once, at the end of this iteration. If no iteration is running, calls it at the end of the
    /// next iteration. The loop does not detect duplicates: a handler that is registered twice is called twice.
    ///
    /// A handler that is registered by an iteration-end handler runs in the same iteration, in a further pass. After
    /// `iterationEndPassesMax` passes, the remaining handlers run at the end of the next iteration, which does not wait
    /// for events.
    public func callAtIterationEnd(_ handler: any IterationEndHandler) {
        precondition(
            iterationEndHandlers.count < EventLoop.iterationEndHandlersMax,
            "iteration-end handlers are not deduplicated"
        )
        iterationEndHandlers.append(handler)
    }

    // MARK: - Looking up host names

    /// Resolves a host, without a cache. Calls `completion` on the loop's thread, never inside this call.
    ///
    /// A name is looked up on another thread. If `lookupsMax` look-ups are already running, the result is an error
    /// whose `isRetriable` is true. A numeric host needs no look-up.
    ///
    /// - Parameter completion: gets at least one address, in the order of RFC 6724, or the error. It is not called if
    ///   the loop is released or its `LoopThread` ends first.
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
            let resolver = try Resolver(loop: self, hostLookup: hostLookup)
            self.resolver = resolver
            resolver.resolve(host: host, port: port, completion: completion)
        } catch {
            callAtIterationEnd(FailedResolution(error: ResolveError(systemError: error), completion: completion))
        }
    }
}

private func readNanoseconds(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

extension epoll_event {
    fileprivate init(descriptor: Int32, generation: UInt32, interest: DescriptorEvents) {
        var flags: UInt32 = 0
        if interest.contains(.readable) { flags |= EPOLLIN.rawValue }
        if interest.contains(.writable) { flags |= EPOLLOUT.rawValue }
        let identity = UInt64(generation) << 32 | UInt64(UInt32(bitPattern: descriptor))
        self.init(events: flags, data: epoll_data_t(u64: identity))
    }
}

extension DescriptorEvents {
    fileprivate init(epoll flags: UInt32) {
        var events: DescriptorEvents = []
        if flags & EPOLLIN.rawValue != 0 { events.insert(.readable) }
        if flags & EPOLLOUT.rawValue != 0 { events.insert(.writable) }
        if flags & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { events.insert(.hangup) }
        self = events
    }
}
