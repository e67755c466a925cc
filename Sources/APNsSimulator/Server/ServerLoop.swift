import Glibc
import Numbers
import Reactor
import Synchronization

/// The settings and the objects that all threads of a simulator share.
struct ServiceSetup: @unchecked Sendable {
    // The keys are only read, which OpenSSL allows from several threads.
    let keys: [VerifyingKey]
    let environment: Environment
    let limits: SimulatorConfiguration.Limits
    let tls: TLSContext?
    let sharedModel: SharedDeviceModel
    let notifier: RegistrationNotifier
    /// The file of the push log; nil: pushes are not logged.
    let pushLogFile: PushLogFile?
}

/// Passes work from other threads to a service thread: calls of ``Simulator``, and new connections. Requests need no
/// mailbox, because they arrive on their service thread.
final class ServerLoopMailbox: Sendable {
    typealias WorkItem = @Sendable (ServerLoop) -> Void

    /// The maximum number of queued work items (R4). Calls of the control interface and accepted connections need far
    /// fewer.
    private static let queuedWorkItemsMax = 65_536

    private struct State {
        var workItems: [WorkItem] = []
        var isClosed = false
    }

    private let state = Mutex(State())
    let wakeup: Wakeup

    init() throws(SystemError) {
        wakeup = try Wakeup()
    }

    /// Queues work. Returns false if the mailbox is closed or full.
    func post(_ workItem: @escaping WorkItem) -> Bool {
        let isPosted = state.withLock { state in
            guard !state.isClosed, state.workItems.count < Self.queuedWorkItemsMax else { return false }
            state.workItems.append(workItem)
            return true
        }
        if isPosted { wakeup.signal() }
        return isPosted
    }

    func takeWorkItems() -> [WorkItem] {
        state.withLock { state in
            defer { state.workItems = [] }
            return state.workItems
        }
    }

    /// Refuses further work. The caller must still take and run the work that was posted before.
    func close() {
        state.withLock { $0.isClosed = true }
    }
}

/// One thread of the simulator. It serves both of Apple's services (pushes, and the management of channels), and owns
/// its connections, their requests in flight and the delayed responses.
final class ServerLoop {
    /// How far the simulated clock may be ahead of the real one: ten years, far more than an activity lives.
    static let clockAdvanceMillisecondsMax: Int64 = 3_650 * 86_400_000

    let loop: EventLoop
    let setup: ServiceSetup
    let mailbox: ServerLoopMailbox
    var random: SplitMix64
    private var faultSampler: FaultSampler
    private var managementFaultSampler = FaultSampler(Faults())
    var statistics = ServiceStatistics()
    var slab: RequestSlab
    var tape = JSONTape()
    /// The header fields of the response that is being written. All responses can use one array, because nghttp2 copies
    /// the array at once. But nghttp2 does not copy the names and values to which the fields point.
    let responseFields = ResponseFields()
    private let pushLog: PushLog?
    private var responseQueue = ResponseQueue()
    private var connections: [ObjectIdentifier: ServerConnection] = [:]
    /// How far the simulated clock is ahead of the wall clock, so that a simulation can skip hours.
    private var clockAdvanceMilliseconds: Int64 = 0
    private var responseTimer = TimerIdentifier.none
    private var responseTimerDueMilliseconds = Int64.max
    private var listeners: [Listener] = []
    private var listenerHandlers: [ServiceListenerHandler] = []
    private var threadMailboxes: [ServerLoopMailbox] = []
    private var nextThreadIndex = 0

    init(loop: EventLoop, setup: ServiceSetup, mailbox: ServerLoopMailbox, faultSampler: FaultSampler, seed: UInt64)
        throws(SystemError)
    {
        self.loop = loop
        self.setup = setup
        self.mailbox = mailbox
        self.faultSampler = faultSampler
        random = SplitMix64(seed: seed)
        slab = RequestSlab(slotsMax: setup.limits.requestsPerThreadMax)
        pushLog = setup.pushLogFile.map { PushLog(file: $0, loop: loop) }
        try loop.add(descriptor: mailbox.wakeup.descriptor, interest: .readable, handler: self)
    }

    /// The time of the simulated world, UNIX milliseconds.
    var simulatedWallMilliseconds: Int64 { loop.wallMilliseconds + clockAdvanceMilliseconds }

    func faults(of service: SimulatedService) -> Faults {
        service == .push ? faultSampler.faults : managementFaultSampler.faults
    }

    func connectionFaults(of service: SimulatedService) -> ConnectionFaults {
        service == .push ? faultSampler.connectionFaults : managementFaultSampler.connectionFaults
    }

    func sampleHandling(_ service: SimulatedService) -> RequestHandling {
        service == .push ? faultSampler.sampleHandling(&random) : managementFaultSampler.sampleHandling(&random)
    }

    func sampleLatencyMilliseconds(_ service: SimulatedService) -> Int64 {
        service == .push
            ? faultSampler.sampleLatencyMilliseconds(&random)
            : managementFaultSampler.sampleLatencyMilliseconds(&random)
    }

    /// Decides at random whether a 103 (Early Hints) precedes the next response. Returns whether it does.
    func sampleEarlyHints(_ service: SimulatedService) -> Bool {
        service == .push
            ? faultSampler.sampleEarlyHints(&random) : managementFaultSampler.sampleEarlyHints(&random)
    }

    /// Listens on an address, and returns the port. Distributes the accepted connections over the threads, round robin.
    func listen(on address: SocketAddress, for service: SimulatedService, threadMailboxes: [ServerLoopMailbox])
        throws(SystemError)
        -> UInt16
    {
        let listenerHandler = ServiceListenerHandler(self, service)
        let listener = try Listener(loop: loop, address: address, handler: listenerHandler)
        listenerHandlers.append(listenerHandler)
        listeners.append(listener)
        self.threadMailboxes = threadMailboxes
        return listener.port
    }

    /// Serves an accepted connection on this thread. If the thread already has too many connections, closes the new one
    /// at once.
    func addConnection(descriptor: Int32, service: SimulatedService) {
        guard connections.count < setup.limits.connectionsPerThreadMax,
            let connection = ServerConnection(descriptor, service: service, server: self)
        else {
            close(descriptor)
            return
        }
        connections[ObjectIdentifier(connection)] = connection
        statistics.acceptedConnectionCount += 1
        statistics.openConnectionCount += 1
    }

    /// Releases a connection that has closed. A second call for the same connection changes nothing.
    func remove(_ connection: ServerConnection) {
        guard connections.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return }
        statistics.openConnectionCount -= 1
    }

    func setFaults(_ faults: Faults, of service: SimulatedService) {
        if service == .push {
            faultSampler = FaultSampler(faults)
        } else {
            managementFaultSampler = FaultSampler(faults)
        }
        for connection in connections.values where connection.service == service {
            connection.announceStreamLimit()
            connection.send()
        }
    }

    func advanceClock(milliseconds: Int64) {
        let (sum, overflow) = clockAdvanceMilliseconds.addingReportingOverflow(milliseconds)
        clockAdvanceMilliseconds =
            overflow ? Self.clockAdvanceMillisecondsMax : min(sum, Self.clockAdvanceMillisecondsMax)
    }

    /// Returns the counts so far. First corrects `lastSecondRequestCount`, which is out of date if no request has come
    /// since.
    func currentStatistics() -> ServiceStatistics {
        statistics.finishSecondIfOver(nowMilliseconds: loop.wallMilliseconds)
        statistics.lostPushLogLineCount = pushLog?.lostLineCount ?? 0
        return statistics
    }

    /// Logs a push or a broadcast. Does nothing for other requests, or if there is no push log.
    func log(_ slot: UnsafeMutablePointer<RequestSlot>, _ result: LoggedPushResult) {
        let path = slot.pointee.head.path
        guard let pushLog, path != .channels, path != .channelList else { return }
        let token = slot.pointee.memory.prefix(slot.pointee.head.tokenByteCount, of: RequestMemory.tokenByteRange)
        let destination = setup.sharedModel.withModel { $0.destination(ofToken: token, effect: result.effect) }
        pushLog.log(slot, result, destination: destination, tape: &tape, nowMilliseconds: simulatedWallMilliseconds)
    }

    func resetStatistics() {
        var freshStatistics = ServiceStatistics()
        freshStatistics.openConnectionCount = statistics.openConnectionCount
        statistics = freshStatistics
    }

    func sendGoAwayToAll(_ goAway: GoAway) {
        for connection in connections.values { connection.sendGoAway(goAway) }
    }

    func cutAllConnections() {
        for connection in Array(connections.values) { connection.closeWithoutCloseNotify() }
    }

    func makeAllConnectionsHalfOpen(stopsReading: Bool) {
        for connection in connections.values { connection.becomeHalfOpen(stopsReading: stopsReading) }
    }

    /// Closes the listeners, runs the queued work, closes all connections, and ends the event loop of this thread.
    func shutDown() {
        for listener in listeners { listener.close() }
        mailbox.close()
        for work in mailbox.takeWorkItems() { work(self) }
        for connection in Array(connections.values) { connection.close() }
        loop.cancel(responseTimer)
        loop.remove(descriptor: mailbox.wakeup.descriptor)
        pushLog?.flush()
        loop.stop()
    }

    /// Schedules the response to a request. Returns false if too many responses wait already.
    func scheduleResponse(_ slot: UnsafeMutablePointer<RequestSlot>, afterMilliseconds: Int64) -> Bool {
        guard !responseQueue.isFull else { return false }
        let dueMilliseconds = loop.nowMilliseconds + afterMilliseconds
        responseQueue.insert(
            ResponseQueue.Entry(dueMilliseconds: dueMilliseconds, slot: slot, generation: slot.pointee.generation)
        )
        scheduleResponseTimer()
        return true
    }

    /// Sets the timer for the earliest delayed response, unless the timer fires earlier anyway.
    private func scheduleResponseTimer() {
        guard let dueMilliseconds = responseQueue.earliestDueMilliseconds,
            dueMilliseconds < responseTimerDueMilliseconds
        else { return }
        loop.cancel(responseTimer)
        responseTimerDueMilliseconds = dueMilliseconds
        responseTimer = loop.schedule(
            afterMilliseconds: max(0, dueMilliseconds - loop.nowMilliseconds),
            handler: self,
            tag: 0
        )
    }

    /// Wakes readers that wait for registrations, if the number of registrations has changed: new ones were posted, or
    /// a reset removed them.
    func notifyOfRegistrations() {
        setup.sharedModel.withModel { devices in
            let count = devices.registrationCount
            if count != setup.notifier.notifiedRegistrationCount.load(ordering: .relaxed) {
                setup.notifier.notify(registrationCount: count)
            }
        }
    }
}

extension ServerLoop: TimerHandler {
    func timerFired(tag: UInt64) {
        responseTimerDueMilliseconds = .max
        while let entry = responseQueue.pop(nowMilliseconds: loop.nowMilliseconds) {
            let slot = entry.slot
            guard slot.pointee.generation == entry.generation, let connection = slot.pointee.connection else {
                continue
            }
            connection.takeUnretainedValue().submitResponseAndSend(slot)
        }
        scheduleResponseTimer()
    }
}

extension ServerLoop: DescriptorHandler {
    func descriptorReady(_ events: DescriptorEvents) {
        mailbox.wakeup.reset()
        for work in mailbox.takeWorkItems() { work(self) }
    }
}

/// Passes new connections from a listener to the `ServerLoop`, which distributes them over the threads.
///
/// The `ServerLoop` itself must not be the handler: a listener has a weak reference to its handler, and Swift retains
/// an object with weak references more slowly. Each request retains the `ServerLoop`.
private final class ServiceListenerHandler: ListenerHandler {
    /// Always valid, because the `ServerLoop` owns its listeners' handlers.
    private unowned let server: ServerLoop
    private let service: SimulatedService

    init(_ server: ServerLoop, _ service: SimulatedService) {
        self.server = server
        self.service = service
    }

    func listenerAccepted(descriptor: Int32, from: SocketAddress?) {
        server.distribute(descriptor: descriptor, service: service)
    }
}

extension ServerLoop {
    /// Passes a connection to the next thread, round robin.
    fileprivate func distribute(descriptor: Int32, service: SimulatedService) {
        guard threadMailboxes.count > 1 else { return addConnection(descriptor: descriptor, service: service) }
        nextThreadIndex = (nextThreadIndex + 1) % threadMailboxes.count
        if !threadMailboxes[nextThreadIndex].post({ $0.addConnection(descriptor: descriptor, service: service) }) {
            close(descriptor)
        }
    }
}
